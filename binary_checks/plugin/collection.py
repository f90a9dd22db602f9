"""Collection: the packages and checks that become items."""

from __future__ import annotations

import json
import platform
from collections.abc import Generator
from typing import Any

import pytest

from binary_checks.declaring import FAMILIES
from binary_checks.errors import PackageError, ProfileError
from binary_checks.plugin.arguments import INDEX_FINDINGS, SURROUNDINGS
from binary_checks.plugin.failures import restore, usage_error
from binary_checks.plugin.items import CheckItem, collect_package
from binary_checks.plugin.kept_facts import KeptFacts
from binary_checks.plugin.options import COMMAND_INI
from binary_checks.plugin.reporting import (
    ITEM_RESULT,
    RESULT_COLLECTOR,
    ItemResult,
    ResultCollector,
)
from binary_checks.plugin.session import SESSION, open_session, share_known_lists


def pytest_configure(config: pytest.Config) -> None:
    """Find the named packages, and read the profile."""
    for family, subject in FAMILIES.items():
        config.addinivalue_line("markers", f"{family}: {subject}")
    if config.getini(COMMAND_INI):
        # xdist's workers report their platform. For this, the module platform starts the program
        # uname -p unless the processor is known, and there is no public way to set it. In static
        # mode no program may be started.
        vars(platform.uname()).setdefault("processor", "")
    try:
        config.stash[SESSION] = session = open_session(config)
    except (ProfileError, PackageError) as error:
        raise usage_error(str(error)) from None
    except OSError as error:  # a path that an option names is too long or not accessible
        raise usage_error(f"{error.filename}: {error.strerror}") from None
    config.pluginmanager.register(ResultCollector(config, session.ledger), RESULT_COLLECTOR)
    reports = [each.report for each in session.destinations if each.report.uses_facts]
    if reports:
        session.keeper = KeptFacts(config, symbols=any(each.of_facts for each in reports))
        config.pluginmanager.register(session.keeper)
    for family in sorted({check.family for check in session.settings.checks} - set(FAMILIES)):
        config.addinivalue_line("markers", f"{family}: the project's own checks")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the remaining environments."""
    session = config.stash.get(SESSION, None)
    if session:
        session.run.close()


def pytest_collection(session: pytest.Session) -> bool | None:
    """Have pytest collect the arguments that are not packages.

    Packages are not among pytest's paths. For each package, pytest would list all its parent
    folders again and offer every file in them to all plugins: 24 s of CPU for a thousand packages
    in one folder (pytest 8.0 and 9.2; 0.1 s without), and an error if a folder cannot be listed. An
    installed package has no path that could be given to pytest: site-packages contains any files
    that packages put there, even a conftest.py.
    """
    state = session.config.stash[SESSION]
    if not state.examinations:
        return None
    session.perform_collect(state.others)
    return True


@pytest.hookimpl(tryfirst=True)  # before -k, -m and all other selection of items
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Collect the packages; ``--binary-static`` leaves out items that install or run them."""
    for node, examination in config.stash[SESSION].examinations.items():
        items += collect_package(session, node, examination)
    if not config.option.binary_static:
        return
    runtime = [item for item in items if _runs_package(item)]
    if runtime:
        items[:] = [item for item in items if not _runs_package(item)]
        config.hook.pytest_deselected(items=runtime)


def _runs_package(item: pytest.Item) -> bool:
    return isinstance(item, CheckItem) and item.check.runs_package


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass servers' answers to an xdist worker, since all workers must judge the same files."""
    surroundings = node.config.stash.get(SURROUNDINGS, None)
    # An index may change in the meantime.
    node.workerinput[INDEX_FINDINGS] = json.dumps(
        surroundings.shared_results if surroundings else {}
    )
    share_known_lists(node.config, node.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep each package on one worker, which gathers its facts once, even without ``--dist``."""
    if config.getvalue("dist") != "load" or not config.stash[SESSION].examinations:
        return None
    from binary_checks.plugin.scheduling import PackageScheduling  # xdist is slow to import

    return PackageScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Encode an item's result when a worker sends the report to the controller."""
    data = yield
    if data and isinstance(noted := data.get(ITEM_RESULT), ItemResult):
        data[ITEM_RESULT] = noted.to_text()
    return data


@pytest.hookimpl(wrapper=True)
def pytest_report_from_serializable(
    config: pytest.Config, data: dict[str, Any]
) -> Generator[None, Any, Any]:
    """Restore a failure from its text, since a worker can send only text."""
    report = yield
    if text := vars(report).get(ITEM_RESULT):
        setattr(report, ITEM_RESULT, ItemResult.from_text(text))
    session = config.stash.get(SESSION, None)
    if session and isinstance(getattr(report, "longrepr", None), str):
        examination = session.find(data["nodeid"])
        if examination is not None:
            report.longrepr = restore(report.longrepr, examination.file_name)
    return report
