"""Data that is not in memory: the same bytes as tensors, wherever batches are taken."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.curvature import GaussNewton, Hessian
from penchant_numerics.data import Data, Samples, as_data, stream
from penchant_numerics.data.streamed import StreamedInputs
from penchant_numerics.inputs import SecondMoment
from penchant_numerics.training import Trainer, evaluate
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

COUNT, SHAPE = 37, (2, 3, 3)


def tensors():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(COUNT, *SHAPE, generator=generator)
    labels = torch.randint(3, (COUNT,), generator=generator)
    return Samples(inputs, labels)


class Again(IterableDataset):
    """Samples one after another, as often as wanted."""

    def __iter__(self):
        samples = tensors()
        return iter(zip(samples.inputs, samples.labels))


def memory_mapped(folder):
    samples = tensors()
    np.save(folder / "inputs.npy", samples.inputs.numpy())
    return np.load(folder / "inputs.npy", mmap_mode="r"), samples.labels.numpy()


SOURCES = {
    "memory-mapped": memory_mapped,
    "dataset": lambda folder: TensorDataset(*tensors()),
    "loader": lambda folder: DataLoader(TensorDataset(*tensors()), batch_size=5, shuffle=True),
    "iterable": lambda folder: DataLoader(Again(), batch_size=5),
}


@pytest.fixture(params=list(SOURCES))
def streamed(request, tmp_path):
    return stream(SOURCES[request.param](tmp_path))


def network():
    torch.manual_seed(1)
    layers = [nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)]
    return nn.Sequential(*layers)


RECIPE = penchant.Training(epochs=2, batch=8, learning_rate=0.1, momentum=0.9)


def trained(samples, recipe=RECIPE):
    trainee = network()
    Trainer(trainee, samples, recipe, seed=3).run()
    return torch.cat([parameter.detach().flatten() for parameter in trainee.parameters()])


@pytest.mark.parametrize("kind", ["memory-mapped", "dataset", "loader"])
@pytest.mark.parametrize("batch", [8, 0])
def test_a_training_has_the_same_bytes(tmp_path, kind, batch):
    recipe = penchant.Training(steps=9, batch=batch, learning_rate=0.1)
    samples = stream(SOURCES[kind](tmp_path))
    assert torch.equal(trained(samples, recipe), trained(tensors(), recipe))


def test_batches_in_their_own_order_cannot_be_shuffled(tmp_path):
    with pytest.raises(ValueError, match="its own order only; shuffling needs a memory-mapped"):
        trained(stream(SOURCES["iterable"](tmp_path)))


@pytest.mark.parametrize("chunk", [7, 1024])
def test_an_evaluation_has_the_same_bytes(streamed, chunk):
    assert evaluate(network(), streamed, chunk=chunk) == evaluate(network(), tensors(), chunk=chunk)


@pytest.mark.parametrize("operator", [GaussNewton, Hessian])
def test_products_of_operators_have_the_same_bytes(streamed, operator):
    vector = torch.randn(66, generator=torch.Generator().manual_seed(5))
    whole = operator(network().eval(), tensors(), batch=10)
    piecewise = operator(network().eval(), streamed, batch=10)
    assert vector.shape == (whole.size,)
    assert torch.equal(piecewise.matvec(vector), whole.matvec(vector))


def test_samples_that_do_not_count_are_left_out_of_a_stream(tmp_path):
    inputs, labels = memory_mapped(tmp_path)
    labels = np.where(np.arange(COUNT) % 4 == 1, -100, labels)
    vector = torch.randn(66, generator=torch.Generator().manual_seed(5))
    found = GaussNewton(network().eval(), stream((inputs, labels)), batch=10)
    kept = tensors().select(torch.from_numpy(labels >= 0))
    expected = GaussNewton(network().eval(), kept, batch=10)
    assert torch.equal(found.matvec(vector), expected.matvec(vector))


def test_moments_have_the_same_bytes(streamed):
    whole, piecewise = SecondMoment(18, device="cpu"), SecondMoment(18, device="cpu")
    for moment, inputs in ((whole, tensors().inputs), (piecewise, streamed.inputs)):
        for batch in inputs.split(10):
            moment.add(batch.flatten(1))
    assert torch.equal(piecewise.matrix(), whole.matrix())
    assert torch.equal(piecewise.norms(), whole.norms())


def test_a_probe_measures_the_same_on_memory_mapped_arrays(tmp_path):
    parts = {
        "architecture": {"name": "import", "factory": testing.TINY},
        "training": {"epochs": 1, "batch": 8},
        "executor": "serial",
        "figures": False,
    }
    dataset = memory_mapped(tmp_path)
    whole = tensors()
    first = penchant.measure("hessian-spectrum", dataset=dataset, **parts)
    second = penchant.measure("hessian-spectrum", dataset=(whole.inputs, whole.labels), **parts)
    assert first.status == second.status == "done"
    for name, array in second.arrays.items():
        np.testing.assert_array_equal(first.arrays[name], array, err_msg=name)


def test_bytes_are_pixels(tmp_path):
    pixels = np.arange(24, dtype=np.uint8).reshape(4, 6)
    np.save(tmp_path / "pixels.npy", pixels)
    inputs = stream((np.load(tmp_path / "pixels.npy", mmap_mode="r"), np.arange(4))).inputs
    assert torch.equal(inputs[1:3], torch.from_numpy(pixels[1:3]).float() / 255)
    assert inputs.to("cpu", torch.float64)[0].dtype == torch.float64


def test_what_needs_all_inputs_at_once_gets_them_or_a_sentence():
    inputs = stream((np.ones((4, 2)), np.arange(4))).inputs
    assert inputs.flatten().shape == (8,)
    assert torch.cat([inputs, torch.zeros(1, 2)]).shape == (5, 2)

    class Endless:
        shape = (10**9, 3, 224, 224)

    huge = StreamedInputs(Endless())
    with pytest.raises(ValueError, match=r"1000000000 streamed inputs takes 5.61e\+05 GiB, .* has"):
        huge.mean()


def test_values_that_are_not_finite_are_noticed_when_they_are_read():
    array = np.ones((4, 2))
    array[3] = np.nan
    samples = stream((array, np.arange(4)))
    data = as_data(Data(samples, samples, 4))
    assert data.shape == (2,)
    with pytest.raises(ValueError, match="not finite"):
        list(samples.inputs.split(2))


def test_an_iterator_that_is_used_up_is_refused():
    batches = ((torch.ones(2, 1), torch.ones(2)) for _ in range(2))
    with pytest.raises(ValueError, match="only once"):
        stream(batches)


def test_rows_are_prepared_by_the_thread_that_reads_them(monkeypatch):
    """What computes need not wait for the cast, the check and the locking of memory."""
    import threading

    prepared = StreamedInputs._prepared
    threads = []

    def noted(self, stored):
        threads.append(threading.get_ident())
        return prepared(self, stored)

    monkeypatch.setattr(StreamedInputs, "_prepared", noted)
    array = np.arange(12, dtype=np.uint8).reshape(6, 2)
    batches = list(stream((array, np.arange(6))).inputs.split(2))
    assert len(threads) == 3 and threading.get_ident() not in threads
    torch.testing.assert_close(torch.cat(batches), torch.from_numpy(array).float() / 255)
