"""What users bring, in the words of an experiment file: timm's files, many architectures."""

import penchant
import pytest
import torch
from safetensors.torch import save_file

pytest.importorskip("penchant_timm", reason="penchant-timm is missing")

PROBE = """
[[probes]]
name = "tangent-kernel"
samples = 12
groups = 4
ratios = [3]
permutations = 4
"""


def pictures():
    """Sixty images of three classes."""
    generator = torch.Generator("cpu").manual_seed(0)
    labels = torch.arange(60, device="cpu") % 3
    inputs = torch.randn(60, 3, 32, 32, generator=generator, device="cpu")
    inputs[torch.arange(60, device="cpu"), labels] += 1.0
    return (inputs[:45], labels[:45]), (inputs[45:], labels[45:])


DATA = f"""
[[datasets]]
name = "import"
factory = "{__name__}:pictures"
"""


def model(outputs, seed=3):
    from penchant_timm.importing import import_timm

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = import_timm().create_model("test_resnet", num_classes=outputs, in_chans=3)
    return made.eval()


def run(tmp_path, architectures):
    """The results of an experiment file with these architectures."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "experiment.toml"
    path.write_text(
        "figures = false\nexecutor = 'serial'\n" + "\n".join([*architectures, DATA, PROBE])
    )
    return penchant.run(path, out=tmp_path / "run")


def entry(name, **options):
    """An entry of an experiment file; values are TOML."""
    lines = [f"{key} = {value}" for key, value in options.items()]
    return "\n".join(["[[architectures]]", f'name = "{name}"', *lines])


def kernel_of(network):
    return penchant.measure(
        "tangent-kernel",
        architecture=network,
        dataset={"name": "import", "factory": pictures},
        samples=12,
        groups=4,
        ratios=(3,),
        permutations=4,
    )


def trace(result):
    return result.quantities["trace"].value


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_local_file_of_timm_is_the_network_that_it_holds(tmp_path, suffix):
    network = model(3)
    path = tmp_path / f"net{suffix}"
    if suffix == ".pth":
        torch.save({"state_dict": network.state_dict()}, path)
    else:
        save_file(network.state_dict(), path)
    filled = run(tmp_path, [entry("timm", model='"test_resnet"', weights=f'"{path}"')])
    assert trace(filled.results()[0]) == pytest.approx(trace(kernel_of(network)), rel=1e-5)


def test_timms_own_checkpoint_path_is_an_argument(tmp_path):
    network = model(3)
    torch.save(network.state_dict(), tmp_path / "net.pth")
    arguments = f'["checkpoint_path={tmp_path}/net.pth"]'
    filled = run(tmp_path, [entry("timm", model='"test_resnet"', arguments=arguments)])
    fresh = filled.results()[0]
    assert fresh.status == "done", fresh.error


def test_a_file_for_other_classes_fills_all_but_the_head(tmp_path):
    network = model(1000)
    path = tmp_path / "net.pth"
    torch.save(network.state_dict(), path)
    given = {"model": '"test_resnet"', "weights": f'"{path}"'}
    strict, loose = (
        run(folder, [entry("timm", **given, **more)]).results()[0]
        for folder, more in ((tmp_path / "strict", {}), (tmp_path / "loose", {"strict": "false"}))
    )
    assert "'fc' is for 1000 outputs: strict = false takes the rest" in (strict.error or "")
    assert loose.status == "done", loose.error
    assert "fc.weight" in loose.conventions["weights"]


def test_twenty_architectures_are_twenty_jobs_and_one_axis(tmp_path):
    entries = []
    for width in range(1, 21):
        options = {"widths": f"[{width}]", "label": f'"width {width:02}"'}
        entries.append(entry("mlp", **options))
    done = run(tmp_path, entries)
    results = done.results()
    assert len(results) == 20 and all(each.status == "done" for each in results)
    table = done.to_xarray()
    assert list(table["architecture"].values) == [f"width {width:02}" for width in range(1, 21)]
