"""A language model of 10 million parameters and 50,000 tokens: times and peak memory of each measurement.

Run: python tests/benchmarks/bench_language_model.py

Every measurement has a process of its own, whose largest resident size is printed; its data segment is limited to
8 GiB. GPT-2 with 18 blocks of width 128, tied embeddings, 8 sequences of 64 tokens, as drawn.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from penchant_numerics.curvature import (
    GaussNewton,
    Hessian,
    gauss_newton_columns,
    loss_gradients,
    numbers_of,
)
from penchant_numerics.curvature.sample_traces import sample_traces
from penchant_numerics.curvature.sequence_columns import sampled_outputs
from penchant_numerics.layers import tangent_kernel
from penchant_numerics.linear_algebra import lanczos_eigenpairs, quadrature
from torch import Tensor, nn

LIMIT = 8 * 2**30
VOCABULARY, SEQUENCES, POSITIONS = 50_000, 8, 64
Data = tuple[Tensor, Tensor]


def model() -> tuple[nn.Module, Data]:
    from penchant_huggingface.architectures.huggingface import build
    from penchant_huggingface.declarations import HuggingFace

    torch.manual_seed(0)
    settings = ("n_layer=18", "n_head=4", "n_embd=128", f"n_positions={POSITIONS}")
    options = HuggingFace.bind({"model_type": "gpt2", "config": settings})
    network = build(options, (POSITIONS,), VOCABULARY).eval()
    tokens = torch.randint(0, VOCABULARY, (SEQUENCES, POSITIONS + 1))
    return network, (tokens[:, :-1], tokens[:, 1:])


def hessian_trace(network: nn.Module, data: Data) -> str:
    found = Hessian(network, data).trace(
        generator=torch.Generator().manual_seed(0), samples=4, block=1
    )
    return f"{found.value:.4g} +- {found.stderr:.2g} over 4 random vectors"


def hessian_leading(network: nn.Module, data: Data) -> str:
    generator = torch.Generator().manual_seed(0)
    found = lanczos_eigenpairs(
        Hessian(network, data), 2, generator=generator, products=120, order="largest"
    )
    values = ", ".join(f"{value:.4g}" for value in found.values.tolist())
    return f"{values}; {found.products} products, {int(found.converged.sum())} of 2 converged"


def hessian_density(network: nn.Module, data: Data) -> str:
    generator = torch.Generator().manual_seed(0)
    found = quadrature(Hessian(network, data), generator=generator, steps=10, starts=1)
    low, high = found.bounds
    return f"10 Lanczos steps, eigenvalues from {low:.4g} to {high:.4g}"


def gauss_newton_trace(network: nn.Module, data: Data) -> str:
    found = GaussNewton(network, data).trace(
        generator=torch.Generator().manual_seed(0), samples=4, block=1
    )
    return (
        f"{found.value:.4g} +- {found.stderr:.2g} over 4 random vectors, closed-form loss Hessian"
    )


def gauss_newton_trace_by_labels(network: nn.Module, data: Data) -> str:
    columns, convention = gauss_newton_columns(
        network, data, generator=torch.Generator().manual_seed(0)
    )
    traces = sample_traces(columns, numbers_of(data[0]), loss="squared-error").double()
    stderr = float(traces.std()) / len(traces) ** 0.5
    return f"{float(traces.mean()):.4g} +- {stderr:.2g} over {len(traces)} sequences, {convention}"


def loss_gradient_kernel(network: nn.Module, data: Data) -> str:
    K = tangent_kernel(loss_gradients(network, data), numbers_of(data[0]))
    return f"{tuple(K.shape)}, trace {float(K.trace()):.4g}"


def sampled_output_kernel(network: nn.Module, data: Data) -> str:
    generator = torch.Generator().manual_seed(0)
    some = sampled_outputs(network, data[0], count=4, generator=generator)
    K = tangent_kernel(some, numbers_of(data[0]))
    return f"{tuple(K.shape)}, trace {float(K.trace()):.4g}"


MEASUREMENTS: dict[str, Callable[[nn.Module, Data], str]] = {
    "model alone": lambda network, data: "",
    "hessian trace": hessian_trace,
    "hessian, 2 leading eigenvalues": hessian_leading,
    "hessian density": hessian_density,
    "gauss-newton trace": gauss_newton_trace,
    "gauss-newton trace by drawn labels": gauss_newton_trace_by_labels,
    "kernel of loss gradients": loss_gradient_kernel,
    "kernel of 4 sampled outputs": sampled_output_kernel,
}


def measure(name: str) -> None:
    """One measurement in this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    torch.set_num_threads(1)
    network, data = model()
    size = sum(each.numel() for each in network.parameters())
    start, cpu = time.perf_counter(), time.process_time()
    found = MEASUREMENTS[name](network, data)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name}: {seconds:.1f} s ({cpu:.1f} s of processors), peak {peak:.2f} GiB, {size:,} parameters; {found}",
        flush=True,
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        for each in MEASUREMENTS:
            subprocess.run([sys.executable, __file__, each], check=False)
