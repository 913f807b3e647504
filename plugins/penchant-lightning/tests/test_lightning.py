"""A real training with Lightning: its checkpoints are read, and measuring does not change it."""

import lightning
import penchant
import pytest
import torch
from lightning.pytorch.loggers import Logger
from penchant_lightning import Measure, StoreCheckpoints
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))

    def training_step(self, batch, _):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.net(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)


class Kept(Logger):
    name, version = "kept", 0

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_hyperparams(self, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, metrics))


def samples():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 4, generator=generator)
    return inputs, (inputs[:, 0] > 0).long()


def trained(tmp_path, *callbacks, logger=False):
    torch.manual_seed(0)
    module = Classifier()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*samples()), batch_size=10)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=logger,
        callbacks=list(callbacks),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, loader)
    return module


def test_checkpoints_are_named_by_their_step_and_load(tmp_path):
    callback = StoreCheckpoints(tmp_path / "run", every=4, network="net")
    module = trained(tmp_path, callback)
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == [f"step-{step:06d}.pt" for step in (0, 4, 8, 12)]
    last = torch.load(tmp_path / "run" / files[-1], weights_only=True)
    for name, value in module.net.state_dict().items():
        assert torch.equal(last[name], value)
    first = torch.load(tmp_path / "run" / files[0], weights_only=True)
    assert not torch.equal(first["0.weight"], last["0.weight"])


def test_a_probe_measures_while_training_and_changes_nothing(tmp_path):
    logger = Kept()
    inputs, labels = samples()
    callback = Measure(
        "tangent-kernel",
        every=6,
        network="net",
        dataset=(inputs, labels),
        samples=20,
        executor="serial",
    )
    measured = trained(tmp_path, callback, logger=logger)
    plain = trained(tmp_path)
    for name, value in plain.state_dict().items():
        assert torch.equal(value, measured.state_dict()[name])
    rows = {step: row for step, row in logger.rows if "tangent-kernel/cka" in row}
    assert sorted(rows) == [6, 12]
    expected = penchant.measure(
        "tangent-kernel",
        architecture=plain.net.eval(),
        dataset=(inputs, labels),
        samples=20,
        executor="serial",
    )
    cka = expected.quantities["cka"]
    assert rows[12]["tangent-kernel/cka"] == pytest.approx(cka.value, rel=1e-6)


def test_every_must_be_positive(tmp_path):
    with pytest.raises(penchant.Error, match="every must be at least 1, found 0"):
        StoreCheckpoints(tmp_path, every=0)
