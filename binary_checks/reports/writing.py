"""Writes the reports of a run where they were asked for; one that fails costs no other one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from binary_checks import reports
from binary_checks.errors import GatherError, ProfileError
from binary_checks.files import demand_parent
from binary_checks.lines import cut, one_line
from binary_checks.model import RunResult
from binary_checks.reports import Report, known_list


@dataclass(frozen=True, kw_only=True, slots=True)
class Destination:
    """A report, and where it is to be written."""

    option: str  # as the user gave it
    report: Report
    path: Path
    folder: bool = False  # whether the path is one, for a file a package
    kept: int = 0  # bytes of the file that stay, before those of the report


def find_report(name: str) -> Report:
    """The format of that name. Raises ProfileError."""
    names = [report.name for report in reports.REPORTS]
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else f": it is not one of {', '.join(names)}"
        raise ProfileError(f"unknown format {name!r}{hint}")
    report = reports.REPORTS[names.index(name)]
    for library in reports.LIBRARIES.get(name, ()):  # now, not when the run has ended
        if find_spec(library) is None:
            needed = f"{name} needs {library}, which is not installed"
            raise ProfileError(f"{needed}: pip install 'binary-checks[report]'")
    return report


def read_destination(option: str, argument: str, folder: Path) -> Destination:
    """What ``FORMAT:FILE`` says; a file is relative to the folder. Raises ProfileError."""
    name, colon, file = argument.partition(":")
    if not colon or not file:
        raise ProfileError(f"{option} {argument}: give a format and a file, as in json:result.json")
    try:
        report = find_report(name)
    except ProfileError as error:
        raise ProfileError(f"{option} {argument}: {error}") from None
    path = folder / file
    many = report.of_facts and (file.endswith(("/", "\\")) or path.is_dir())
    demand_place(option, file, path, folder=many)
    return Destination(option=f"{option} {argument}", report=report, path=path, folder=many)


def demand_place(option: str, written: str, path: Path, *, folder: bool = False) -> None:
    """Raise ProfileError where a report cannot be written: else it is lost at the end of the run.

    A file may not have the name of a folder, and the folder that it is to lie in must be there.
    """
    demand_parent(path, written, option)
    if not folder and path.is_dir():
        raise ProfileError(f"{option}: {written}: a folder; name a file in it")


def add_to_known(option: str, file: str, folder: Path) -> Destination:
    """The list of known problems in that file, what is in it left as it is. Raises ProfileError."""
    path = folder / file
    demand_place(option, file, path)
    kept = path.stat().st_size if path.is_file() else 0
    report: Report = known_list.ADDED if kept else known_list
    return Destination(option=f"{option} {file}", report=report, path=path, kept=kept)


def write_all(
    destinations: Iterable[Destination], assemble: Callable[[tuple[str, ...]], RunResult]
) -> RunResult:
    """Write them all; returns the run as they have it.

    ``assemble`` is given a line for each that could not be written, for the exit code depends on
    it: where one is lost the others are written again.
    """
    left, lost = list(destinations), list[str]()
    while True:
        run = assemble(tuple(lost))
        broke = {index: line for index, each in enumerate(left) for line in _try(each, run)}
        if not broke:
            return run
        lost += broke.values()
        left = [each for index, each in enumerate(left) if index not in broke]


def _try(destination: Destination, run: RunResult) -> Iterator[str]:
    """Write it; the line that says why it could not be."""
    try:
        write_to(destination, run)
    except GatherError as error:
        yield cut(one_line(f"{destination.option.partition(' ')[0]}: {error}"))


def write_to(destination: Destination, run: RunResult) -> None:
    """Write one report. Raises GatherError where that cannot be done."""
    if destination.folder:
        _make(destination.path)
    for path, part in _split(destination, run):
        _write(destination.report, path, part, destination.kept)


def _split(destination: Destination, run: RunResult) -> Iterator[tuple[Path, RunResult]]:
    """The files, and the part of the run that each is about."""
    if not destination.folder:
        yield destination.path, run
        return
    for package in run.packages:
        if package.parts:  # the documents are about packages alone
            continue
        name = one_line(package.file_name).replace("/", "_")
        yield (
            destination.path / f"{name}.{destination.report.name}.json",
            replace(run, packages=(package,)),
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise GatherError(f"{folder}: cannot be made: {error.strerror}") from None


def _write(report: Report, path: Path, run: RunResult, kept: int) -> None:
    try:
        with (
            path.open("a" if kept else "w", encoding="utf-8", newline="\n") as file,
            _left_whole(path, kept),
        ):
            if kept:
                file.truncate(kept)  # it may be written twice
            report.write(run, file)
            file.flush()  # a full disk shows here
    except (OSError, ValueError, RecursionError) as error:  # a path with a NUL, or without end
        reason = error.strerror if isinstance(error, OSError) else error
        raise GatherError(f"{path}: cannot be written: {reason}") from None


@contextlib.contextmanager
def _left_whole(path: Path, kept: int) -> Iterator[None]:
    """Remove a report that was cut off: nothing may take it for one. What was kept stays."""
    try:
        yield
    except (GatherError, OSError, ValueError, RecursionError):
        with contextlib.suppress(OSError):
            if kept:
                os.truncate(path, kept)
            elif path.is_file():  # not a device
                path.unlink()
        raise
