"""The pytest plugin: for pytest a package is a file, and a check is a test in this file."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from binary_checks.plugin.options import explain_unknown, is_asked, pytest_addoption

__all__ = [
    "pytest_addoption",
    "pytest_cmdline_main",
    "pytest_configure",
    "pytest_load_initial_conftests",
]


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Refuse an unknown option that resembles ours, after conftests have declared their options."""
    yield
    if explain_unknown(args):
        complaint = explain_unknown(parser.parse_known_and_unknown_args(args)[1])
        if complaint:
            raise pytest.UsageError(complaint)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answer ``--binary-explain`` instead of running anything."""
    if config.option.binary_explain is None:
        return None
    from binary_checks.plugin.reporting import answer

    return answer(config)


def pytest_configure(config: pytest.Config) -> None:
    """Load the rest of the plugin if the run needs it."""
    if is_asked(config):
        from binary_checks.plugin import collection, github_actions, reporting

        config.pluginmanager.register(collection, "binary_checks_collection")
        config.pluginmanager.register(reporting, "binary_checks_reporting")
        if github_actions.is_wanted(config):
            config.pluginmanager.register(github_actions, "binary_checks_github_actions")
