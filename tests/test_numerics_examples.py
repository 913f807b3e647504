"""Examples in the docstrings of every module of penchant_numerics run."""

import doctest
import importlib
import pkgutil

import penchant_numerics
import pytest

MODULES = sorted(module.name for module in pkgutil.iter_modules(penchant_numerics.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(f"penchant_numerics.{name}")
    found = doctest.testmod(module, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert found.failed == 0
