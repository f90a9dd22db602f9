"""The environment that a package is installed in already: probes run there, nothing is changed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from binary_checks.environments.run import run_probe
from binary_checks.environments.target import identify
from binary_checks.environments.venv import Environment
from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import InstalledPackage, InstallReport, Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Folders:
    """Where an interpreter looks for packages when nothing leads it elsewhere (``-I``)."""

    search: tuple[Path, ...]
    prefix: Path


def list_folders(python: Path, *, timeout: float) -> Folders:
    """Ask an interpreter; raises GatherError when it does not answer."""
    result = run_probe(python, "list_folders", {}, timeout=timeout)
    folders, prefix = result.answer.get("folders"), result.answer.get("prefix")
    if result.outcome is not Outcome.OK or not isinstance(prefix, str):
        last = result.stderr.strip().rpartition("\n")[2]
        reason = last or " ".join((result.outcome.value, result.detail))
        raise GatherError(f"{python}: is no Python that runs here: {reason}")
    return Folders(search=tuple(_paths(folders)), prefix=Path(prefix))


def _paths(folders: object) -> Iterable[Path]:
    found = folders if isinstance(folders, list) else []
    return (Path(each) for each in found if isinstance(each, str) and each)


def open_existing(
    package: InstalledPackage, *, python: Path, timeout: float, requires: tuple[str, ...] = ()
) -> Environment:
    """The environment of that interpreter, in which the package lies; closing it removes nothing.

    Raises Unavailable when something more would have to be installed, GatherError when the
    interpreter does not answer.
    """
    if requires:
        more = ", ".join(requires)
        raise Unavailable(f"nothing is installed beside an installed package, so not {more}")
    target = identify(python, timeout=timeout)
    site = str(package.path.parent)
    # Not every package lies where the interpreter would install one: Debian has two places.
    target = replace(target, paths={**target.paths, "platlib": site})
    return Environment(
        wheel=package,
        target=target,
        install_report=InstallReport(python=target.name),
        folder=tempfile.TemporaryDirectory(prefix="binary_checks-", ignore_cleanup_errors=True),
    )
