"""The oldest torch that each distribution declares has every name that its sources use."""

import json

import pytest
import torch_floor

STORED = json.loads(torch_floor.STORED.read_text())


@pytest.mark.parametrize("folder", torch_floor.distributions(), ids=lambda folder: folder.name)
def test_every_name_of_torch_exists_in_the_oldest_version_that_is_declared(folder):
    floor = torch_floor.floor(folder)
    used = torch_floor.used_names(folder)
    if floor is None:
        # its torch is the kernel's
        floor = torch_floor.floor(torch_floor.ROOT)
    (names,) = [
        set(stored) for version, stored in STORED.items() if torch_floor.matches(floor, version)
    ] or [set()]
    missing = {name: path for name, path in used.items() if name not in names}
    assert not missing, (
        f"torch {floor}, the oldest that {folder.name} declares, is not known to have these names: "
        "raise the floor, or run tests/tools/torch_floor.py on its wheel"
    )


def test_a_name_of_a_later_torch_is_missed():
    names = torch_floor.names_in("import torch\nx = torch.accelerator.empty_host_cache_later()")
    (stored,) = [names for version, names in STORED.items() if version.startswith("2.8")]
    assert names - set(stored)
