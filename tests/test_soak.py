"""The soak, for a minute: `make soak` runs it for ten, on Ray as well."""

import soak


def test_a_minute_of_kills_loses_and_changes_nothing(capfd):
    arguments = ["--kills", "3", "--seconds", "60", "--seeds", "2", "--executors", "processes"]
    code = soak.main([*arguments, "--pause", "0", "1"])
    told, _ = capfd.readouterr()
    assert code == 0, told
    assert "folders of 8 jobs, 0 files lost, 0 problems" in told
