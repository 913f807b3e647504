"""A model's folder may bring code along, which is not run."""

import contextlib
import json

import penchant
import pytest

NAMES = {"AutoConfig": "canary.Config", "AutoModelForCausalLM": "canary.Model"}


@pytest.mark.parametrize("kind", ["of_their_own", "gpt2"])
def test_code_of_a_models_folder_is_not_run(tmp_path, monkeypatch, kind):
    folder, ran = tmp_path / "model", tmp_path / "ran"
    folder.mkdir()
    sizes = {"n_layer": 1, "n_head": 1, "n_embd": 4, "n_positions": 8, "vocab_size": 5}
    config = {"model_type": kind, "auto_map": NAMES, **sizes}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "canary.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    # A user who says yes to every question.
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    measured = {"architecture": f"huggingface:model='{folder}',task=causal-lm", "shape": [4]}
    with contextlib.suppress(penchant.Error):
        penchant.measure("output-spread", networks=2, dataset="two-blobs", **measured)
    assert not ran.exists()


def test_a_folder_of_an_unknown_kind_is_one_sentence(tmp_path):
    from penchant_huggingface.architectures.huggingface import _config
    from penchant_huggingface.declarations import HuggingFace
    from penchant_huggingface.importing import import_transformers

    config = {"model_type": "of_their_own", "auto_map": NAMES}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(penchant.Error, match="is not read: .*contains custom code"):
        _config(import_transformers(), HuggingFace(model=str(tmp_path)))
