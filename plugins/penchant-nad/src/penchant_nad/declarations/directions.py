"""Which directions an architecture prefers: the estimator and the probes that show them."""

import attrs
import penchant

# Like methods: the derivative at a point, and the coarse differences of the paper.
LOCAL = [
    {"name": "gradient-covariance", "method": "autograd"},
    {"name": "mixed-derivative", "method": "exact"},
]
COARSE = [
    {"name": "gradient-covariance"},
    {"name": "mixed-derivative", "method": "finite-difference"},
]

# The whole matrix of a deep network costs thousands of gradients: the first pairs do not.
COARSE_LEADING = {"name": "mixed-derivative", "method": "finite-difference", "leading": 20}


@attrs.frozen
class GradientCovariance(penchant.Estimator):
    """Second moment of input gradients over fresh networks.

    `finite-difference` is the published method: central differences with a step of 100 at a
    Gaussian point that all networks share. This is not a derivative at the point. As the step
    grows, it tends to `impulse`, the response of the network without biases to single pixels.
    `autograd` is the local gradient. The three methods measure different derivatives.

    Reference: Neural Anisotropy Directions, supplement, algorithm 1. The definition is uncentred;
    the published code centres.
    """

    name = "gradient-covariance"
    role = "directions"
    target = "penchant_nad.estimators.gradient_covariance:estimate"
    vectors_a_network = 1  # so there are no more directions than networks

    # How and where gradients are taken.
    method: str = penchant.option(
        "finite-difference",
        "how gradients are taken",
        choices=("finite-difference", "impulse", "autograd"),
    )
    step: float = penchant.option(100.0, "step h of the finite differences", above=0)
    point: str = penchant.option(
        "gaussian", "where gradients are taken", choices=("gaussian", "zero")
    )
    centred: bool = penchant.option(False, "subtract the mean gradient")


@attrs.frozen
class Nad(penchant.Probe):
    r"""Neural anisotropy directions (NADs): eigenvectors of the input-gradient second moment.

    The second moment is $\mathbb{E}_\theta[g g^\top]$, where $g$ is the gradient of the output with
    respect to the input and the mean is over fresh networks. NADs are sorted by eigenvalue. Null:
    gradients with the same norms in random directions. Compare eigenvalues with the null index by
    index, because sorted eigenvalues decrease even without a preference.

    For a trained network of your own, gradients are taken at samples of its dataset, and standard
    errors are over samples.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020.
    """

    name = "nad"
    example = "penchant probe nad -a lenet"
    question = "Which input directions does a network prefer?"
    target = "penchant_nad.nad.probe:run"
    figures = "penchant_nad.nad.figures:draw"
    needs = ("architecture", "scalar-output", "continuous-inputs")
    takes = ("fresh", "trained")
    accepts = ("dataset",)
    roles = {"directions": "gradient-covariance"}
    quantities = {
        "trace": "mean squared norm of the gradient",
        "effective-rank": "number of directions that count (exponential of the spectral entropy)",
        "directions-90": "number of directions that carry 90 % of the trace",
        "directions-above-null": "number of leading directions with eigenvalues above those of "
        "an isotropic architecture; p is for the first one",
    }
    arrays = {
        "eigenvalues": "of the second moment, descending; 0 if below rounding",
        "eigenvalues-stderr": "over networks; missing if the jackknife leaves no eigenvalue",
        "directions": "NADs: orthonormal rows, in the order of eigenvalues",
        "residuals": "|G u - lambda u| of each pair, if pairs were found without the matrix",
        "null-edges": "smallest and largest eigenvalue of an isotropic architecture with the same "
        "gradient norms",
        "null-eigenvalues": "eigenvalues of that architecture, index by index",
        "null-eigenvalues-spread": "their standard deviation over random draws",
        "second-moment": "the matrix itself, with store_matrix",
    }
    card = penchant.Card(
        10,
        ("effective-rank", "directions-above-null", "trace"),
        {"networks": 24, "samples": 500, "estimators": {"directions": LOCAL[0]}},
        family="input directions",
    )
    presets = {
        "quick": {"networks": 200},
        "fig-5": {"networks": 10000},
        "fig-s9": {"networks": 1000, "estimators": {"directions": COARSE_LEADING}},
    }

    networks: int = penchant.option(200, "fresh networks", at_least=2)
    store_directions: int | None = penchant.option(
        None, "leading directions stored; None: all", at_least=1
    )
    store_matrix: bool = penchant.option(False, "store the second moment")
    samples: int = penchant.option(
        1000, "samples at which gradients of one trained network are taken", at_least=16
    )

    @classmethod
    def trains(cls) -> bool:
        """A network is fresh, or the user's own as it is."""
        return False


@attrs.frozen
class NadAgreement(penchant.Probe):
    """Overlap of the leading directions of two estimators, and correlation of their matrices.

    Each estimator uses its own independent networks, in groups, so the correlation is not biased by
    sampling. Every group has its own random point, the same for both estimators, so the standard
    errors include it. The nulls are random subspaces and a random rotation of one matrix. Compare
    estimators with the same method: on networks with kinks, a derivative at a point and a large
    step differ. Both estimators must return the whole matrix.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, section 3.1 and
    figures S5 to S11.
    """

    name = "nad-agreement"
    example = "penchant probe nad-agreement -a lenet:activation=gelu --shape 1,16,16"
    question = "Do two estimators find the same preferred directions?"
    target = "penchant_nad.nad_agreement.probe:run"
    figures = "penchant_nad.nad_agreement.figures:draw"
    needs = ("architecture", "scalar-output", "continuous-inputs")
    roles = {"directions": ("gradient-covariance", "mixed-derivative")}
    quantities = {
        "corr": "Frobenius cosine of the two second moments, norms from independent networks",
        "mean-overlap": "overlap, averaged over k",
    }
    headline = penchant.Headline(
        "corr",
        above="The two estimators agree, cosine of their second moments",
        below="The two estimators disagree, cosine of their second moments",
        neither="The two estimators do not agree significantly, cosine of their second moments",
    )
    tables = {
        "overlap[k]": "share of the first k directions of one that lies in the first k of the "
        "other; null: random subspaces, k / D"
    }
    arrays = {"eigenvalues": "of both moments, one row each, descending"}
    presets = {
        "quick": {"networks": 80, "estimators": {"directions": LOCAL}},
        "fig-s9": {"networks": 1000, "estimators": {"directions": COARSE}},
    }

    networks: int = penchant.option(200, "fresh networks for each estimator", at_least=8)
    groups: int = penchant.option(8, "independent groups of networks for the jackknife", at_least=4)

    def __attrs_post_init__(self) -> None:
        if self.networks < 2 * self.groups:
            raise penchant.Error(
                f"networks must be at least twice groups, {2 * self.groups}, found {self.networks}"
            )
