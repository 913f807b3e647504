"""What other distributions add (`penchant.extras`): every name is used, and can be loaded."""

import re

import pytest
from penchant.errors import Error
from penchant.extras import EXTRAS, extra


@pytest.mark.parametrize("name", EXTRAS)
def test_every_extra_can_be_loaded(name):
    assert callable(extra(name))


def test_the_kernel_uses_these_names_and_no_others(root):
    files = (root / "framework" / "penchant").rglob("*.py")
    used = {name for path in files for name in re.findall(r'\bextra\("(.+?)"\)', path.read_text())}
    assert used == set(EXTRAS)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(EXTRAS, "card", "penchant_absent.card:card")
    with pytest.raises(Error, match="this needs penchant-absent, .*: pip install penchant-absent"):
        extra("card")
