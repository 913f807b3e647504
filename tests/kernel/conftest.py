"""What the kernel's tests share: their runs write no report, except where a test asks for one."""

import pytest


@pytest.fixture
def with_report():
    """Runs of this test write their report.html."""


@pytest.fixture(autouse=True)
def _reports(request):
    if "with_report" not in request.fixturenames:
        request.getfixturevalue("without_report")
