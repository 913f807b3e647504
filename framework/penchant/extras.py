"""What other distributions add to the kernel: loaded when used; a missing package is named."""

import importlib
import importlib.util
from typing import Any

from penchant.errors import Error

# What the kernel calls it, and the function or class of another distribution.
EXTRAS = {
    "card": "penchant_card.card:card",
    "compare": "penchant_report.compare:compare",
    "complete": "penchant_tools.completion:complete",
    "display": "penchant_tools.display:Display",
    "dry run": "penchant_tools.dry_run:print_forecast",
    "explain": "penchant_tools.explain:explain",
    "find weights": "penchant_import.weight_files:find_weights",
    "json lines": "penchant_tools.json_lines:JsonLines",
    "load weights": "penchant_import.state_files:load_weights",
    "quick form": "penchant_tools.quick:quick_form",
    "result as figures": "penchant_report.figures:figures_of_result",
    "result as html": "penchant_report.notebook:result_html",
    "result as xarray": "penchant_report.dataframes:result_dataset",
    "run as html": "penchant_report.notebook:run_html",
    "run as latex": "penchant_report.text_tables:to_latex",
    "run as long pandas": "penchant_report.dataframes:long_data_frame",
    "run as markdown": "penchant_report.text_tables:to_markdown",
    "run as pandas": "penchant_report.dataframes:data_frame",
    "run as rows": "penchant_report.run_rows:run_rows",
    "run as xarray": "penchant_report.dataframes:run_dataset",
    "show figure": "penchant_report.notebook:figure_of",
    "show result": "penchant_report.notebook:show",
    "table as html": "penchant_report.table_views:to_html",
}


def is_installed(package: str) -> bool:
    """Is there such a package?"""
    return importlib.util.find_spec(package) is not None


def extra(name: str) -> Any:
    """The function or class that another distribution adds under this name.

    Raises:
        Error: The distribution is not installed; the message says how to install it.
    """
    module, _, attribute = EXTRAS[name].partition(":")
    package, _, _ = module.partition(".")
    if not is_installed(package):
        distribution = package.replace("_", "-")
        hint = f"pip install {distribution}"
        raise Error(f"this needs {distribution}, which is not installed: {hint}")
    return getattr(importlib.import_module(module), attribute)
