"""One part cannot break another: jobs, figures, listeners, plugins and the user's session."""

import json
import warnings

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant.plugins import discovery


def odd(folder, *hows, **settings):
    probes = [{"name": "odd", "how": how, "label": how} for how in hows]
    raw = {"probes": probes, "executor": "serial", **settings}
    return penchant.run(raw, out=folder / "run")


def statuses(run):
    return {job["labels"]["probe"]: job["status"] for job in run.jobs}


@pytest.mark.parametrize("how", ["float32", "tensor", "count"])
def test_numbers_of_numpy_and_torch_are_accepted(tmp_path, install, how):
    install("odd")
    found = odd(tmp_path, how).results()[0]
    assert found.status == "done"
    assert found.quantities["found"].value == 1.5
    assert found.quantities["found"].count == 3


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("set", "convention 'odd' must be text, found set"),
        ("object", "array 'values' must hold numbers or text, found object"),
        ("structured", "array 'values' must hold numbers or text"),
        ("bad name", "must not end in .npy"),
        ("nothing", "a quantity needs a value, found None"),
        ("exit", "SystemExit: 0"),
    ],
)
def test_what_cannot_be_stored_fails_its_job_only(tmp_path, install, how, message):
    install("odd")
    run = odd(tmp_path, how, "fine")
    assert statuses(run) == {how: "failed", "fine": "done"}
    assert message in run.results(probe=how)[0].error
    assert not run.done


def test_arrays_may_have_any_name(tmp_path, install):
    install("odd")
    found = odd(tmp_path, "name").results()[0]
    assert set(found.arrays) == {"file", "allow_pickle"}


def test_exit_in_a_figure_or_a_change_of_an_array_leaves_the_numbers(tmp_path, install):
    install("odd")
    run = odd(tmp_path, "exit in figure", "change", "fine")
    assert run.done
    for how in ("exit in figure", "change"):
        found = run.results(probe=how)[0]
        assert found.arrays["values"].tolist() == [3.0, 1.0, 2.0]
        assert any("figures could not be drawn" in text for text in found.warnings)


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_exit_in_a_listener_ends_nothing(tmp_path, install, executor):
    install("odd")
    install("leaving")
    with pytest.warns(UserWarning, match="plugin leaving 1.0 failed in penchant_job_finished"):
        run = odd(tmp_path, "float32", "count", executor=executor, workers=2)
    assert run.done


def test_a_listener_that_fails_ends_nothing_where_warnings_are_errors(tmp_path, install):
    install("odd")
    install("leaving")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert odd(tmp_path, "fine", "count").done


def test_a_listener_that_empties_the_record_loses_no_job(tmp_path, install):
    install("odd")
    install("clearing")
    run = odd(tmp_path, "fine", "count")
    assert run.done
    assert len(penchant.read(run.folder).results()) == 2


def test_exit_code_is_zero_only_when_every_job_is_done(command, install, tmp_path):
    install("odd")
    done = command("probe", "odd", "-o", "how=exit", "--executor", "serial")
    assert done.returncode == 1
    assert "SystemExit" in done.stderr


def test_a_distribution_without_metadata_is_disabled(install, tmp_path):
    site = install("odd")
    for name, text in (("bare", None), ("empty", "")):
        info = site / f"penchant_{name}-1.0.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(f"[penchant]\n{name} = penchant_{name}\n")
        if text is not None:
            (info / "METADATA").write_text(text)
    discovery.load.cache_clear()
    found = {plugin.name: plugin for plugin in discovery.load().plugins}
    assert found["odd"].status == "loaded"
    assert found["bare"].status == found["empty"].status == "disabled"


def test_a_plugin_cannot_take_the_executors_away(install):
    install("greedy")
    assert discovery.load().find("executor", "serial").distribution == "penchant"
    greedy = discovery.load().find("executor", "penchant-greedy/serial")
    assert greedy.distribution == "penchant-greedy"


def test_what_a_plugin_prints_does_not_end_up_in_json(install, command):
    install("odd", prefix="print('hello from a plugin')\n")
    done = command("list", "--json")
    assert json.loads(done.stdout)
    assert "hello from a plugin" in done.stderr


def test_a_job_that_kills_its_worker_never_runs_in_the_main_process(tmp_path, install):
    install("odd")
    for _ in range(2):
        run = odd(tmp_path, "kill", "fine", executor="processes", workers=2)
        assert statuses(run) == {"kill": "failed", "fine": "done"}
    assert "crashed its worker 3 times" in run.results(probe="kill")[0].error


def test_data_changed_in_place_changes_no_other_job(tmp_path, install):
    install("odd")
    data = [{"name": "import", "factory": testing.SAMPLES}]
    probes = [
        {"name": "odd", "how": how, "label": label, "datasets": ["import"]}
        for how, label in (("mean", "before"), ("data", "changes"), ("mean", "after"))
    ]
    probes[2]["training"] = {}
    raw = {"datasets": data, "probes": probes[:2], "executor": "serial"}
    before = penchant.run(raw, out=tmp_path / "one").results(probe="before")[0]
    raw = {**raw, "probes": [probes[2]]}
    after = penchant.run(raw, out=tmp_path / "two").results(probe="after")[0]
    assert after.quantities["found"].value == before.quantities["found"].value


def identity(setup, item, worker):
    return setup + item


def test_strided_views_from_shards_are_summed_as_from_a_file():
    from penchant.execution.job.mapping import pack, unpack

    values = np.arange(12.0).reshape(3, 4).T
    packed = pack({"values": values, "text": "a", "none": None, "yes": True}, identity, {})
    answer, _ = unpack(packed)
    assert answer["values"].flags.c_contiguous
    assert answer["text"] == "a" and answer["none"] is None and answer["yes"] is True


def flags_of(tmp_path, executor):
    found = odd(tmp_path / executor, "flags", executor=executor, workers=2)
    return found.results()[0].arrays["values"].tolist()


EXPECTED = [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]


def test_the_policy_is_the_same_in_serial_and_processes(tmp_path, install):
    install("odd")
    assert flags_of(tmp_path, "serial") == EXPECTED
    assert flags_of(tmp_path, "processes") == EXPECTED


def test_the_policy_is_set_whatever_the_caller_has_set(tmp_path, install):
    install("odd")
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu"), torch.no_grad():
            assert flags_of(tmp_path, "serial") == EXPECTED
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_new_settings_of_precision_are_read_and_put_back(tmp_path, install):
    install("odd")
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        assert flags_of(tmp_path, "serial") == EXPECTED
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before


def test_a_probe_that_changes_the_folder_does_not_move_the_run(tmp_path, install, monkeypatch):
    install("odd")
    monkeypatch.chdir(tmp_path)
    raw = {"probes": [{"name": "odd", "how": "chdir"}], "executor": "serial"}
    run = penchant.run(raw, out="relative")
    assert run.done and (tmp_path / "relative" / "run.json").is_file()


def test_a_dataset_may_start_processes_of_its_own(tmp_path, install):
    install("odd")
    data = [{"name": "import", "factory": "penchant_loading:make"}]
    install("loading")
    probe = {"name": "odd", "how": "mean", "datasets": ["import"]}
    raw = {"datasets": data, "probes": [probe], "seeds": [0, 1], "workers": 2}
    assert penchant.run({**raw, "executor": "processes"}, out=tmp_path / "run").done


def test_a_plugin_that_raises_keyboard_interrupt_is_disabled_like_any_other(install, command):
    install("rude", "raise KeyboardInterrupt")
    done = command("list", "executors")
    assert done.returncode == 0 and "serial" in done.stdout
    told = command("plugins").stdout
    assert "penchant-rude): disabled\n  KeyboardInterrupt:" in told


def test_ctrl_c_while_a_plugin_is_imported_ends_the_command(install, command):
    install("slow-import", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = command("list", "executors")
    assert done.returncode == 130 and "Traceback" not in done.stderr


def test_a_plugin_that_takes_long_to_import_is_named(install, monkeypatch, capsys):
    monkeypatch.setattr(discovery, "SECONDS_TO_NAME", 0.05)
    monkeypatch.setenv("PENCHANT_PLUGINS", "slow-import")
    install("slow-import", "import time\ntime.sleep(0.3)\n")
    discovery.load()
    assert capsys.readouterr().err == (
        "penchant: plugin 'slow-import' 1.0 is still being imported after 0.05 s; "
        "`penchant --without slow-import ...` leaves it out\n"
    )
