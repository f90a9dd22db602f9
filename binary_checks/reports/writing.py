"""Writing of a run's reports; if one report fails, the others are still written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from binary_checks import reports
from binary_checks.errors import GatherError, ProfileError
from binary_checks.model import RunResult
from binary_checks.reports import Report
from binary_checks.safe_text import cut, one_line


@dataclass(frozen=True, kw_only=True, slots=True)
class Destination:
    """A report and its destination."""

    option: str  # the option as the user wrote it
    report: Report
    path: Path
    folder: bool = False  # whether the path is a folder with a file for each package
    kept: int = 0  # bytes at the start of the file that the report must keep


def find_report(name: str) -> Report:
    """Return the format with that name. Raises ProfileError if there is none."""
    known = {report.name: report for report in reports.REPORTS}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f": it is not one of {', '.join(known)}"
        raise ProfileError(f"unknown format {name!r}{hint}")
    # looked for now, so that a missing library is reported before the run
    for library in known[name].libraries:
        if find_spec(library) is None:
            needed = f"{name} needs {library}, which is not installed"
            every = " ".join(known[name].libraries)
            raise ProfileError(f"{needed}: pip install {every} (the extra report)")
    return known[name]


def read_destination(option: str, argument: str, folder: Path) -> Destination:
    """Read ``FORMAT:FILE``; the file is relative to the folder. Raises ProfileError."""
    name, colon, file = argument.partition(":")
    if not colon or not file:
        raise ProfileError(f"{option} {argument}: give a format and a file, as in json:result.json")
    try:
        report = find_report(name)
    except ProfileError as error:
        raise ProfileError(f"{option} {argument}: {error}") from None
    path = folder / file
    many = report.of_facts and (file.endswith(("/", "\\")) or path.is_dir())
    require_place(option, file, path, folder=many)
    return Destination(option=f"{option} {argument}", report=report, path=path, folder=many)


def require_place(option: str, written: str, path: Path, *, folder: bool = False) -> None:
    """Raise ProfileError if a file, or with ``folder`` a folder, could not be written at the end.

    A file must not have the name of a folder, and the parent folder must exist: creating it
    silently would hide a mistyped path. The message names the file as the user did.
    """
    try:
        there = path.parent.is_dir()
    except (OSError, ValueError):  # access is denied, or the name contains a NUL
        there = False
    if not there:
        parent = Path(written).parent
        raise ProfileError(f"{option}: {written}: there is no folder {parent}: make it first")
    if not folder and path.is_dir():
        raise ProfileError(f"{option}: {written}: a folder; name a file in it")


def add_to_known(option: str, file: str, folder: Path) -> Destination:
    """Return a list of known problems to which a run's problems are added. Raises ProfileError."""
    path = folder / file
    require_place(option, file, path)
    kept = path.stat().st_size if path.is_file() else 0
    return Destination(option=f"{option} {file}", report=find_report("known"), path=path, kept=kept)


def write_all(
    destinations: Iterable[Destination], assemble: Callable[[tuple[str, ...]], RunResult]
) -> RunResult:
    """Write all reports; return the run as the reports describe it.

    ``assemble`` receives a line for each report that could not be written, as the exit code depends
    on these lines. If a report fails, the others are written again.
    """
    left, failed = list(destinations), list[str]()
    while True:
        run, count = assemble(tuple(failed)), len(failed)
        for each in list(left):
            try:
                write_to(each, run)
            except GatherError as error:
                failed.append(cut(one_line(f"{each.option.partition(' ')[0]}: {error}")))
                left.remove(each)
        if len(failed) == count:
            return run


def write_to(destination: Destination, run: RunResult) -> None:
    """Write one report. Raises GatherError if that fails."""
    path, report = destination.path, destination.report
    if not destination.folder:
        _write(report, path, run, destination.kept)
        return
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise GatherError(f"{path}: cannot be made: {error.strerror}") from None
    for package in run.packages:
        if not package.parts:  # each document describes a single package
            name = one_line(package.file_name).replace("/", "_")
            _write(report, path / f"{name}.{report.name}.json", replace(run, packages=(package,)))


def _write(report: Report, path: Path, run: RunResult, kept: int = 0) -> None:
    """Write a file after its first ``kept`` bytes.

    An incomplete report is removed, as it could be mistaken for a complete one.
    """
    try:
        with path.open("a" if kept else "w", encoding="utf-8", newline="\n") as file:
            try:
                if kept:
                    file.truncate(kept)  # the report may be written twice
                report.write(run, file)
                file.flush()  # so that a full disk is reported here
            except (GatherError, OSError, ValueError, RecursionError):
                with contextlib.suppress(OSError):
                    if kept:
                        os.truncate(path, kept)
                    elif path.is_file():  # a device is not truncated
                        path.unlink()
                raise
    except (OSError, ValueError, RecursionError) as error:  # a path with a NUL, or a loop of links
        reason = error.strerror if isinstance(error, OSError) else error
        raise GatherError(f"{path}: cannot be written: {reason}") from None
