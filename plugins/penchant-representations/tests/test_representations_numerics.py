"""Similarities against dense formulas, another package, scipy; invariances, and none with noise."""

import contextlib
import itertools

import numpy as np
import penchant
import pytest
import scipy.spatial
import torch
from penchant_numerics.layers.kernel_alignment import cka as dense_cka
from penchant_numerics.statistics import random_rotation
from penchant_representations.representation_similarity import gram_similarity
from penchant_representations.representation_similarity.gram_similarity import Comparison
from penchant_representations.representation_similarity.layer_grams import layer_grams, layer_names
from torch import nn

N = 40


def normal(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def gram(x):
    x = x - x.mean(0)
    return x @ x.T


def compared(x, y, groups=1, **options):
    """Similarity of features, a number per measure."""
    found = Comparison([(0, 0)], gram_similarity.MEASURES, neighbours=5, **options)
    for a, b in zip(x.chunk(groups), y.chunk(groups)):
        found.add(gram(a)[None], gram(b)[None])
    return {name: found.similarity(name).item() for name in gram_similarity.MEASURES}


def test_hsic_is_the_sum_over_distinct_samples():
    K, L = gram(normal(7, 3)).numpy(), gram(normal(7, 2, seed=1)).numpy()
    terms = []
    for i, j, q, r in itertools.permutations(range(7), 4):
        terms.append(K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q]))
    found = gram_similarity.hsic(torch.tensor(K)[None], torch.tensor(L)[None]).item()
    assert found == pytest.approx(np.mean(terms), rel=1e-10)


def test_cka_is_that_of_dense_kernels():
    xs = [normal(N, d, seed=d) for d in (3, 10, 60)]
    K = torch.stack([gram(x) for x in xs])
    hsic = gram_similarity.hsic(K, K)
    found = hsic / (hsic.diagonal()[:, None] * hsic.diagonal()).sqrt()
    for i, j in itertools.product(range(3), repeat=2):
        expected = dense_cka(xs[i] @ xs[i].T, xs[j] @ xs[j].T, outputs=1, unbiased=True)
        assert found[i, j].item() == pytest.approx(expected, abs=1e-12)


def test_procrustes_is_that_of_scipy():
    x = normal(N, 6)
    y = x @ normal(6, 6, seed=2) + normal(N, 6, seed=3)
    found = compared(x, y)["procrustes"]
    # what is left after the best rotation and scaling of matrices of norm 1
    _, _, disparity = scipy.spatial.procrustes(x.numpy(), y.numpy())
    assert found == pytest.approx((1 - disparity) ** 0.5, abs=1e-7)


def test_neighbours_are_those_of_a_tree():
    x, y = normal(N, 4), normal(N, 3, seed=1)
    near = [scipy.spatial.cKDTree(z).query(z, k=6)[1][:, 1:] for z in (x.numpy(), y.numpy())]
    shares = [len(set(a) & set(b)) / 5 for a, b in zip(*near)]
    assert compared(x, y)["neighbours"] == pytest.approx(np.mean(shares), abs=1e-12)


def test_rotation_scale_and_shift_change_nothing():
    x = normal(N, 8)
    turned = 7 * x @ random_rotation(8, generator=torch.Generator("cpu").manual_seed(1)) + 3
    assert compared(x, turned) == pytest.approx(
        dict.fromkeys(gram_similarity.MEASURES, 1), abs=1e-7
    )


def test_noise_changes_all_of_them_and_independent_features_have_no_cka():
    x = normal(400, 8)
    noisy = compared(x, x + normal(400, 8, seed=1))
    assert max(noisy.values()) < 0.95
    values = [compared(normal(N, 8, seed=s), normal(N, 8, seed=99 + s))["cka"] for s in range(60)]
    assert abs(np.mean(values)) < 3 * np.std(values) / 60**0.5


def test_minibatches_average_hsic():
    x = normal(N, 5)
    y = x + normal(N, 5, seed=1)
    found = compared(x, y, groups=4)["cka"]
    pairs = [(gram(a)[None], gram(b)[None]) for a, b in zip(x.chunk(4), y.chunk(4))]
    xy, xx, yy = (
        np.mean([gram_similarity.hsic(*pick(K, L)).item() for K, L in pairs])
        for pick in (lambda K, L: (K, L), lambda K, L: (K, K), lambda K, L: (L, L))
    )
    assert found == pytest.approx(xy / (xx * yy) ** 0.5, rel=1e-12)


class Convolutions(nn.Module):
    """Two convolutions, in-place activations, and tokens."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 5, 3)
        self.act = nn.ReLU(inplace=True)
        self.token, self.last = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = self.act(self.second(self.act(self.first(x))))
        tokens = self.token(x.flatten(2).transpose(1, 2))
        return self.last(tokens.mean(1))


@contextlib.contextmanager
def double_by_default():
    """The other package makes tensors in the default precision."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore")
def test_all_layers_are_those_of_torch_cka():
    peer = pytest.importorskip("torch_cka")
    torch.manual_seed(0)
    one, two = Convolutions().double().eval(), Convolutions().double().eval()
    inputs = normal(N, 1, 8, 8)
    names, _ = layer_names(one, inputs, None)
    assert names == ["first", "second", "token", "last"]
    found = Comparison([(0, 0)], ("cka",), neighbours=1)
    for batch in inputs.chunk(2):
        grams = [layer_grams(net, batch, names, positions="flatten") for net in (one, two)]
        found.add(*grams)
    # the other package changes what in-place activations write to
    for net in (one, two):
        net.act = nn.ReLU()
    theirs = peer.CKA(one, two, "a", "b", names, names)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs), batch_size=N // 2)
    with double_by_default():
        theirs.compare(loader)
    difference = np.abs(found.similarity("cka") - theirs.export()["CKA"].numpy()).max()
    assert difference < 1e-10  # theirs is not centred before its products


@pytest.mark.parametrize("positions", ["flatten", "mean"])
def test_positions_are_taken_as_the_convention_says(positions):
    torch.manual_seed(0)
    network = Convolutions().double().eval()
    inputs = normal(6, 1, 8, 8)
    found = layer_grams(network, inputs, ["first", "token"], positions=positions)
    maps = network.first(inputs)
    seen = network.act(network.second(network.act(maps.clone())))
    tokens = network.token(seen.flatten(2).transpose(1, 2))
    if positions == "flatten":
        expected = [maps.flatten(1), tokens.flatten(1)]
    else:
        expected = [maps.mean((2, 3)), tokens.mean(1)]
    for own, features in zip(found, expected):
        torch.testing.assert_close(own, gram(features.detach()))


def test_samples_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="found 5 and 6 samples"):
        gram_similarity.hsic(gram(normal(5, 2))[None], gram(normal(6, 2))[None])

    class Windows(nn.Linear):
        def forward(self, x):
            return super().forward(x.reshape(-1, 2))

    network = nn.Sequential(Windows(2, 3), nn.Linear(3, 3))
    with pytest.raises(ValueError, match="'0' gives 4"):
        layer_names(network, torch.zeros(4, 4), ["0"])
    with pytest.raises(ValueError, match="gives 8 rows for 4 samples"):
        layer_grams(network, torch.zeros(4, 4), ["0"], positions="flatten")
    with pytest.raises(ValueError, match="no layer is called 'conv'"):
        layer_names(network, torch.zeros(4, 4), ["conv"])


DATA = ((normal(80, 4).float(), torch.arange(80) % 2),) * 2


def test_a_network_of_the_users_own_is_compared_with_itself():
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    result = penchant.measure("representation-similarity", architecture=network, dataset=DATA)
    assert (
        result.tables["cka-layers"].axes["layer"] == ("0", "2")
        and "cka-gain" not in result.quantities
    )
    for name in gram_similarity.MEASURES:
        assert np.diag(result.arrays[f"{name}-layers"]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"second": "seed"}, "found one network of the user's own"),
        ({"second": "start"}, "was not trained"),
        ({"second": "other"}, "go together"),
        ({"layer_names": ["conv*"]}, "no layer is called 'conv\\*'"),
        ({"groups": 30}, "a minibatch needs at least 6 samples"),
    ],
)
def test_refusals_name_what_was_found(options, message):
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    with pytest.raises(penchant.Error, match=message):
        penchant.measure("representation-similarity", architecture=network, dataset=DATA, **options)


def test_a_layer_that_gives_the_same_for_all_samples_is_refused():
    network = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    nn.init.zeros_(network[0].weight)
    with pytest.raises(penchant.Error, match="layer '0' gives the same for all"):
        penchant.measure("representation-similarity", architecture=network, dataset=DATA)
