"""The pytest plugin: to pytest a package is a file, and a check is a test inside it."""

from __future__ import annotations

import pytest

from binary_checks.plugin.options import is_asked, pytest_addoption

__all__ = ["pytest_addoption", "pytest_cmdline_main", "pytest_configure"]


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answer ``--explain`` instead of running anything."""
    if config.option.explain is None:
        return None
    from binary_checks.plugin.reporting import answer

    return answer(config)


def pytest_configure(config: pytest.Config) -> None:
    """Load the rest of the plugin where there is something for it to do."""
    if is_asked(config):
        from binary_checks.plugin import collection, github_actions, reporting

        config.pluginmanager.register(collection, "binary_checks_collection")
        config.pluginmanager.register(reporting, "binary_checks_reporting")
        if github_actions.is_wanted(config):
            config.pluginmanager.register(github_actions, "binary_checks_github_actions")
