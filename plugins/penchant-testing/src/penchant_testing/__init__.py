"""Conformance tests for plugin authors: what every component must do.

The whole test of a plugin's conformance is one line; each property of each component is a test::

    import penchant_testing as testing

    test_conforms = testing.conformance(
        "penchant-example",
        small={
            "output-spread": {"architecture": "perceptron", "dataset": "two-blobs", "networks": 40}
        },
    )

`small` holds, for each component that needs it, options that make it small. For tests of numbers
there are functions that build what they need: `architecture`, `dataset`, `context`, `seed`.
"""

from penchant_testing.builders import architecture, context, dataset, seed
from penchant_testing.checks import (
    assert_same,
    check_architecture,
    check_component,
    check_dataset,
    check_estimator,
    check_probe,
)
from penchant_testing.claims import Claim, claims
from penchant_testing.conformance import conformance, label, registrations
from penchant_testing.emulated_device import Counts, emulated_device
from penchant_testing.executors import check_executor
from penchant_testing.preferences import preferences
from penchant_testing.strictness import no_trace, strict_devices
from penchant_testing.tiny import SAMPLES, TINY, tiny_network, tiny_samples

__all__ = [
    "SAMPLES",
    "TINY",
    "Claim",
    "Counts",
    "architecture",
    "assert_same",
    "check_architecture",
    "check_component",
    "check_dataset",
    "check_estimator",
    "check_executor",
    "check_probe",
    "claims",
    "conformance",
    "context",
    "dataset",
    "emulated_device",
    "label",
    "no_trace",
    "preferences",
    "registrations",
    "seed",
    "strict_devices",
    "tiny_network",
    "tiny_samples",
]
