"""Exact Fourier analysis in two dimensions: regions against the network, transforms against quadrature, theorem 3.3's decays."""

import math

import penchant
import pytest
import torch
from penchant_spectral_bias.exact_spectrum import polygons
from penchant_spectral_bias.shared.band_spectra import decay_exponent
from penchant_spectral_bias.shared.piecewise_linear import chain_of
from torch import nn

HOST = {"device": "cpu", "dtype": torch.float64}


def network(*widths, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = (2, *widths)
        hidden = [layer for a, b in zip(sizes, widths) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(sizes[-1], 1)).double().requires_grad_(False)


def pyramid():
    """relu(1 - |x| - |y|) as a network: zero on the boundary of the box, faces along the axes and the diagonals."""
    first, second, last = nn.Linear(2, 4), nn.Linear(4, 1), nn.Linear(1, 1)
    net = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last).double().requires_grad_(False)
    first.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], **HOST))
    first.bias.zero_()
    second.weight.fill_(-1.0)
    second.bias.fill_(1.0)
    last.weight.fill_(1.0)
    last.bias.zero_()
    return net


@pytest.mark.parametrize("widths", [(8,), (12, 12), (6, 6, 6)])
def test_regions_tile_the_box_and_carry_the_network(widths):
    net = network(*widths)
    regions = polygons.linear_regions(chain_of(net), (-1.5, 1.0))
    areas = regions.areas()
    assert float(areas.sum()) == pytest.approx(2.5**2, rel=1e-12) and (areas > 0).all()
    for corners, slope, offset in zip(regions.corners, regions.slopes, regions.offsets):
        middle = corners.mean(0)
        for point in (middle, (corners[0] + middle) / 2):
            assert float(net(point[None])) == pytest.approx(
                float(slope @ point + offset), abs=1e-12
            )


def test_one_layer_has_the_regions_of_its_lines():
    """n lines with p crossings inside a convex box make 1 + n + p regions."""
    net = network(7, seed=3)
    weight, bias = net[0].weight, net[0].bias
    corners = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]], **HOST)
    signs = (corners @ weight.T + bias) > 0
    cutting = [unit for unit in range(7) if signs[:, unit].any() and not signs[:, unit].all()]
    crossings = 0
    for number, first in enumerate(cutting):
        for second in cutting[:number]:
            point = torch.linalg.solve(weight[[first, second]], -bias[[first, second]])
            crossings += int(point.abs().max() < 1)
    assert len(polygons.linear_regions(chain_of(net))) == 1 + len(cutting) + crossings


def test_square_has_the_transform_of_a_box():
    square = network(1)
    square[0].weight.zero_()
    square[0].bias.fill_(1.0)  # never changes sign: one region
    regions = polygons.linear_regions(chain_of(square))
    assert len(regions) == 1
    k = torch.tensor([[0.5, 2.0], [3.0, 0.0], [-7.0, 11.0]], **HOST)
    expected = 4 * torch.sinc(k / math.pi).prod(1)
    found = polygons.indicator_transforms(regions, k)[:, 0]
    torch.testing.assert_close(found.real, expected, atol=1e-14, rtol=1e-12)
    assert found.imag.abs().max() < 1e-14


@pytest.mark.parametrize("widths", [(10,), (8, 8)])
def test_transform_is_the_quadrature_of_the_network(widths):
    net = network(*widths, seed=1)
    regions = polygons.linear_regions(chain_of(net))
    k = torch.tensor([[3.0, 1.0], [0.5, -7.0], [0.0, 5.0], [0.02, 0.01]], **HOST)
    errors = []
    for grid in (250, 500):
        line = (torch.arange(grid, **HOST) + 0.5) / grid * 2 - 1
        points = torch.cartesian_prod(line, line)
        waves = torch.exp(-1j * (points @ k.T))
        quadrature = (net(points) * waves).sum(0) * (2 / grid) ** 2
        errors.append((quadrature - polygons.transform(regions, k)).abs().max())
    assert errors[1] < 2e-4
    assert errors[0] / errors[1] == pytest.approx(
        4, rel=0.2
    )  # the midpoint rule converges to it at its own rate


def test_lemma_is_the_transform_where_the_boundary_is_zero():
    regions = polygons.linear_regions(chain_of(pyramid()), (-1.5, 1.5))
    k = torch.tensor([[1.0, 2.0], [5.0, -3.0], [4.0, 4.0], [0.0, 3.0]], **HOST)
    torch.testing.assert_close(
        polygons.lemma_sum(regions, k), polygons.transform(regions, k), atol=1e-13, rtol=1e-10
    )
    # the closed form 4 (cos k_y - cos k_x) / (k_x^2 - k_y^2) is the diamond's indicator; f is its integral over scales
    scale = (torch.arange(4000, **HOST) + 0.5) / 4000
    kx, ky = k[0]
    diamond = 4 * (torch.cos(scale * ky) - torch.cos(scale * kx)) / (kx**2 - ky**2)
    assert float(polygons.transform(regions, k[:1]).real) == pytest.approx(
        float(diamond.mean()), rel=1e-5
    )


@pytest.mark.parametrize(
    "make",
    [pyramid, lambda: network(5, seed=2), lambda: network(6, 4, seed=0)],
    ids=["pyramid", "shallow", "deep"],
)
def test_theorem_has_both_of_its_decays(make):
    regions = polygons.linear_regions(chain_of(make()), (-1.5, 1.5))
    radius = torch.logspace(3, 6, 3000, **HOST)

    def decay(direction):
        return decay_exponent(
            radius, polygons.lemma_sum(regions, radius[:, None] * direction).abs()
        )

    generic = torch.tensor([math.cos(0.7123), math.sin(0.7123)], **HOST)
    assert decay(generic) == pytest.approx(-3, abs=0.12)
    assert decay(polygons.faces(regions).normals[0]) == pytest.approx(-2, abs=0.12)


def test_strength_of_a_face_is_the_amplitude_along_its_normal():
    """|f~| is strength / k^2 along the normal of the strongest face, up to what falls faster."""
    regions = polygons.linear_regions(chain_of(pyramid()), (-1.5, 1.5))
    found = polygons.faces(regions)
    radius = torch.linspace(1e5, 1.01e5, 500, **HOST)
    values = polygons.lemma_sum(regions, radius[:, None] * found.normals[0]).abs()
    assert float((values * radius**2).max()) == pytest.approx(float(found.strengths[0]), rel=1e-3)


def test_long_edge_without_a_bend_is_no_face():
    """One unit bends hardly at all along a line through the whole box, another strongly in a corner."""
    net = network(2)
    net[0].weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 1.0]], **HOST))
    net[0].bias.copy_(torch.tensor([0.05, -1.5], **HOST))
    net[2].weight.copy_(torch.tensor([[1e-4, 1.0]], **HOST))
    found = polygons.faces(polygons.linear_regions(chain_of(net)))
    normal = found.normals[0].abs()
    torch.testing.assert_close(normal, torch.full((2,), math.sqrt(0.5), **HOST))
    # unit (1, 1) / sqrt 2 crosses the corner on a length of sqrt(0.5), where the gradient jumps by sqrt 2
    assert float(found.strengths[0]) == pytest.approx(math.sqrt(0.5) * math.sqrt(2), rel=1e-9)


def test_decays_of_drawn_networks_are_those_of_the_theorem():
    """In the range that the probe fits; from |k| = 20 on they were -2.85 and -2.26."""
    options = {"networks": 3, "cycles": 20, "gradients": 0, "box_networks": 0, "regions": True}
    result = penchant.measure(
        "exact-spectrum", architecture=_relu_network, shape=(2,), executor="serial", **options
    )
    assert result.quantities["generic-decay"].value == pytest.approx(-3, abs=0.05)
    assert result.quantities["face-decay"].value == pytest.approx(-2, abs=0.05)
    amplitudes = result.arrays["generic-amplitude"], result.arrays["face-amplitude"]
    assert amplitudes[0].shape == amplitudes[1].shape == result.arrays["plane-frequencies"].shape


def _relu_network(shape, outputs):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, outputs)
    )


def test_lipschitz_is_the_largest_gradient():
    net = network(10, 10, seed=4)
    points = (
        torch.rand(4000, 2, generator=torch.Generator(device="cpu").manual_seed(0), **HOST) * 2 - 1
    )
    points.requires_grad_()
    gradients = torch.autograd.grad(net(points).sum(), points)[0].norm(dim=1)
    exact = polygons.linear_regions(chain_of(net)).lipschitz()
    assert float(gradients.max()) <= exact * (1 + 1e-12)
    assert float(gradients.max()) > 0.9 * exact
