"""The quick form of an experiment: smaller numbers, and a report that says so."""

import penchant

EXAMPLE = {
    "architectures": [{"name": "perceptron", "width": 2000}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 5000}],
    "seeds": [3, 4, 5],
}


def test_numbers_shrink_and_a_run_says_that_it_is_reduced(tmp_path):
    raw = {**EXAMPLE, "figures": False, "executor": "serial"}
    run = penchant.run(raw, out=tmp_path / "run", quick=True)
    page = (run.folder / "report.html").read_text()
    assert "A reduced run:</strong> reduced by --quick" in page
    assert run.title == "experiment (quick)"
    assert run.record["seeds"] == [3, 4]
    for result in run.results():
        assert result.conventions["form"].startswith("reduced by --quick")
        assert result.record["architecture"]["options"] == {"width": 2000}
        assert result.record["probe"]["options"]["networks"] == 64
