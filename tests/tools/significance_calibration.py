"""What share is called significant where there is no effect: every kind of null that occurs.

`make calibration` prints the table with counts and binomial errors, and then the power of ordinary
cases; `tests/numerics/test_significance.py` holds it to its bounds, with fewer simulations.
A kind is a function that gives p-values under its null with their weights: simulations, or all
outcomes with their probabilities. `limits` are nulls that no rule can see in the numbers alone.
"""

import functools
import itertools
import math

import attrs
import numpy as np
import torch
from penchant import Quantity
from penchant_numerics.statistics import significance, statistics
from penchant_report.pooling import difference, paired_difference, pooled
from penchant_spectral_bias.shared.waves import against_control
from scipy import stats

SIMULATIONS = 5000


@attrs.frozen
class Kind:
    """A kind of null.

    Attributes:
        name: What is compared with what.
        size: Repetitions, samples, draws or seeds.
        p_values: Gives p-values, and weights that add up to one; of so many simulations where
            there are any.
        least, most: Bounds of the share that is called significant.
        simulations: How many the table has; None where all outcomes are known.
        fast: How many the tests have.
    """

    name: str
    size: str
    p_values: object
    least: float = 0.005
    most: float = 0.015
    simulations: int | None = None
    fast: int = 1000

    def share(self, simulations=None):
        """The share of p-values that are called significant one by one."""
        count = simulations or self.simulations
        p, weights = self.p_values(count) if self.simulations else self.p_values()
        return sum(
            weight for each, weight in zip(p, weights) if significance.significant([each])[0]
        )


def simulated(one, simulations, seed=0):
    """P-values of as many simulations of `one(random)`, all of the same weight."""
    random = np.random.default_rng(seed)
    return [one(random) for _ in range(simulations)], [1 / simulations] * simulations


# ---- one number against its null


def known_error(random):
    return Quantity(random.normal(), stderr=1.0, null=0.0).null_p_value


def repetitions(count, random):
    return Quantity.of(random.normal(size=count), over="trainings", null=0.0).null_p_value


SHAPES = {
    "normal": lambda random, size: random.normal(size=size),
    "exponential": lambda random, size: random.exponential(size=size),
    "lognormal": lambda random, size: random.lognormal(size=size),
    "mildly lognormal": lambda random, size: random.lognormal(sigma=0.5, size=size),
    "chi-squared of 3": lambda random, size: random.chisquare(3, size=size),
    "Student's t of 3": lambda random, size: random.standard_t(3, size=size),
    "Cauchy": lambda random, size: random.standard_cauchy(size=size),
}
MEANS = {"exponential": 1.0, "lognormal": math.exp(0.5), "mildly lognormal": math.exp(0.125)}


def skewed(shape, count, random):
    """Positive repetitions against their true mean."""
    values = SHAPES[shape](random, count)
    return Quantity.of(values, over="trainings", null=MEANS[shape]).null_p_value


def factors(count, random):
    """Positive repetitions that are declared multiplicative, against a factor of 1."""
    values = random.lognormal(size=count)
    return Quantity.of(values, over="trainings", null=1.0, multiplicative=True).null_p_value


def skewed_around_zero(shape, count, random):
    """Differences that are skewed, and 0 in the mean."""
    values = SHAPES[shape](random, count) - MEANS[shape]
    return Quantity.of(values, over="trainings", null=0.0).null_p_value


def correlated(count, random):
    """Repetitions that share some of their variance, and say nothing of it."""
    values = random.normal(size=count) + math.sqrt(0.3 / 0.7) * random.normal()
    return Quantity.of(values, over="trainings", null=0.0).null_p_value


def rare_events(expected, count, random):
    """Counts of which most repetitions have none."""
    values = random.poisson(expected, size=count)
    return Quantity.of(values, over="trainings", null=expected).null_p_value


def at_the_ceiling(rate, samples, count, random):
    """Accuracies of which most are 1."""
    values = random.binomial(samples, rate, size=count) / samples
    return Quantity.of(values, over="trainings", null=rate).null_p_value


def controls(count, few, random):
    """Trainings against fewer or more trainings without the effect."""
    values, control = (torch.tensor(random.normal(size=each)) for each in (count, few))
    return against_control(values, control, paired=False).null_p_value


def drawn_null(draws, random, shape="normal"):
    value, *null = SHAPES[shape](random, draws + 1)
    return Quantity(value, **statistics.null_of(null, value=value)).null_p_value


def narrow_draws(count, draws, random):
    """A mean whose own error is far larger than the spread of the draws."""
    null = random.normal(scale=0.1, size=draws)
    values = random.normal(size=count)
    return Quantity.of(values, over="trainings", null_draws=null).null_p_value


def repetitions_and_drawn_null(count, draws, random):
    """A mean with its own error, compared with draws of the same spread."""
    null = random.normal(scale=count**-0.5, size=draws)
    found = Quantity.of(random.normal(size=count), over="trainings", null_draws=null)
    return found.null_p_value


def two_samples(count, draws, random):
    """The difference of two means among permutations of who belongs to which."""
    values = random.exponential(size=2 * count)
    orders = random.random((draws, 2 * count)).argsort(1)
    permuted = values[orders]
    null = permuted[:, :count].mean(1) - permuted[:, count:].mean(1)
    value = values[:count].mean() - values[count:].mean()
    return Quantity(value, **statistics.null_of(null, value=value)).null_p_value


# ---- correlations


def exact_orders(count):
    """A rank correlation of so few pairs that all orders are known."""
    every = np.array(list(itertools.permutations(range(count))))
    middle = (count - 1) / 2
    products = (every - middle) @ (np.arange(count) - middle)
    # of equal products one order stands for all
    distinct, first, often = np.unique(products, return_index=True, return_counts=True)
    p = []
    for order in every[first]:
        found = statistics.rank_correlation(range(count), order, generator=None)
        p.append(Quantity(**found.fields(), over="pairs").null_p_value)
    return p, often / len(every)


def random_orders(count, random):
    stream = torch.Generator("cpu").manual_seed(int(random.integers(2**31)))
    found = statistics.rank_correlation(
        range(count), random.normal(size=count), generator=stream, permutations=199
    )
    return Quantity(**found.fields(), over="pairs").null_p_value


# ---- shares and counts: every outcome


def shares(rate, count):
    outcomes = range(count + 1)
    p = [statistics.share_p_value(right / count, count, rate) for right in outcomes]
    return p, stats.binom.pmf(outcomes, count, rate)


def counts(expected):
    outcomes = range(int(expected + 12 * math.sqrt(expected) + 30))
    return [statistics.count_p_value(each, expected) for each in outcomes], stats.poisson.pmf(
        outcomes, expected
    )


def _sizes(count):
    """Probabilities of the sizes of a rank correlation, from the least likely."""
    middle = (count - 1) / 2
    orders = np.array(list(itertools.permutations(range(count)))) - middle
    sizes, often = np.unique(abs(orders @ (np.arange(count) - middle)), return_counts=True)
    return often[::-1] / len(orders)


def attainable(chances):
    """Shares that a test of the less likely outcomes can have: just below and just above 1 %."""
    sizes = np.cumsum(np.sort(chances))  # the largest correlation is the least likely, too
    place = int(np.searchsorted(sizes, significance.LEVEL, side="right"))
    return sizes[place - 1] if place else 0.0, sizes[place]


# ---- seeds


def against_null(quantities):
    return pooled(quantities).against_null.p


def known_seeds(seeds, random):
    return against_null([Quantity(x, stderr=1.0, null=0.0) for x in random.normal(size=seeds)])


def small_claims(seeds, random):
    """Errors that are claimed half as large as they are."""
    return against_null([Quantity(x, stderr=0.5, null=0.0) for x in random.normal(size=seeds)])


def sharing_seeds(seeds, random):
    """Seeds of the same samples, which make half of their variance."""
    values = math.sqrt(0.5) * (random.normal(size=seeds) + random.normal())
    own = [Quantity(x, stderr=1.0, over="test samples", null=0.0) for x in values]
    return pooled(own, shared=True).against_null.p


def one_network(seeds, random):
    """Seeds that share everything but a little: one trained network, other start vectors."""
    values = random.normal() + 0.01 * random.normal(size=seeds)
    return against_null([Quantity(x, stderr=1.0, null=0.0) for x in values])


def repeated_seeds(seeds, count, random):
    found = []
    for values in random.normal(size=(seeds, count)):
        found.append(Quantity.of(values, over="trainings", null=0.0))
    return against_null(found)


def bare_seeds(seeds, random):
    """Values without an error of their own."""
    return against_null([Quantity(x, null=0.0) for x in random.normal(size=seeds)])


def drawn_seeds(seeds, draws, random):
    found = []
    for value, *null in random.normal(size=(seeds, draws + 1)):
        found.append(Quantity(value, **statistics.null_of(null, value=value)))
    return against_null(found)


def ordered_seeds(seeds, count):
    """Rank correlations of all orders, every combination of seeds."""
    p, chances = exact_orders(count)
    values = np.linspace(-1, 1, len(p))  # a correlation of each p-value has its sign
    together, weights = [], []
    for chosen in itertools.product(range(len(p)), repeat=seeds):
        own = [Quantity(values[each], null=0.0, p=p[each]) for each in chosen]
        together.append(against_null(own))
        weights.append(math.prod(chances[each] for each in chosen))
    return together, weights


# ---- two numbers


def two_means(first, second, random):
    """Means of different numbers of repetitions, of which one kind spreads twice as far."""
    one = Quantity.of(random.normal(size=first), over="trainings")
    other = Quantity.of(random.normal(scale=2.0, size=second), over="trainings")
    return difference(pooled([one]), pooled([other])).p


def paired_seeds(seeds, random):
    shared = random.normal(scale=5.0, size=seeds)
    first = [Quantity(x, stderr=5.0) for x in shared + random.normal(size=seeds)]
    second = [Quantity(x, stderr=5.0) for x in shared + random.normal(size=seeds)]
    return paired_difference(first, second).p


# ---- tables: anything in it


def family(one, comparisons, random):
    """The smallest p-value of a table after Holm's correction, which is 1 % where it is decided."""
    p = [one(random) for _ in range(comparisons)]
    return 0.0 if any(significance.significant(p)) else 1.0


def kinds():
    """Every kind of null."""
    return [
        *_one_number(),
        *_skewed(),
        *_drawn(),
        *_discrete(),
        *_seeds(),
        *_two_numbers(),
        *_tables(),
    ]


def limits():
    """Nulls that are not seen in the numbers alone, each with the reason."""
    return [*_limits()]


def _kind(name, size, one, *arguments, simulations=SIMULATIONS, **bounds):
    p_values = functools.partial(simulated, functools.partial(one, *arguments))
    return Kind(name, size, p_values, simulations=simulations, **bounds)


CAREFUL = 0.0  # a rule that asks for more than its null needs


def _one_number():
    yield _kind("normal, known error", "1", known_error)
    for count in range(2, 12):
        yield _kind(
            "mean of repetitions", f"{count}", repetitions, count, simulations=20_000, fast=2000
        )


def _skewed():
    for count in (2, 3, 5, 10, 30):
        yield _kind("factors, lognormal", f"{count}", factors, count)
    # larger than zero, and so taken for lognormal ones: careful where they are not, or vary little
    for shape, count in itertools.product(MEANS, (3, 5, 10, 30)):
        yield _kind(f"mean, {shape}", f"{count}", skewed, shape, count, least=CAREFUL)
    yield _kind("around 0, exponential", "30", skewed_around_zero, "exponential", 30)
    yield _kind("around 0, mildly lognormal", "30", skewed_around_zero, "mildly lognormal", 30)


def _drawn():
    for draws in (199, 999):
        for shape in SHAPES:
            few = 3000 if draws == 999 else SIMULATIONS
            yield _kind(
                f"null drawn, {shape}",
                f"{draws} draws",
                functools.partial(drawn_null, shape=shape),
                draws,
                simulations=few,
                fast=500 if draws == 999 else 1000,
            )
    # their spread decides, as if they were exponential: careful where they are not
    for draws, shape in itertools.product((3, 8, 20), ("normal", "exponential")):
        one = functools.partial(drawn_null, shape=shape)
        yield _kind(f"null drawn, {shape}", f"{draws} draws", one, draws, least=CAREFUL)
    # both errors count, which is careful where they are the same
    for count, draws in ((2, 20), (5, 8), (5, 50), (30, 50), (5, 199)):
        size = f"{count}, {draws} draws"
        name = "mean of repetitions, null drawn"
        yield _kind(name, size, repetitions_and_drawn_null, count, draws, least=CAREFUL)
    yield _kind("mean of repetitions, draws narrow", "5, 199 draws", narrow_draws, 5, 199)
    yield _kind("two samples, permuted", "8 + 8", two_samples, 8, 199, simulations=4000)
    for count in (12, 50):
        yield _kind(
            "rank correlation, permuted",
            f"{count}",
            random_orders,
            count,
            simulations=2000,
            fast=200,
        )


def _discrete():
    for count in (6, 8):
        p_values = functools.partial(exact_orders, count)
        yield Kind("rank correlation, all orders", f"{count}", p_values, *_bounds(_sizes(count)))
    for rate, count in itertools.product((0.5, 0.9, 0.99), (50, 100, 200, 500, 1000)):
        chances = stats.binom.pmf(range(count + 1), count, rate)
        yield Kind(
            f"share of {rate}",
            f"{count}",
            functools.partial(shares, rate, count),
            *_bounds(chances),
        )
    for expected, count in ((0.1, 10), (0.5, 5), (1.0, 10), (3.0, 5)):
        size = f"{count} of {expected:g}"
        yield _kind("rare events", size, rare_events, expected, count, least=CAREFUL)
    for rate, samples, count in ((0.999, 100, 3), (0.999, 1000, 5), (0.999, 100, 10)):
        size = f"{count} of {samples}"
        one = at_the_ceiling
        yield _kind(f"accuracies of {rate}", size, one, rate, samples, count, least=CAREFUL)
    for expected in (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0):
        p_values = functools.partial(counts, expected)
        yield Kind("count", f"{expected:g} expected", p_values, *_bounds(p_values()[1]))


def _bounds(chances):
    """Half a per cent to one and a half; where no outcome lies between, exactly what is below."""
    below, above = attainable(chances)
    if below < 0.005 and above > 0.015:
        return below - 1e-9, below + 1e-9
    return 0.005, 0.015


def _seeds():
    for seeds in (2, 3, 5):
        yield _kind("seeds, known errors", f"{seeds}", known_seeds, seeds, simulations=20_000)
        # of two, the larger of two errors that are both right decides, which is careful
        least = CAREFUL if seeds == 2 else 0.005
        yield _kind("seeds of 3 repetitions", f"{seeds}", repeated_seeds, seeds, 3, least=least)
        yield _kind("seeds without errors", f"{seeds}", bare_seeds, seeds)
        yield _kind("seeds, null drawn 8 times", f"{seeds}", drawn_seeds, seeds, 8, least=least)
        yield _kind("seeds, null drawn 199 times", f"{seeds}", drawn_seeds, seeds, 199, fast=1000)
    for seeds in (3, 5, 10):
        yield _kind("seeds that claim half of their error", f"{seeds}", small_claims, seeds)
        # how much of their error they share is not known: as if it were all
        yield _kind("seeds of the same samples", f"{seeds}", sharing_seeds, seeds, least=CAREFUL)
        yield _kind("seeds of one network", f"{seeds}", one_network, seeds, least=CAREFUL)
    for seeds in (2, 3):
        p_values = functools.partial(ordered_seeds, seeds, 6 if seeds == 2 else 5)
        size = f"{seeds}, of {6 if seeds == 2 else 5}"
        yield Kind("seeds, rank correlation", size, p_values, least=CAREFUL)


def _two_numbers():
    for count in (3, 5, 11):
        yield _kind("two means", f"{count} and {count}", two_means, count, count)
    # no test of two means is exact where their spreads are unknown: too few rather than too many
    for first, second in ((2, 2), (2, 8), (3, 8), (11, 3), (30, 3), (30, 5)):
        yield _kind(
            "two means",
            f"{first} and {second}",
            two_means,
            first,
            second,
            simulations=20_000,
            least=0.001,
        )
    # trainings and controls
    for count, few in ((12, 2), (8, 2), (12, 3), (5, 3), (5, 5)):
        size = f"{count} and {few}"
        yield _kind("trainings and controls", size, controls, count, few, least=CAREFUL)
    for seeds in (3, 5):
        yield _kind("paired seeds", f"{seeds}", paired_seeds, seeds)


def _tables():
    yield _kind("table of normal numbers", "20", family, known_error, 20, simulations=4000)
    rows = {
        "means of 3": (functools.partial(repetitions, 3), 0.005),
        "factors of 5": (functools.partial(factors, 5), 0.005),
        "lognormal means of 5": (functools.partial(skewed, "lognormal", 5), CAREFUL),
        "trainings and 2 controls": (functools.partial(controls, 12, 2), CAREFUL),
        "rare events of 10": (functools.partial(rare_events, 0.1, 10), CAREFUL),
        "3 seeds that claim half": (functools.partial(small_claims, 3), CAREFUL),
    }
    for name, (one, least) in rows.items():
        name = f"table of {name}"
        yield _kind(name, "20", family, one, 20, simulations=2000, fast=300, least=least)
    # careful far beyond the draws
    for shape, comparisons in itertools.product(SHAPES, (20, 100)):
        yield _kind(
            f"table of drawn nulls, {shape}",
            f"{comparisons}, 199 draws",
            family,
            functools.partial(drawn_null, 199, shape=shape),
            comparisons,
            simulations=2000 if comparisons == 20 else 1000,
            fast=200 if comparisons == 20 else 40,
            least=CAREFUL,
        )
    yield _kind(
        "table of rank correlations",
        "20, 12 pairs",
        family,
        functools.partial(random_orders, 12),
        20,
        simulations=1000,
        fast=20,
        least=CAREFUL,
    )


def _limits():
    reason = "fewer than 10 around 0 are taken as symmetric"
    for shape, count in itertools.product(MEANS, (3, 5, 10)):
        about = reason if count < 10 else "10 hardly show their skewness"
        yield _kind(f"around 0, {shape}", f"{count}", skewed_around_zero, shape, count), about
    for draws, comparisons in ((8, 1), (20, 1), (20, 20)):
        one = functools.partial(drawn_null, draws, shape="lognormal")
        name = "null drawn, lognormal"
        size = f"{draws} draws, table of {comparisons}"
        about = "few draws are taken as at most exponential"
        yield _kind(name, size, family, one, comparisons, simulations=3000), about
    about = "two seeds cannot test their errors"
    yield _kind("seeds that claim half of their error", "2", small_claims, 2), about
    about = "what repetitions share is not in their spread"
    yield _kind("repetitions correlated by 0.3", "10", correlated, 10), about


# ---- power: what is still seen


def power():
    """Ordinary effects with the share that is called significant, alone and in a table of 20."""
    for count, effect in ((3, 10.0), (5, 3.0), (10, 1.5), (30, 0.7)):
        shift = functools.partial(_shifted_mean, count, effect)
        yield f"mean of {count} normal numbers, {effect:g} spreads from 0", shift
    for count, effect in ((3, 10.0), (5, 3.0), (10, 1.5)):
        shift = functools.partial(_shifted_positive, count, effect)
        yield f"mean of {count}, 10 ± 1, null {10 - effect:g}", shift
    for draws, effect in ((8, 6.0), (20, 6.0), (199, 6.0), (199, 10.0), (999, 6.0)):
        shift = functools.partial(_shifted_draws, draws, effect)
        yield f"{draws} normal draws, {effect:g} spreads from them", shift
    for count, few, effect in ((12, 2, 3.0), (5, 5, 3.0)):
        shift = functools.partial(_shifted_controls, count, few, effect)
        yield f"{count} trainings, {few} controls, {effect:g} spreads apart", shift
    for seeds, effect in ((2, 5.0), (3, 5.0), (5, 3.0), (10, 1.5)):
        shift = functools.partial(_shifted_seeds, seeds, effect)
        yield f"{seeds} seeds with known errors, {effect:g} of them from 0", shift


def _shifted_mean(count, effect, random):
    values = random.normal(effect, size=count)
    return Quantity.of(values, over="trainings", null=0.0).null_p_value


def _shifted_positive(count, effect, random):
    values = random.normal(10.0, size=count)
    return Quantity.of(values, over="trainings", null=10.0 - effect).null_p_value


def _shifted_draws(draws, effect, random):
    value = effect + random.normal()
    null = random.normal(size=draws)
    return Quantity(value, **statistics.null_of(null, value=value)).null_p_value


def _shifted_controls(count, few, effect, random):
    values, control = (torch.tensor(random.normal(size=each)) for each in (count, few))
    return against_control(values + effect, control, paired=False).null_p_value


def _shifted_seeds(seeds, effect, random):
    values = random.normal(effect, size=seeds)
    return against_null([Quantity(x, stderr=1.0, null=0.0) for x in values])


def main():
    """Print a row per kind, then what no rule sees, then power."""
    print(f"{'null':40} {'n':18} {'called':>12}  share at 1 %      bounds")
    for kind in kinds():
        share, text = _counted(kind)
        bounds = f"{100 * kind.least:.2f} to {100 * kind.most:.2f} %"
        mark = "" if kind.least <= share <= kind.most else "  outside"
        print(f"{kind.name:40} {kind.size:18} {text}  {bounds}{mark}", flush=True)
    print("\nWhat numbers alone do not show")
    for kind, reason in limits():
        _, text = _counted(kind)
        print(f"{kind.name:40} {kind.size:18} {text}  {reason}", flush=True)
    print("\nPower: called of 2000, alone and in a table of 20")
    for name, one in power():
        p, _ = simulated(one, 2000)
        alone, among = (
            sum(each is not None and each <= level for each in p)
            for level in (significance.LEVEL, significance.LEVEL / 20)
        )
        print(f"{name:52} {alone / 20:5.1f} %  {among / 20:5.1f} %", flush=True)


def _counted(kind):
    """The share that is called significant, and the same with its count and binomial error."""
    share = kind.share()
    if kind.simulations is None:
        return share, f"{'exact':>12}  {100 * share:5.2f} %       "
    called = round(share * kind.simulations)
    error = statistics.binomial_stderr(share, kind.simulations)
    count = f"{called} of {kind.simulations}"
    return share, f"{count:>12}  {100 * share:5.2f} ± {100 * error:4.2f} %"


if __name__ == "__main__":
    main()
