"""A researcher with her own network and data types what comes to mind: it works, or she is told."""

import functools
import importlib.util
import types
import warnings

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

pytestmark = pytest.mark.usefixtures("without_report")

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
BYTES = torch.randint(
    0, 256, (60, 1, 4, 4), generator=torch.Generator().manual_seed(1), dtype=torch.uint8
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x)


class OfPictures(Net):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 2)

    def forward(self, x):
        return self.linear(x.flatten(1))


def spread(**arguments):
    arguments = {
        "architecture": Net,
        "dataset": (X, Y),
        "networks": 4,
        "figures": False,
        **arguments,
    }
    return penchant.measure("output-spread", executor="serial", **arguments)


def value(**arguments):
    return spread(**arguments).quantities["spread"].value


@pytest.fixture(scope="module")
def usual():
    """What the plain call gives: other spellings of the same data give the same number."""
    return value()


def data(source, **options):
    return testing.dataset({"name": "import", "factory": source, **options})


# ---- her network


@pytest.mark.parametrize(
    "architecture", [Net, lambda: Net(), functools.partial(Net)], ids=["class", "lambda", "partial"]
)
def test_a_class_a_lambda_and_a_partial_are_the_same_architecture(architecture, usual):
    assert value(architecture=architecture) == usual


def test_a_factory_that_returns_one_module_is_not_taken_for_many_networks():
    network = Net()
    with pytest.raises(penchant.Error, match="the same module every time; make one at every call"):
        spread(architecture=lambda: network)


@pytest.mark.slow
def test_a_name_of_timm_is_an_architecture():
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    images = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    found = spread(
        architecture="timm:model=resnet18", dataset=(images, torch.arange(10) % 2), networks=2
    )
    assert found.record["architecture"]["options"]["model"] == "resnet18"


def test_a_name_without_its_option_is_told_how_to_write_it():
    with pytest.raises(penchant.Error, match="'mlp:64': write mlp:option=value; .* explain mlp"):
        spread(architecture="mlp:64")


class Named(Net):
    """Answers as Hugging Face's networks do."""

    def forward(self, x):
        return types.SimpleNamespace(loss=None, logits=self.linear(x))


class Keyed(Net):
    def forward(self, x):
        return {"hidden": x, "logits": self.linear(x)}


class Several(Net):
    def forward(self, x):
        return x, self.linear(x)


@pytest.mark.parametrize(
    ("architecture", "output"), [(Named, "logits"), (Keyed, "logits"), (Several, 1)]
)
def test_a_part_of_what_a_network_returns_is_its_output(architecture, output, usual):
    assert value(architecture=architecture, output=output) == usual


def test_what_a_network_returns_is_told_with_the_option_that_helps():
    with pytest.raises(
        penchant.Error,
        match="returns a dict with hidden, logits: say which is its output, such as output = 'hidden'",
    ):
        spread(architecture=Keyed)
    with pytest.raises(penchant.Error, match="without an entry 'logit'; did you mean 'logits'?"):
        spread(architecture=Keyed, output="logit")
    with pytest.raises(penchant.Error, match="output belong to an architecture, found none"):
        penchant.measure("output-spread", dataset=(X, Y), output="logits")


def test_several_architectures_are_those_of_an_experiment():
    with pytest.raises(penchant.Error, match="takes one architecture, found 2 in a list; penchant"):
        penchant.measure("nad", architecture=["logistic", "lenet"])


def test_one_of_ten_outputs_is_chosen():
    def ten():
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 10))

    arguments = {"architecture": ten, "shape": (1, 4, 4), "networks": 4, "executor": "serial"}
    with pytest.raises(penchant.Error, match="gives 1 x 10 .*choose one output .* unit = 0"):
        penchant.measure("nad", **arguments)
    with pytest.raises(penchant.Error, match="needs one output or two logits.*unit = 0"):
        penchant.measure("nad", **arguments, outputs=10)
    with pytest.raises(penchant.Error, match="expected samples x outputs with output 10"):
        penchant.measure("nad", **arguments, unit=10)
    third, fourth = (
        penchant.measure("nad", **arguments, unit=unit).quantities["trace"].value for unit in (3, 4)
    )
    assert third > 0 and third != fourth


def test_a_choice_of_output_leaves_names_of_parameters_alone(tmp_path):
    from penchant_import.declarations import ImportedArchitecture
    from penchant_import.imported import build

    network = build(ImportedArchitecture(factory=Keyed, output="logits", unit=1), (4,), 1)
    assert set(network.state_dict()) == set(Net().state_dict())
    expected = network.linear(X)[:, 1:2]
    assert torch.equal(network(X), expected)


class Broken(Net):
    def forward(self, x):
        raise ValueError("a bug in my own network")


def test_a_bug_of_her_own_keeps_its_traceback():
    with pytest.raises(penchant.Error, match="a bug in my own network") as caught:
        spread(architecture=Broken)
    (note,) = caught.value.__notes__
    assert "in forward" in note and "test_imported.py" in note


# ---- her weights

MEASURED = """
import attrs
import penchant

@attrs.frozen
class Measured(penchant.Probe):
    \"\"\"The norm of one network.\"\"\"
    name = "measured"
    needs = ("architecture", "dataset")
    takes = ("fresh", "trained")
    target = "penchant_measured:run"
    quantities = {"norm": "of its parameters"}
    presets = {"quick": {"training": {"steps": 5}}}

def run(options, context):
    for step, network in context.trained():
        norm = sum(p.detach().square().sum() for p in network.parameters())
    return penchant.Result({"norm": penchant.Quantity(norm, exact=True)})

@penchant.hookimpl
def penchant_probes():
    return [Measured]
"""


WITHOUT = "names in the file without '{}'"


def prefixed(prefix, state):
    return {f"{prefix}{name}": each for name, each in state.items()}


def zeros(state):
    return {name: torch.zeros_like(each) for name, each in state.items()}


def norm(network):
    return float(sum(p.detach().square().sum() for p in network.parameters()))


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        (lambda state: state, None),
        (lambda state: {"model": state}, None),
        (lambda state: {"state_dict": state, "epoch": 3}, None),
        (lambda state: {"model_state_dict": state, "optimizer_state_dict": {"lr": 0.1}}, None),
        (lambda state: {"state_dict_ema": prefixed("module.", state)}, WITHOUT.format("module.")),
        (
            lambda state: {"state_dict": state, "state_dict_ema": zeros(state)},
            "the file's 'state_dict_ema' is not used",
        ),
        (lambda state: prefixed("module.", state), WITHOUT.format("module.")),
        (lambda state: {"model": prefixed("net.", state)}, WITHOUT.format("net.")),
    ],
    ids=[
        *("state dict", "model", "state_dict", "model_state_dict", "state_dict_ema", "both"),
        *("module.", "Lightning's"),
    ],
)
def test_checkpoints_as_trainers_write_them(install, tmp_path, saved, told):
    install("measured", MEASURED)
    network = Net()
    torch.save(saved(network.state_dict()), tmp_path / "net.pt")
    found = penchant.measure(
        "measured", architecture=Net, dataset=(X, Y), weights=tmp_path / "net.pt", executor="serial"
    )
    assert found.quantities["norm"].value == pytest.approx(norm(network), rel=1e-6)
    assert found.conventions.get("weights") == told


def test_a_module_that_is_named_by_text_is_one_network(install, tmp_path, monkeypatch):
    """Its weights are drawn when its file is imported: workers must be given these."""
    install("measured", MEASURED)
    (tmp_path / "module_by_text.py").write_text(
        "from torch import nn\n\nmodule = nn.Linear(4, 2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = {"architecture": "import:factory=module_by_text:module", "dataset": (X, Y)}
    found = penchant.measure(
        "measured", **arguments, executor="processes", workers=2, time_limit=60
    )
    import module_by_text

    assert found.quantities["norm"].value == pytest.approx(norm(module_by_text.module), rel=1e-6)
    with pytest.raises(penchant.Error, match=r"draws fresh networks, found one module \(Linear"):
        penchant.measure("output-spread", **arguments)


def test_weights_themselves_are_refused_with_the_cure(install):
    install("measured", MEASURED)
    with pytest.raises(penchant.Error, match="must be a file, .* found OrderedDict: save weights"):
        penchant.measure("measured", architecture=Net, dataset=(X, Y), weights=Net().state_dict())


# ---- her data


class Rows(Dataset):
    """Rows as Hugging Face's datasets have them."""

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return {"x": X[index], "label": int(Y[index]), "id": index}


SAME = {
    "arrays": (X.numpy(), Y.numpy()),
    "list of labels": (X, Y.tolist()),
    "pairs": TensorDataset(X, Y),
    "rows of dicts": Rows(),
    "loader of rows": DataLoader(Rows(), batch_size=7),
    "shuffled loader": DataLoader(TensorDataset(X, Y), batch_size=7, shuffle=True),
    "columns": {"x": X, "label": Y, "id": list(range(60))},
    "a column of labels": (X, Y[:, None]),
    "one-hot labels": (X, nn.functional.one_hot(Y)),
    "text": (X, ["yes" if label else "no" for label in Y]),
    "array of text": (X, np.array(["b", "a"])[1 - Y.numpy()]),
    "boolean labels": (X, Y.bool()),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_data_in_other_words(kind, usual):
    assert value(dataset=SAME[kind]) == pytest.approx(usual, rel=1e-6)


def test_train_and_test_parts_have_names():
    splits = {"train": {"image": X, "label": Y}, "test": {"image": X[:9], "label": Y[:9]}}
    found = data(splits)
    assert (len(found.train.inputs), len(found.test.inputs)) == (60, 9)
    with pytest.raises(
        penchant.Error, match="the splits train, validation, expected train and test"
    ):
        data({"train": (X, Y), "validation": (X, Y)})


def test_classes_of_all_parts_are_numbered_together():
    texts = ["cat", "dog"] * 30
    found = data(((X, texts), (X[:2], ["eel", "dog"])))
    assert found.classes == 3
    assert found.test.labels.tolist() == [2, 1]
    assert found.conventions["labels"] == "text, numbered in alphabetical order: cat, dog, eel"


def test_one_hot_rows_say_how_many_classes_there_are():
    found = data((X, nn.functional.one_hot(Y, 5)))
    assert found.classes == 5 and found.conventions["labels"] == "one-hot rows, read as classes"


def test_floating_point_labels_are_fitted_as_they_are():
    found = data((X, Y.float()))
    assert found.classes == 0 and "although all are whole" in found.conventions["labels"]
    with pytest.raises(penchant.Error, match="1 per sample; whole numbers would be classes"):
        spread(dataset=(X, Y.float()))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((X, Y + 1), "labels run from 1 to 2, expected classes that count from 0: subtract 1"),
        ((X, Y[:, None].repeat(1, 2) * 3), "labels are whole numbers, 2 per sample, and not"),
        ((X, ["a"] * 59 + [3]), "some labels are text and others are not"),
        ((X.tolist(), Y.tolist()), "inputs are a list of lists, expected a tensor or an array"),
        (({"nodes": X, "edges": X}, Y), "inputs are a dict of nodes, edges, expected one tensor"),
        (((X, X[:, :2]), Y), r"must all have one shape, found 60 x \d+ and 60 x 2; several inputs"),
        ({"picture": X, "label": Y}, "the data have picture, label, expected one column such as"),
        ({"x": X, "image": X, "label": Y}, "expected one column such as image"),
        (TensorDataset(X, Y, Y), "a sample of the dataset is tuple, expected a pair"),
        (TensorDataset(X), "expected a pair .input, label."),
        (((X, ["a"] * 60), (X, Y)), "labels of one split are text, those of the other are not"),
        ((BYTES.long(), Y), "images of whole numbers up to 255, int64: give uint8"),
    ],
)
def test_data_that_are_not_clear_are_refused_with_a_sentence(source, message):
    with pytest.raises(penchant.Error, match=message):
        data(source)


def test_pixels_are_never_silently_large():
    found = data((BYTES.float(), Y))
    assert found.warnings[0].startswith("inputs are images of whole numbers up to 255, used as")
    assert not data((BYTES.float() / 255, Y)).warnings
    assert not data((X * 100, Y)).warnings


def pictures(mode):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    found = [image.fromarray(each[0].numpy()).convert(mode) for each in BYTES]
    return found, Y.tolist()


def test_pictures_are_channels_first_and_between_zero_and_one():
    grey = data(pictures("L"))
    assert torch.equal(
        torch.cat([grey.train.inputs, grey.test.inputs]).sort(0)[0], (BYTES / 255).sort(0)[0]
    )
    assert grey.conventions["inputs"] == "bytes divided by 255"
    images, labels = pictures("RGB")
    colour = data({"image": images, "label": labels})
    assert colour.shape == (3, 4, 4) and float(colour.train.inputs.max()) <= 1
    assert data(list(zip(*pictures("RGB")))).shape == (3, 4, 4)
    assert data(DataLoader(list(zip(*pictures("RGB"))))).shape == (3, 4, 4)
    with pytest.raises(penchant.Error, match="mode 'P', expected one of L, RGB, RGBA"):
        data(pictures("P"))


class Streaming(IterableDataset):
    def __iter__(self):
        for each, label in zip(X, Y):
            yield {"x": each, "label": int(label)}


def test_batches_that_are_dicts_are_streamed():
    loader = DataLoader(Streaming(), batch_size=16)
    found = data((loader, TensorDataset(X[:9], Y[:9])))
    assert torch.equal(found.train.inputs.whole(), X)
    with pytest.raises(penchant.Error, match="single samples one after another, not batches"):
        data((Streaming(), TensorDataset(X[:9], Y[:9])))


def doubled(rows):
    inputs, labels = torch.utils.data.default_collate(rows)
    return 2 * inputs, labels


def test_a_loader_that_makes_something_else_of_its_samples_is_believed():
    loader = DataLoader(TensorDataset(X, Y), batch_size=16, collate_fn=doubled)
    found = data((loader, (X, Y)))
    assert torch.equal(found.train.inputs.whole(), 2 * X)
    shuffled = DataLoader(TensorDataset(X, Y), batch_size=16, collate_fn=doubled, shuffle=True)
    with pytest.raises(penchant.Error, match="collate_fn of its own and shuffles"):
        data((shuffled, (X, Y)))


def test_columns_of_other_content_are_another_job(tmp_path):
    first = spread(dataset={"x": X, "label": Y}, out=tmp_path / "one")
    again = spread(dataset={"x": X.clone(), "label": Y}, out=tmp_path / "two")
    other = spread(dataset={"x": X + 1, "label": Y}, out=tmp_path / "three")
    assert first.record["key"] == again.record["key"] != other.record["key"]
    named = spread(architecture=Keyed, output="logits", out=tmp_path / "four")
    whole = spread(architecture=Keyed, output="hidden", unit=0, dataset=(X, Y.float()))
    assert named.record["id"] != whole.record["id"]


# ---- settings


def test_settings_in_words_of_torch_and_numpy(usual):
    found = spread(dtype=torch.float64, device=torch.device("cpu"))
    assert found.record["dtype"] == "float64" and found.record["device"] == "cpu"
    arguments = {"architecture": "logistic", "networks": 4, "executor": "serial"}
    assert penchant.measure("nad", shape=np.array([1, 4, 4]), **arguments).shape == (1, 4, 4)
    assert penchant.measure("nad", shape=torch.Size([1, 4, 4]), **arguments).shape == (1, 4, 4)
    with pytest.raises(
        penchant.Error, match="dtype must be one of float32, float64, found 'float16'"
    ):
        spread(dtype=torch.float16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": [0, 1]}, r"measure takes one seed, found seeds \[0, 1\]: measure with each"),
        (
            {"trainig": {}},
            "neither measure nor output-spread has an option 'trainig'; did you mean 'training'",
        ),
        ({"netwroks": 3}, "did you mean 'networks'"),
        ({"preset": "fig-9"}, "has no preset 'fig-9'; there are quick"),
        ({"architecture": "perceptrom"}, "did you mean 'perceptron'"),
    ],
)
def test_mistakes_in_names_are_told_with_what_was_meant(arguments, message):
    with pytest.raises(penchant.Error, match=message):
        spread(**arguments)


def test_a_folder_of_another_measurement_is_moved_aside_where_that_is_asked_for(tmp_path):
    spread(out=tmp_path / "run")
    with pytest.raises(penchant.Error, match="holds another experiment.*fresh"):
        spread(out=tmp_path / "run", networks=5)
    found = spread(out=tmp_path / "run", networks=5, fresh=True)
    assert found.options["networks"] == 5
    assert len(list(tmp_path.iterdir())) == 2


def test_an_estimator_takes_options_in_its_text():
    options = {"architecture": "perceptron", "networks": 4, "executor": "serial"}
    options |= {"shape": (4, 4), "outputs": 1}
    texts = ("gradient-covariance:method=autograd", {"name": "gradient-covariance"})
    methods = []
    for text in texts:
        found = penchant.measure("nad", estimators={"directions": text}, **options)
        methods.append(found.record["estimators"]["directions"]["options"]["method"])
    assert methods[0] == "autograd" != methods[1]
    with pytest.raises(penchant.Error, match="no option 'metod'; did you mean 'method'"):
        found = penchant.measure(
            "nad", estimators={"directions": "gradient-covariance:metod=autograd"}, **options
        )


PATCHED = """
import attrs
import penchant

SCALE = 1.0

@attrs.frozen
class Patched(penchant.Probe):
    \"\"\"The scale that its shards see.\"\"\"
    name = "patched"
    target = "penchant_patched:run"
    quantities = {"scale": "mean over shards"}
    presets = {"quick": {}}

def run(options, context):
    found = [shard["scale"] for shard in context.map(scale, [0, 1, 2, 3])]
    return penchant.Result({"scale": penchant.Quantity(sum(found) / 4, exact=True)})

def scale(context, item):
    return {"scale": SCALE}

@penchant.hookimpl
def penchant_probes():
    return [Patched]
"""


def test_measure_uses_what_is_patched_in_her_process_unless_workers_are_asked_for(
    install, monkeypatch
):
    install("patched", PATCHED)
    import penchant_patched

    monkeypatch.setattr(penchant_patched, "SCALE", 5.0)
    assert penchant.measure("patched").quantities["scale"].value == 5.0
    assert penchant.measure("patched", workers=2).quantities["scale"].value == 1.0


def test_a_module_of_torchs_layers_is_sent_to_workers(install):
    install("measured", MEASURED)
    network = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    arguments = {"architecture": network, "dataset": (X, Y), "time_limit": 60}
    found = penchant.measure("measured", **arguments, executor="processes", workers=2)
    assert found.quantities["norm"].value == pytest.approx(norm(network), rel=1e-6)
    assert not found.warnings
    # What pickle cannot send is still refused before a worker fails.
    network[1].forward = lambda inputs: inputs
    with pytest.raises(penchant.Error, match="which other processes cannot import"):
        penchant.measure("measured", **arguments, executor="processes", workers=2)


def test_float64_arrays_are_measured_in_the_experiments_precision(install):
    """Training in double precision takes longer for the same digits; `dtype` asks for it."""
    install("measured", MEASURED)
    seen = []

    class Looking(Net):
        def forward(self, inputs):
            seen.append((inputs.dtype, next(self.parameters()).dtype))
            return super().forward(inputs)

    norms = []
    for inputs in (X, X.double(), X.double().numpy()):
        arguments = {"architecture": Looking, "dataset": (inputs, Y)}
        norms.append(penchant.measure("measured", **arguments).quantities["norm"].value)
    assert set(seen) == {(torch.float32, torch.float32)}
    assert norms[0] == norms[1] == norms[2]


POINTS = torch.randn(40, 3, generator=torch.Generator("cpu").manual_seed(0))
CLASSES = torch.arange(40) % 2


def quantised(tensor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch will give them up
        return torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((POINTS, torch.where(CLASSES > 0, torch.nan, 0.5)), "train labels have 15 values that are"),
        ((POINTS[:0], CLASSES[:0]), "found no samples, expected at least two"),
        ((torch.ones(40, 3, 0), CLASSES), "have no features: all of them together have the shape 40"),
        ((POINTS.to_sparse(), CLASSES), r"a tensor in the form sparse_coo.*give tensor.to_dense\(\)"),
        ((POINTS, CLASSES.float().to_sparse()), "a tensor in the form sparse_coo"),
        ((POINTS.to("meta"), CLASSES), "a tensor on the device meta, which has no values"),
        ((quantised(POINTS), CLASSES), r"give tensor.dequantize"),
        ((torch.full((40, 3), 2**64 - 1, dtype=torch.uint64), CLASSES), "inputs are whole numbers beyond"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_measured_are_refused_with_a_sentence(source, message):
    settings = {"architecture": two_features, "networks": 4, "executor": "serial"}
    # As objects, which identify the job, and from a factory, which is called by it.
    for given in (source, lambda: source):
        with pytest.raises(penchant.Error, match=message):
            penchant.measure("output-spread", dataset=given, **settings)


def two_features(shape, outputs):
    return torch.nn.Linear(shape[0], outputs)


def test_tensors_that_require_gradients_or_have_unsigned_types_are_data_like_others():
    plain = data((POINTS, CLASSES))
    for inputs, labels in (
        (POINTS.clone().requires_grad_(), CLASSES),
        (POINTS, CLASSES.to(torch.uint64)),
        (POINTS, CLASSES.numpy().astype("uint32")),
    ):
        found = data((inputs, labels))
        assert torch.equal(found.train.inputs, plain.train.inputs)
        assert torch.equal(found.test.labels, plain.test.labels)
        assert not found.train.inputs.requires_grad
    whole = torch.arange(120).reshape(40, 3)
    tokens = data((whole.to(torch.uint16), CLASSES))
    assert tokens.train.inputs.dtype == torch.int64
    assert torch.equal(tokens.train.inputs, data((whole, CLASSES)).train.inputs)
