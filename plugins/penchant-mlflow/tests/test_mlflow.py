"""The real package on a local store: what it stores is what the results hold."""

import penchant
import pytest

EXPERIMENT = {
    "architectures": [{"name": "perceptron", "width": 4}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 8}],
    "executor": "serial",
}
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # MLflow's own
    pytest.mark.usefixtures("without_report"),
]


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("PENCHANT_MLFLOW", "preferences")
    from mlflow.tracking import MlflowClient

    def runs():
        client = MlflowClient()
        experiment = client.get_experiment_by_name("preferences")
        return client, client.search_runs([experiment.experiment_id])

    return runs


def test_quantities_options_and_figures_are_stored(store, tmp_path):
    run = penchant.run(EXPERIMENT, out=tmp_path / "run", progress=False)
    client, (tracked,) = store()
    spread = run.results()[0].quantities["spread"]
    assert tracked.data.metrics["spread"] == spread.value
    assert tracked.data.metrics["spread-stderr"] == spread.stderr
    assert (
        tracked.data.params["networks"] == "8" and tracked.data.params["probe"] == "output-spread"
    )
    assert tracked.data.tags["convention output"]
    assert tracked.info.status == "FINISHED"
    pictures = [each.path for each in client.list_artifacts(tracked.info.run_id, "figures")]
    assert pictures and all(path.endswith((".svg", ".png")) for path in pictures)


def test_a_job_that_fails_says_why(store, tmp_path):
    def broken(shape, outputs):
        raise ValueError("a bug of my own")

    experiment = {**EXPERIMENT, "architectures": [{"name": "import", "factory": broken}]}
    assert not penchant.run(experiment, out=tmp_path / "run", progress=False).done
    _, (tracked,) = store()
    assert tracked.info.status == "FAILED" and "a bug of my own" in tracked.data.tags["error"]


def test_nothing_is_written_without_an_experiment(tmp_path, monkeypatch):
    monkeypatch.delenv("PENCHANT_MLFLOW", raising=False)
    monkeypatch.chdir(tmp_path)
    penchant.run(EXPERIMENT, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "mlruns").exists() and not list(tmp_path.glob("mlflow*"))
