"""All executors of the kernel through one interface; those of plugins are in their own tests."""

import penchant_testing as testing
import pytest


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_an_executor_does_what_all_executors_do(name, tmp_path):
    testing.check_executor(name, tmp_path)
