"""The hook: every job that ends becomes a run of W&B."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import penchant

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from penchant.experiments.jobs import Job
    from penchant.results.runs import Run
    from PIL.Image import Image


@penchant.hookimpl
def penchant_job_finished(run: Run, job: Job, result: penchant.Result) -> None:
    """Send quantities, figures, warnings and conventions, where a project is named."""
    project = os.environ.get("PENCHANT_WANDB")
    if not project:
        return
    # Imported here, so that commands that run nothing stay fast.
    import wandb

    tracked = wandb.init(
        project=project,
        group=run.folder.name,
        name=job.id,
        config={**job.labels, **result.options},
        notes="\n".join([result.error or "", *result.warnings]).strip(),
        reinit="create_new",
    )
    tracked.summary.update(_numbers(result))
    tracked.summary["conventions"] = dict(result.conventions)
    if result.status == "done" and result.record.get("figures"):
        images = {name: wandb.Image(_image(figure)) for name, figure in result.figures().items()}
        tracked.log(images)
    tracked.finish(exit_code=0 if result.status == "done" else 1)


def _image(figure: Figure) -> Image:
    """A figure as pixels: W&B itself takes figures only where pyplot has been imported."""
    import PIL.Image

    file = io.BytesIO()
    figure.savefig(file, format="png")
    return PIL.Image.open(file)


def _numbers(result: penchant.Result) -> dict[str, float]:
    """Every quantity, its standard error and its null, by name; what is unknown is left out."""
    scalars = {}
    for name, quantity in result.quantities.items():
        numbers = {"": quantity.value, "-stderr": quantity.stderr, "-null": quantity.null}
        for ending, number in numbers.items():
            if number is not None and not quantity.missing:
                scalars[f"{name}{ending}"] = number
    return scalars
