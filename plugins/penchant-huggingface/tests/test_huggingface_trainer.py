"""A real training with transformers' Trainer: its checkpoints are read, measuring changes nothing."""

import penchant
import pytest
import torch
from penchant_huggingface.importing import import_transformers

pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
transformers = import_transformers()
from penchant_huggingface.callbacks import Measure, StoreCheckpoints  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and accelerate

VOCABULARY, LENGTH = 11, 6
FIELDS = ["n_layer=1", "n_head=1", "n_embd=8", f"n_positions={LENGTH}"]
FIELDS += ["resid_pdrop=0.0", "embd_pdrop=0.0", "attn_pdrop=0.0"]


def sequences():
    """Tokens that count up, and the next ones."""
    starts = torch.arange(24)[:, None] * 3
    tokens = (starts + torch.arange(LENGTH + 1)) % VOCABULARY
    return tokens[:, :-1], tokens[:, 1:]


def trained(tmp_path, *callbacks, **arguments):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_layer=1, n_head=1, n_embd=8, n_positions=LENGTH,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        use_cache=False,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    tokens, _ = sequences()
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "trainer"), max_steps=6, per_device_train_batch_size=4,
        learning_rate=0.01, use_cpu=True, report_to=[], disable_tqdm=True, logging_steps=3,
        **{"save_strategy": "no", **arguments},
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows, callbacks=list(callbacks)
    )
    trainer.train()
    return trainer


def along(weights, **options):
    return penchant.measure(
        "tangent-kernel",
        architecture={"name": "huggingface", "model_type": "gpt2", "config": FIELDS},
        dataset=(*sequences(),),
        weights=weights,
        samples=12,
        groups=4,
        ratios=(4,),
        permutations=5,
        **options,
    )


def test_the_trajectory_reads_what_the_callback_stores(tmp_path):
    trainer = trained(tmp_path, StoreCheckpoints(tmp_path / "run", every=2))
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == [f"step-{step:06d}.pt" for step in (0, 2, 4, 6)]
    last = torch.load(tmp_path / "run" / files[-1], weights_only=True)
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(last[name], value)
    result = along(str(tmp_path / "run" / "*.pt"))
    assert result.arrays["steps"].tolist() == [0, 2, 4, 6]
    assert len(set(result.arrays["trace-by-step"])) == 4


def test_checkpoints_of_the_trainer_itself_are_a_trajectory(tmp_path):
    stored = trained(tmp_path, save_strategy="steps", save_steps=3)
    result = along(str(tmp_path / "trainer"))
    assert result.arrays["steps"].tolist() == [3, 6]
    assert stored.state.global_step == 6


def test_a_probe_measures_while_training_and_changes_nothing(tmp_path):
    given = {"dataset": sequences(), "samples": 12, "groups": 4, "ratios": (4,)}
    given |= {"permutations": 5, "executor": "serial"}
    measured = trained(tmp_path / "measured", Measure("tangent-kernel", every=3, **given))
    plain = trained(tmp_path / "plain", StoreCheckpoints(tmp_path / "run", every=3))
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, measured.model.state_dict()[name])
    rows = [row for row in measured.state.log_history if "tangent-kernel/trace" in row]
    assert [row["step"] for row in rows] == [3, 6]
    expected = along(str(tmp_path / "run" / "*.pt")).arrays["trace-by-step"]
    for row, value in zip(rows, expected[1:], strict=True):
        assert row["tangent-kernel/trace"] == pytest.approx(value, rel=1e-5)


def test_every_must_be_positive(tmp_path):
    with pytest.raises(penchant.Error, match="every must be at least 1, found 0"):
        StoreCheckpoints(tmp_path, every=0)
