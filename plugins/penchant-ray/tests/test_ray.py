"""The executor on Ray: what every executor does, and what only a cluster can."""

from penchant import testing

test_conforms = testing.conformance("penchant-ray", small={"ray": {}})
