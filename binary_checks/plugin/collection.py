"""Options, and which packages and checks become items."""

from __future__ import annotations

import platform
from collections.abc import Generator
from typing import Any

import pytest

from binary_checks.declaring import FAMILIES
from binary_checks.plugin.failures import misused
from binary_checks.plugin.items import CheckItem, PackageFile
from binary_checks.plugin.scribe import SCRIBE, Scribe
from binary_checks.plugin.session import DEAF_INI, SESSION, UNREADABLE, open_session


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the users' contract."""
    add = parser.getgroup("binary_checks", "checks of built binary packages").addoption
    add("--binary-profile", metavar="NAME_OR_TOML", help="what the project expects of its packages")
    add("--binary-static", action="store_true", help="inspect only: install and run nothing")
    add("--binary-python", metavar="PATH", help="interpreter for the runtime checks")
    add(
        "--binary-allow-builds",
        action="store_true",
        help="let the installer build what has no wheel, and follow requirements by URL: this runs "
        "their code with your rights",
    )
    add(
        "--binary-with",
        metavar="PATH",
        action="append",
        default=[],
        help="a wheel, or a folder of wheels, that the packages require (repeatable)",
    )
    add(
        "--binary-with-requirements",
        action="store_true",
        help="download the wheels that the packages require and that --binary-with does not give",
    )
    add(
        "--binary-requirements-folder",
        metavar="PATH",
        help="keep the downloaded wheels there (implies --binary-with-requirements)",
    )
    add(
        "--binary-installed",
        metavar="NAME",
        action="append",
        default=[],
        help="judge a package that is installed for --binary-python, and run it there (repeatable)",
    )
    add(
        "--binary-facts",
        metavar="FILE",
        action="append",
        default=[],
        help="facts of a named package, from `binary-checks inspect`: its objects are not read",
    )
    add(
        "--binary-require",
        metavar="FAMILY",
        action="append",
        default=[],
        help="fail when a check of the family could not look (repeatable)",
    )
    add(
        "--binary-sandbox",
        choices=("auto", "off", "require"),
        default="auto",
        help="run packages in a sandbox: where one works, never, or else not at all",
    )
    add("--binary-sarif", metavar="FILE", help="write the problems as SARIF 2.1.0")
    parser.addini(DEAF_INI, "run no code of a profile that was found, not named", "bool", False)
    add("--explain", metavar="CHECK", help="say what a check is about, then exit")


def pytest_configure(config: pytest.Config) -> None:
    """Find the packages that the user named, and what is expected of them."""
    for family, subject in FAMILIES.items():
        config.addinivalue_line("markers", f"{family}: {subject}")
    if config.getini(DEAF_INI):
        # xdist's workers say what they run on, for which platform starts a program: uname -p.
        vars(platform.uname()).setdefault("processor", "")
    try:
        config.stash[SESSION] = session = open_session(config)
    except OSError as error:  # of a path that an option names: too long, or not to be looked into
        raise misused(f"{error.filename}: {error.strerror}") from None
    config.pluginmanager.register(Scribe(config, session.ledger), SCRIBE)
    _spell_nodes_as_they_are(config, frozenset(session.packages.values()))
    for family in sorted({check.family for check in session.checks} - set(FAMILIES)):
        config.addinivalue_line("markers", f"{family}: checks of the project's own")


def _spell_nodes_as_they_are(config: pytest.Config, packages: frozenset[str]) -> None:
    """Keep pytest from showing a package's id as if it were relative to its rootdir.

    Ours is relative to the invocation folder already, or a file name.
    """
    spell = config.cwd_relative_nodeid

    def spell_node(nodeid: Any) -> Any:  # a str to pytest 8, an object of its own to pytest 9
        package = str(nodeid).split("::", 1)[0]
        return nodeid if package in packages else spell(nodeid)

    vars(config)["cwd_relative_nodeid"] = spell_node


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove whatever environments are left."""
    session = config.stash.get(SESSION, None)
    for facts in session.facts.values() if session else ():
        facts.close()
    if session:
        session.shelf.close()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Collect the packages that the user named; one met while walking a folder is left alone."""
    report = yield
    if isinstance(collector, pytest.Session):
        for path, node in collector.config.stash[SESSION].packages.items():
            report.result.append(PackageFile.from_parent(collector, path=path, nodeid=node))
    elif isinstance(collector, PackageFile):
        _demand_asked(collector, {node.name for node in report.result})
    return report


def _demand_asked(package: PackageFile, names: set[str]) -> None:
    """Refuse ``x.whl::name`` where the package has no such item; one that is broken has one."""
    asked = package.config.stash[SESSION].selected.get(package.path, frozenset())
    if UNREADABLE not in names and (missing := sorted(asked - names)):
        raise misused(f"not found: {package.nodeid}::{missing[0]}: it does not apply")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--binary-static`` leave out everything that installs or runs the package."""
    if not config.option.binary_static:
        return
    runtime = [item for item in items if _runs_package(item)]
    if runtime:
        items[:] = [item for item in items if not _runs_package(item)]
        config.hook.pytest_deselected(items=runtime)


def _runs_package(item: pytest.Item) -> bool:
    return isinstance(item, CheckItem) and item.check.runs_package


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a package on one worker, where its facts are gathered once, also without ``--dist``."""
    if config.getvalue("dist") != "load" or not config.stash[SESSION].packages:
        return None
    from binary_checks.plugin.scheduling import PackageScheduling  # xdist takes its time

    return PackageScheduling(config, log)
