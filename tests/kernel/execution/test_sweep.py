"""The sweep, for a few file operations: `make sweep` crashes before and after all of them."""

import pytest
import sweep


@pytest.mark.slow
def test_crashes_at_file_operations_lose_and_change_nothing(capfd):
    code = sweep.main(["--every", "40", "--seconds", "300"])
    told, _ = capfd.readouterr()
    assert code == 0, told
    assert " resumed and identical, 0 not, 0 not tried" in told


def test_a_copy_that_differs_or_was_not_tried_is_a_problem(tmp_path, monkeypatch, capsys):
    # What a crash leaves is a folder with one file; a resumed run should write "right" to it.
    def run(folder, moments=None):
        folder.mkdir(exist_ok=True)
        path = folder / "numbers"
        if moments is None:
            path.write_text("wrong")
            return 0
        with moments.around("open", path):
            path.touch()
        path.write_text("right")
        return 0

    monkeypatch.setattr(sweep, "run", run)
    monkeypatch.setattr(sweep, "load", lambda: None)
    problems = sweep.sweep(tmp_path, every=1, seconds=60.0)
    assert [text.partition(":")[0] for text in problems] == [
        "before open numbers",
        "after open numbers",
    ]
    assert "differs: ['numbers']" in problems[0]
    for path in tmp_path.iterdir():
        path.rename(tmp_path.parent / f"{path.name}-before")
    problems = sweep.sweep(tmp_path, every=1, seconds=-1.0)
    assert problems == ["2 crashes were not tried: give more --seconds"]
