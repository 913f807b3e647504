"""Experiments: everything that is wrong is said before anything runs; jobs have definite names."""

import attrs
import penchant
import pytest
from penchant.experiments.experiment import build, read_toml
from penchant.plugins import discovery

EXAMPLE = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread"}],
}


def jobs(**changes):
    return build({**EXAMPLE, **changes}, discovery.load(), "own.toml").jobs("cpu")


def entry(**changes):
    return {"probes": [{"name": "output-spread", **changes}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"probes": 3},
            "probes must be a list of tables ([[probes]]), found int (own.toml, probes)",
        ),
        ({"probes": {"name": "nad"}}, "probes must be a list of tables"),
        ({"probes": ["nad"]}, "expected a table, found 'nad' (own.toml, probes[0])"),
        ({"probes": []}, "the experiment has no probe"),
        ({"training": 3}, "expected a table, found 3 (own.toml, training)"),
        ({"sedes": [1]}, "unknown key 'sedes'; did you mean 'seeds'? (own.toml)"),
        ({"seeds": 1}, "seeds must be a list, each a whole number, found 1 (int) (own.toml.seeds)"),
        ({"seeds": [1, 1]}, "seeds must differ, found [1, 1]"),
        ({"seeds": []}, "expected at least one seed"),
        ({"shape": [1, 2, 3, 4]}, "shape must have one to three dimensions, found [1, 2, 3, 4]"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64, found 'float16'"),
        (
            {"architectures": [{"name": "perceptrn"}]},
            "unknown architecture 'perceptrn'; did you mean 'perceptron'",  # other plugins may have names as near
        ),
        ({"architectures": [{"name": 3}]}, "expected a name of an installed architecture, found 3"),
        (
            {"architectures": [{"name": "perceptron", "widht": 3}]},
            "perceptron has no option 'widht'; did you mean 'width'? (own.toml, architectures[0].widht)",
        ),
        (
            {"architectures": [{"name": "perceptron"}] * 2},
            "two architectures are called 'perceptron'",
        ),
        ({"architectures": []}, "output-spread needs an architecture: add [[architectures]]"),
        ({"datasets": []}, "output-spread needs a dataset: add [[datasets]]"),
        ({"training": {"epohcs": 3}}, "training has no option 'epohcs'; did you mean 'epochs'?"),
        (
            entry(networks="many"),
            "networks must be a whole number, found 'many' (str) (own.toml, probes[0].networks)",
        ),
        (
            entry(preset="fig-9"),
            "output-spread has no preset 'fig-9'; there are quick (own.toml, probes[0].preset)",
        ),
        (
            entry(architectures=["perceptor"]),
            "no architecture has the label 'perceptor'; did you mean 'perceptron'?",
        ),
        (entry(architectures=[["x"]]), "no architecture has the label ['x']"),
        (
            entry(architectures="perceptron"),
            "architectures must be a list of labels, found 'perceptron'",
        ),
        (
            entry(estimators={"spraed": "x"}),
            "output-spread has no role 'spraed'; did you mean 'spread'?",
        ),
        (
            entry(estimators={"spread": "gradient-covariance"}),
            "'gradient-covariance' has the role directions, expected spread: standard-deviation",
        ),
        (
            entry(estimators={"spread": ["standard-deviation"] * 2}),
            "output-spread takes one estimator for spread, found 2",
        ),
        (
            {"architectures": [{"name": "perceptron", "lable": "a"}]},
            "perceptron has no option 'lable'; did you mean 'label'? (own.toml, architectures[0].lable)",
        ),
        (entry(estimators=3), "expected a table, found 3 (own.toml, probes[0].estimators)"),
    ],
)
def test_a_mistake_is_named_with_its_place(changes, message):
    with pytest.raises(penchant.Error) as caught:
        jobs(**changes)
    assert message in str(caught.value)


def test_malformed_toml_names_line_and_column(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("seeds = [0]\ntitle = = 3\n")
    with pytest.raises(penchant.Error, match=r"bad.toml is not valid TOML: .*line 2, column 9"):
        read_toml(path)
    with pytest.raises(penchant.Error, match="cannot be read"):
        read_toml(tmp_path / "none.toml")


def test_a_job_has_a_readable_and_definite_id():
    (job,) = jobs()
    assert job.id.startswith("output-spread-perceptron-two-blobs-s0-")
    assert jobs()[0].id == job.id
    assert jobs(title="another", workers=7, executor="serial")[0].id == job.id


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [1]},
        {"dtype": "float64"},
        {"threads": 2},
        entry(networks=65),
        {"training": {"epochs": 3}},
    ],
)
def test_what_changes_numbers_changes_the_id(changes):
    assert jobs(**changes)[0].id != jobs()[0].id


def test_a_named_preset_is_the_base_and_what_is_given_wins():
    assert jobs(**entry(networks=7))[0].probe.component.networks == 7
    assert jobs()[0].probe.component.networks == 64


def test_given_training_wins_over_the_preset_and_the_probe_over_the_experiment():
    raw = {"architectures": [{"name": "logistic"}], "probes": [{"name": "directional-accuracy"}]}
    plugins = discovery.load()
    assert build(raw, plugins).probes[0].training.epochs == 5
    assert (
        build({**raw, "training": {"steps": 7}}, plugins).probes[0].training.total_steps(100) == 7
    )
    own = {
        **raw,
        "training": {"steps": 7},
        "probes": [{"name": "directional-accuracy", "training": {"epochs": 2}}],
    }
    assert build(own, plugins).probes[0].training.epochs == 2


def test_seeds_and_axes_span_the_grid_with_datasets_as_neighbours():
    raw = {
        **EXAMPLE,
        "seeds": [0, 1],
        "architectures": [
            {"name": "perceptron"},
            {"name": "perceptron", "label": "wide", "width": 99},
        ],
        "datasets": [{"name": "two-blobs"}, {"name": "two-blobs", "label": "far", "distance": 9.0}],
    }
    found = build(raw, discovery.load()).jobs("cpu")
    assert len(found) == 8
    assert [job.labels["dataset"] for job in found] == ["two-blobs"] * 4 + ["far"] * 4


@attrs.frozen
class Optional(penchant.Probe):
    """Says which data it was given, and fails without any."""

    name = "optional"
    accepts = ("architecture", "dataset")
    quantities = {"given": "1"}

    @staticmethod
    def target(options, context):
        if not context.has("dataset"):
            raise penchant.Error("takes a file or a dataset, found neither")
        return penchant.Result({"given": penchant.Quantity(1.0, exact=True)})


def optional(**changes):
    plugins = discovery.load().with_component(Optional, penchant.Probe)
    raw = {**EXAMPLE, "probes": [{"name": "optional"}, {"name": "output-spread"}], **changes}
    return raw, plugins


def test_the_only_one_there_is_is_used_also_where_a_probe_could_do_without():
    raw, plugins = optional()
    labels = build(raw, plugins).jobs("cpu")[0].labels
    assert (labels["architecture"], labels["dataset"]) == ("perceptron", "two-blobs")
    raw["probes"][0] |= {"datasets": [], "architectures": []}
    assert build(raw, plugins).jobs("cpu")[0].labels == {"probe": "optional", "seed": 0}


def test_of_several_none_is_used_and_a_failure_says_how_to_name_one(tmp_path):
    two = [{"name": "two-blobs", "label": "Fashion"}, {"name": "two-blobs", "label": "b"}]
    raw, plugins = optional(datasets=two)
    run = penchant.run(raw | {"executor": "serial"}, plugins=plugins, out=tmp_path / "run")
    error = run.results(probe="optional")[0].error
    assert error.startswith("takes a file or a dataset, found neither; of several datasets")
    assert error.endswith('datasets = ["Fashion"]')
    alone = {**raw, "probes": raw["probes"][:1]}
    with pytest.raises(penchant.Error, match=r'entry names: datasets = \["Fashion"\]'):
        build(alone, plugins)
