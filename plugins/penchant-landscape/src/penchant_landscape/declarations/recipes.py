"""The training of quick presets, and words that several options share."""

QUICK = {"momentum": 0.9, "batch": 64, "schedule": "thirds", "epochs": 60, "learning_rate": 0.05}

EVAL_STEPS = "training steps at which to evaluate; None: chosen by the probe"
BATCH_NORM = (
    "statistics of batch-norm: running (the training's), or calibrated by a pass over the "
    "training samples"
)
PARAMETERS = (
    "names or patterns of parameters, such as a layer's; each is a module that is measured by "
    "itself, beside the whole network"
)
USUAL_SAMPLES = 500
SAMPLES = f"the first in order; None: {USUAL_SAMPLES}, or all where there are fewer"
