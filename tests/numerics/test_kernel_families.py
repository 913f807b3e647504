"""Tangent kernels of published families, small, against dense Jacobians and nngeometry."""

import warnings

import penchant
import pytest
import torch
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import tangent_kernel
from penchant_numerics.layers.kernel_blocks import KernelLayers
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn.attention import SDPBackend, sdpa_kernel

SAMPLES, OUTPUTS = 4, 3
VGG11 = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")
FAMILIES_OF_TIMM = {
    "vit_tiny_patch16_224": {
        "img_size": 16,
        "patch_size": 4,
        "embed_dim": 12,
        "depth": 2,
        "num_heads": 3,
    },
    "convnext_atto": {"depths": (1, 1, 1, 1), "dims": (4, 6, 8, 10)},
    "swin_tiny_patch4_window7_224": {
        "img_size": 32,
        "embed_dim": 6,
        "depths": (2, 1),
        "num_heads": (1, 2),
        "window_size": 4,
    },
}


# ---- networks


def mlp(inputs=12, width=8, depth=6, outputs=OUTPUTS):
    sizes = [inputs, *[width] * depth, outputs]
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def lenet():
    """LeCun's: two 5 x 5 convolutions with pooling, three linear layers."""
    convolutions = [nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*convolutions, mlp(inputs=16 * 4 * 4, width=20, depth=2))


def vgg11(shrink=16):
    """Eight convolutions in five stages, with batch-norm, every width over `shrink`."""
    layers, channels = [], 1
    for width in VGG11:
        if width == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        narrow = width // shrink
        layers += [nn.Conv2d(channels, narrow, 3, padding=1), nn.BatchNorm2d(narrow), nn.ReLU()]
        channels = narrow
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, OUTPUTS))


class BasicBlock(nn.Module):
    """Two convolutions with batch-norm beside a shortcut."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.shortcut = nn.Identity()
        if stride != 1:
            self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(inner)) + self.shortcut(x))


def resnet18(width=4):
    """A stem and four stages of two basic blocks."""
    layers = [nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for stage in range(4):
        after = width * 2**stage
        before = after if stage == 0 else after // 2
        layers += [BasicBlock(before, after, 1 if stage == 0 else 2), BasicBlock(after, after, 1)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, OUTPUTS)]
    return nn.Sequential(*layers)


NETWORKS = {
    "mlp": (mlp, (12,)),
    "lenet": (lenet, (1, 28, 28)),
    "vgg11": (vgg11, (1, 32, 32)),
    "resnet18": (resnet18, (1, 16, 16)),
}


def of_timm(name):
    """A small network of one of timm's families, and the shape of its images."""
    importing = pytest.importorskip("penchant_timm.importing", reason="penchant-timm is missing")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # torchvision's operators
            timm = importing.import_timm()
    except penchant.Error as error:
        pytest.skip(str(error))
    options = FAMILIES_OF_TIMM[name]
    side = options.get("img_size", 32)
    return timm.create_model(name, in_chans=1, num_classes=OUTPUTS, **options), (1, side, side)


def prepared(make):
    """A network in double precision with no parameter at a special place, and samples."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, shape = make()
        network = network.double().eval()
        # residual branches and biases often begin at zero, where much of the kernel vanishes
        for parameter in network.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        for name, buffer in network.named_buffers():
            if name.endswith("running_var"):
                buffer.uniform_(0.5, 2)
        return network, torch.randn(SAMPLES, *shape, dtype=torch.float64)


# ---- oracles


def dense_kernel(network, x):
    """J J^T from torch.func.jacrev."""
    parameters = {name: value.detach() for name, value in network.named_parameters()}

    def outputs(values):
        return functional_call(network, values, (x,))

    with sdpa_kernel(SDPBackend.MATH):
        columns = jacrev(outputs)(parameters)
    J = torch.cat([each.reshape(SAMPLES * OUTPUTS, -1) for each in columns.values()], dim=1)
    return J @ J.T


def check(network, x):
    expected = dense_kernel(network, x)
    found = tangent_kernel(network, x)
    assert float((found - expected).abs().max()) < 1e-9 * float(expected.abs().max())


@pytest.mark.parametrize("name", NETWORKS)
def test_kernel_is_that_of_the_dense_jacobian(name):
    make, shape = NETWORKS[name]
    check(*prepared(lambda: (make(), shape)))


@pytest.mark.parametrize("name", FAMILIES_OF_TIMM)
def test_kernel_of_a_family_of_timm_is_that_of_the_dense_jacobian(name):
    network, x = prepared(lambda: of_timm(name))
    assert any(isinstance(module, nn.LayerNorm) for module in network.modules())
    with warnings.catch_warnings():
        # Swin folds windows into the batch, and the kernel says so
        warnings.filterwarnings("ignore", message="gradients of .* are taken sample by sample")
        check(network, x)
    routes = KernelLayers(Outputs(network, None), x).routes()
    assert "inputs and errors" in routes.values()


def test_kernel_is_that_of_nngeometry():
    gram = pytest.importorskip("nngeometry.gram", reason="nngeometry is missing")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = mlp(inputs=20, width=80, depth=6)
        x = torch.randn(10, 20)
    pairs = torch.utils.data.TensorDataset(x)
    loader = torch.utils.data.DataLoader(pairs, batch_size=5)
    # its axes are (outputs, samples, outputs, samples)
    four = gram.GramMatrix(network, loader).data.detach()
    expected = four.permute(1, 0, 3, 2).reshape(10 * OUTPUTS, -1)
    found = tangent_kernel(network, x)
    assert float((found - expected).abs().max()) < 1e-4 * float(expected.abs().max())
