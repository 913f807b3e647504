"""Running jobs: what a probe is given, pools, networks, figures, progress."""

from penchant.execution.platform import check_system

check_system()
