"""What share is called significant where there is no effect: every kind of null that occurs.

`python tests/calibration.py` prints the table; `tests/numerics/test_significance.py` holds it to its bounds,
with fewer simulations and the binomial error that they have.
A kind is a function that gives p-values under its null with their weights: simulations, or all
outcomes with their probabilities.
"""

import functools
import itertools
import math

import attrs
import numpy as np
import torch
from penchant import Quantity
from penchant_numerics import significance, statistics
from penchant_report.pooling import difference, paired_difference, pooled
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
    """

    name: str
    size: str
    p_values: object
    least: float = 0.005
    most: float = 0.015
    simulations: int | None = None

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


def drawn_null(draws, random):
    value, *null = random.normal(size=draws + 1)
    return Quantity(value, **statistics.null_of(null, value=value)).null_p_value


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


def near_one(true, count, random):
    """A correlation against its known value, with the error of a jackknife."""
    x = random.normal(size=count)
    y = true * x + math.sqrt(1 - true**2) * random.normal(size=count)
    # all correlations with one pair left out, from sums
    pairs = np.stack([x, y, x * x, y * y, x * y])
    sums = np.concatenate([pairs.sum(1, keepdims=True), pairs.sum(1, keepdims=True) - pairs], 1)
    sums /= np.array([count, *[count - 1] * count])
    mx, my, xx, yy, xy = sums
    whole, *without = (xy - mx * my) / np.sqrt((xx - mx**2) * (yy - my**2))
    stderr = statistics.jackknife(without)
    p = statistics.correlation_p_value(whole, true, stderr, count - 2)
    return Quantity(whole, stderr=stderr, df=count - 2, null=true, p=p).null_p_value


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
    return [*_one_number(), *_discrete(), *_seeds(), *_two_numbers(), *_tables()]


def _kind(name, size, one, *arguments, simulations=SIMULATIONS, **bounds):
    p_values = functools.partial(simulated, functools.partial(one, *arguments))
    return Kind(name, size, p_values, simulations=simulations, **bounds)


def _one_number():
    yield _kind("normal, known error", "1", known_error)
    for count in range(2, 12):
        yield _kind("mean of repetitions", f"{count}", repetitions, count)
    for draws in (8, 20, 199, 999):
        few = 3000 if draws == 999 else SIMULATIONS
        yield _kind("null drawn", f"{draws} draws", drawn_null, draws, simulations=few)
    # the larger of two errors that are both right decides, which is careful
    for count, draws in ((2, 20), (5, 8), (5, 50), (30, 50)):
        size = f"{count}, {draws} draws"
        name = "mean of repetitions, null drawn"
        yield _kind(name, size, repetitions_and_drawn_null, count, draws, least=0.001)
    yield _kind(
        "mean of repetitions, null drawn", "5, 199 draws", repetitions_and_drawn_null, 5, 199
    )
    yield _kind("two samples, permuted", "8 + 8", two_samples, 8, 199, simulations=4000)
    for count in (12, 50):
        yield _kind(
            "rank correlation, 199 permutations", f"{count}", random_orders, count, simulations=2000
        )
    for true, count in itertools.product((0.5, 0.9, 0.99), (10, 50)):
        yield _kind(f"correlation of {true}", f"{count}", near_one, true, count, simulations=10_000)


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
        # the larger of two errors that are both right decides, which is careful
        yield _kind("seeds of 3 repetitions", f"{seeds}", repeated_seeds, seeds, 3, least=0.004)
        yield _kind("seeds without errors", f"{seeds}", bare_seeds, seeds)
        yield _kind("seeds, null drawn 8 times", f"{seeds}", drawn_seeds, seeds, 8, least=0.004)
        yield _kind("seeds, null drawn 199 times", f"{seeds}", drawn_seeds, seeds, 199)
    for seeds in (2, 3):
        p_values = functools.partial(ordered_seeds, seeds, 6)
        yield Kind("seeds, rank correlation of 6", f"{seeds}", p_values)


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
    for seeds in (3, 5):
        yield _kind("paired seeds", f"{seeds}", paired_seeds, seeds)


def _tables():
    yield _kind("table of normal numbers", "20", family, known_error, 20, simulations=4000)
    three = functools.partial(repetitions, 3)
    yield _kind("table of means of 3", "20", family, three, 20, simulations=4000)
    draws = functools.partial(drawn_null, 199)
    yield _kind("table of drawn nulls", "20, 199 draws", family, draws, 20, simulations=4000)


def main():
    """Print a row per kind."""
    print(f"{'kind':36} {'n':16} significant   bounds")
    for kind in kinds():
        share = kind.share()
        bounds = f"{100 * kind.least:.2f} to {100 * kind.most:.2f} %"
        mark = "" if kind.least <= share <= kind.most else "  outside"
        print(f"{kind.name:36} {kind.size:16} {100 * share:9.2f} %   {bounds}{mark}", flush=True)


if __name__ == "__main__":
    main()
