"""Executors of the kernel, and one of a user's own; those of plugins are in their own tests."""

import penchant_testing as testing
import pytest


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_an_executor_does_what_all_executors_do(name, tmp_path):
    testing.check_executor(name, tmp_path)


def test_the_example_of_an_executor_does_what_all_executors_do(tmp_path, root, monkeypatch):
    monkeypatch.syspath_prepend(root / "examples")
    from executor_threads import Threads

    testing.check_executor(Threads, tmp_path, deaths=False)
