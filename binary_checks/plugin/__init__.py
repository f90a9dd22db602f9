"""The pytest plugin: to pytest a package is a file, and a check is a test inside it."""

from binary_checks.plugin.collection import (
    pytest_addoption,
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_report_from_serializable,
    pytest_unconfigure,
    pytest_xdist_make_scheduler,
)
from binary_checks.plugin.reporting import (
    pytest_cmdline_main,
    pytest_report_header,
    pytest_runtest_makereport,
    pytest_runtest_teardown,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

__all__ = [
    "pytest_addoption",
    "pytest_cmdline_main",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_report_from_serializable",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "pytest_runtest_teardown",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_unconfigure",
    "pytest_xdist_make_scheduler",
]
