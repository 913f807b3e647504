"""The soak, for a minute: `make soak` runs it for ten, on Ray as well."""

import soak


def test_a_minute_of_kills_loses_and_changes_nothing(capfd):
    arguments = ["--kills", "2", "--seconds", "60", "--seeds", "1", "--executors", "processes"]
    # With this seed the main process is killed in the middle of its work, then a worker.
    code = soak.main([*arguments, "--pause", "0", "0.2", "--seed", "10"])
    told, _ = capfd.readouterr()
    assert code == 0, told
    assert "2 kills (main SIGKILL 1, worker SIGKILL 1)" in told
    assert "folders of 4 jobs, 0 files lost, 0 problems" in told
