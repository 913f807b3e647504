"""The soak, for two kills: `make soak` runs it for ten, on Ray as well."""

import pytest
import soak


@pytest.mark.slow  # interpreters that load torch, because they are what is killed
def test_two_kills_lose_and_change_nothing(capfd):
    arguments = ["--kills", "2", "--seconds", "300", "--seeds", "1", "--executors", "processes"]
    # With this seed the main process is killed in the middle of its work, then a worker.
    code = soak.main([*arguments, "--pause", "0", "0.2", "--seed", "2"])
    told, _ = capfd.readouterr()
    assert code == 0, told
    assert "2 kills (main SIGKILL 1, worker SIGKILL 1)" in told
    assert "folders of 4 jobs, 0 files lost, 0 problems" in told
