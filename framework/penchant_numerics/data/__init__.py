"""Samples as tensors: datasets, streams, sequences, stored states."""

from penchant_numerics.data.aligned_rows import class_labels, count_aligned
from penchant_numerics.data.data import (
    WHOLE,
    Data,
    Samples,
    as_data,
    in_precision,
    stored_type,
    streams,
    unreadable,
)
from penchant_numerics.data.label_kinds import LabelKind, kind_of
from penchant_numerics.data.sequences import (
    IGNORED,
    are_sequences,
    as_rows,
    contributions_to_mean,
    next_labels,
    positions_counted,
)
from penchant_numerics.data.shapes import written
from penchant_numerics.data.state_dicts import fill, has_averages
from penchant_numerics.data.streamed import dataset_of, samples_of, stream

__all__ = [
    "Data",
    "IGNORED",
    "LabelKind",
    "Samples",
    "WHOLE",
    "are_sequences",
    "as_data",
    "as_rows",
    "class_labels",
    "contributions_to_mean",
    "count_aligned",
    "dataset_of",
    "fill",
    "has_averages",
    "in_precision",
    "kind_of",
    "next_labels",
    "positions_counted",
    "samples_of",
    "stored_type",
    "stream",
    "streams",
    "unreadable",
    "written",
]
