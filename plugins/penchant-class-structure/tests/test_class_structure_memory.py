"""Probes of curvature on ResNet20 hold no more than their budget, counted by live bytes."""

import penchant
import pytest
import torch
from penchant_numerics.curvature import GaussNewton, Hessian
from penchant_numerics.curvature.sample_traces import sample_traces
from penchant_numerics.device import LiveBytes, memory

FEW = {"split": "train", "training": {"steps": 0}}
LANCZOS = {**FEW, "lanczos_steps": 2, "starts": 1, "grid_points": 16}
CASES = {
    "cross-class": {**LANCZOS, "permutations": 1},
    "cross-class by products": {**LANCZOS, "permutations": 0, "exact_limit": 0, "products": 1},
    "hessian-spectrum": {**LANCZOS, "leading": 1, "iterations": 1, "trace_samples": 2},
    "layer-structure": {**FEW, "permutations": 1, "largest": 300},
}
# as many as would take more than the budget all at once
SAMPLES = {
    "cross-class": 4,
    "cross-class by products": 6,
    "hessian-spectrum": 6,
    "layer-structure": 2,
}
SIDES = {"cross-class": 16}  # of images; 32 where nothing is said
BUDGETS = {
    "cross-class": 3 * 2**23,  # in double precision
    "cross-class by products": 2**26,
    "hessian-spectrum": 2**26,
    "layer-structure": 2**24,  # two samples are more, and may not even be tried
}


def samples(count, *, side=32):
    generator = torch.Generator("cpu").manual_seed(0)
    inputs = torch.randn(count, 3, side, side, generator=generator, device="cpu")
    return inputs, torch.arange(count, device="cpu") % 2


# many products, each followed operation by operation
MANY = [
    pytest.param("hessian-spectrum", marks=pytest.mark.slow),
    pytest.param("cross-class by products", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case", ["cross-class", *MANY, "layer-structure"])
def test_a_probe_on_resnet20_stays_within_its_budget(case):
    """More samples than fit at once, so that something must give."""
    side = SIDES.get(case, 32)
    with LiveBytes(peaks=True) as live:
        penchant.measure(
            case.removesuffix(" by products"),
            architecture="resnet20",
            dataset=(samples(SAMPLES[case], side=side), samples(4, side=side)),
            executor="serial",
            memory=BUDGETS[case] / 2**30,
            **CASES[case],
        )
    assert 0.1 * BUDGETS[case] < live.peak <= BUDGETS[case]


@pytest.mark.parametrize("kind", [GaussNewton, Hessian])
def test_batches_and_what_is_kept_follow_from_the_budget(kind):
    from penchant_architectures.architectures.resnet20 import build
    from penchant_architectures.declarations.convolutional import ResNet20

    network = build(ResNet20(), (3, 16, 16), 2).eval()
    data = samples(4, side=16)  # more than pass at once with the first budget
    sizes = {}
    for limit in (2**23, 2**25):
        with memory.budget(limit), LiveBytes(peaks=True) as live:
            operator = kind(network, data, check=False)
            operator @ torch.ones(operator.size, device="cpu")
        assert live.peak <= limit
        assert operator.cached_bytes <= limit / 4
        sizes[limit] = operator.batch
    assert 1 <= sizes[2**23] < sizes[2**25]


def test_traces_of_samples_hold_one_column_and_one_layer_at_a_time():
    """Some 2 MB a sample where all layers and classes were held."""
    from penchant_architectures.architectures.resnet20 import build
    from penchant_architectures.declarations.convolutional import ResNet20
    from penchant_numerics.curvature.sample_traces import _Passes
    from penchant_numerics.device.sample_bytes import pass_bytes
    from penchant_numerics.jacobians import Outputs

    network = build(ResNet20(), (3, 16, 16), 3).eval()
    inputs, _ = samples(2, side=16)
    passes = _Passes(Outputs(network), inputs[:2], "cross-entropy")
    assert pass_bytes(passes.traces, inputs).a_sample < 1e6
    with memory.budget(2**22), LiveBytes(peaks=True) as live:
        sample_traces(network, inputs)
    assert live.peak <= 2**22
