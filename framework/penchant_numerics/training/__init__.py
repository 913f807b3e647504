"""Networks and how they are trained, one by one or as a stack."""

from penchant_numerics.training.batched_training import (
    Learner,
    map_trainings,
    measured,
    shard_of,
    stacks,
    train_and_evaluate,
    train_together,
    trainings_a_shard,
)
from penchant_numerics.training.ensembles import (
    Ensemble,
    State,
    constructed,
    draw,
    draw_ahead,
    parameter_count,
    state_of,
)
from penchant_numerics.training.stacked import (
    OneByOne,
    group_size,
    groups,
    recorded_steps,
    stack_trainings,
)
from penchant_numerics.training.stacked_training import Stacked
from penchant_numerics.training.trainer import (
    Trainer,
    accuracy_numbers,
    decay,
    evaluate,
    outputs,
    predictions,
    right_answers,
)

__all__ = [
    "Ensemble",
    "Learner",
    "OneByOne",
    "Stacked",
    "State",
    "Trainer",
    "accuracy_numbers",
    "constructed",
    "decay",
    "draw",
    "draw_ahead",
    "evaluate",
    "group_size",
    "groups",
    "map_trainings",
    "measured",
    "outputs",
    "parameter_count",
    "predictions",
    "recorded_steps",
    "right_answers",
    "shard_of",
    "stack_trainings",
    "stacks",
    "state_of",
    "train_and_evaluate",
    "train_together",
    "trainings_a_shard",
]
