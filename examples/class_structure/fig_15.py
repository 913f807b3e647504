"""Spectra of known matrices by Lanczos, against all their eigenvalues (figure 15)."""

import torch
from penchant_numerics.linear_algebra import Dense, log_density, quadrature
from penchant_numerics.linear_algebra.spectral_density import spectral_density
from penchant_numerics.pictures import BLUE, RED, captioned
from penchant_numerics.pictures.pictures import Figure

EPSILON = 1e-5


def spiked(size, generator):
    """Three eigenvalues beside a bulk: diag(5, 4, 3, 0, ...) + Z Z^T / size."""
    noise = torch.randn(size, size, generator=generator, device="cpu", dtype=torch.float64)
    spikes = torch.zeros(size, device="cpu", dtype=torch.float64)
    spikes[:3] = torch.tensor([5.0, 4.0, 3.0], device="cpu")
    return torch.diag(spikes) + noise @ noise.T / size


def heavy_tailed(size, generator):
    """Z Z^T / size, Z of half as many rows, Pareto of index 1 (printed as size x size)."""
    uniform = torch.rand(size // 2, size, generator=generator, device="cpu", dtype=torch.float64)
    noise = 1 / (1 - uniform)
    return noise @ noise.T / size


def spectra(size=2000, steps=256, starts=10):
    """Eigenvalues and density of both matrices: (values, density) of each."""
    generator = torch.Generator("cpu").manual_seed(0)
    bulk, tail = spiked(size, generator), heavy_tailed(size // 2, generator)
    found = []
    for matrix, density in ((bulk, spectral_density), (tail, log_density)):
        measure = quadrature(Dense(matrix), generator=generator, steps=steps, starts=starts)
        found.append((torch.linalg.eigvalsh(matrix), density(measure)))
    values, density = found[1]
    found[1] = ((values.clamp(min=0) + EPSILON).log(), density)
    return found


def draw(found):
    """Histograms of all eigenvalues, densities by Lanczos on top."""
    figure = Figure(figsize=(9.6, 3.6))
    labels = ("eigenvalue", f"log(eigenvalue + {EPSILON:g})")
    for panel, (values, density), label in zip(figure.subplots(1, 2), found, labels):
        panel.hist(values.numpy(), bins=100, density=True, color=BLUE, label="all eigenvalues")
        panel.plot(density.grid, density.density, color=RED, label="Lanczos")
        panel.set(xlabel=label, ylabel="density", yscale="log")
        panel.set_ylim(bottom=1e-4)
        panel.legend(fontsize=8)
    caption = "The mean over start vectors lies on the histogram, outliers included."
    return captioned(figure, caption, title="Known matrices: Lanczos and all eigenvalues")


if __name__ == "__main__":
    draw(spectra()).savefig("fig_15.png", bbox_inches="tight")
    print("fig_15.png")
