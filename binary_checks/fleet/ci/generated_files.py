"""Compare generated CI files with their new text, and write all of them or none."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from binary_checks.errors import GatherError, ProfileError
from binary_checks.files import replace_file_when_complete
from binary_checks.fleet.ci import (
    circleci_workflows,
    github_workflows,
    matrix_page,
    tox_environments,
)
from binary_checks.fleet.ci.pipeline import ChosenJobs, MachineError, Pipeline
from binary_checks.fleet.ci.templating import MARK

_GENERATORS: Mapping[str, Callable[[Pipeline], Mapping[str, str]]] = {
    "github": github_workflows.write,
    "circleci": circleci_workflows.write,
    "tox": tox_environments.write,
    "docs": matrix_page.write,
}
PLACES: Mapping[str, tuple[str, ...]] = {
    "github": (".github/workflows/*.yml",),
    "circleci": (".circleci/*.yml",),
    "tox": ("tox*.toml", "tox*.ini"),
    "docs": ("docs/matrix.md",),
}
"""System -> globs for its files; a matching generated file that is not needed is left over."""
_LARGEST = 16 << 20  # bytes of a file to compare
_MOST_LINES = 30  # of one file's diff


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """A file that differs from the text that would now be generated."""

    path: str
    fault: str  # missing, changed, left over
    before: str = ""
    after: str = ""

    def format_diff(self) -> Iterator[str]:
        """Yield the diff from a changed file to its new text, and the number of omitted lines."""
        if self.fault != "changed":
            return
        texts = self.before.splitlines(), self.after.splitlines()
        found = unified_diff(*texts, self.path, f"{self.path} as written", n=1, lineterm="")
        yield from islice(found, _MOST_LINES)
        if rest := sum(1 for _ in found):
            yield f"… and {rest:,} more lines"


def write_files(pipeline: Pipeline) -> tuple[dict[str, str], dict[str, str]]:
    """Return path -> text, and the systems that have no machine for some cell, with the reasons.

    Raises ProfileError for faults common to all systems.
    """
    files: dict[str, str] = {}
    refused: dict[str, str] = {}
    for system in pipeline.settings.systems:
        try:
            files.update(_GENERATORS[system](pipeline))
        except MachineError as error:
            refused[system] = str(error)
    return files, refused


def format_jobs(jobs: ChosenJobs) -> str:
    """Return the jobs of a run in the form that its CI system reads. Raises ProfileError."""
    if jobs.system == "github":
        return github_workflows.format_jobs(jobs)
    return circleci_workflows.format_jobs(jobs)


def find_changes(
    folder: Path, files: Mapping[str, str], *, source: str, systems: Iterable[str]
) -> Iterator[FileChange]:
    """Yield the files that differ, in the order of paths. Raises ProfileError if one is unreadable.

    A file in a place of the systems is left over if it was generated from ``source``, but is not in
    ``files``.
    """
    for path, text in sorted(files.items()):
        before = _read(folder, path)
        if before is None:
            yield FileChange(path=path, fault="missing", after=text)
        elif before.replace("\r\n", "\n") != text:  # git may have converted line ends on Windows
            yield FileChange(path=path, fault="changed", before=before, after=text)
    places = [place for system in systems for place in PLACES[system]]
    for found in sorted({path for place in places for path in folder.glob(place)}):
        path = found.relative_to(folder).as_posix()
        if path not in files and found.is_file():
            before = _read(folder, path) or ""
            if _find_origin(before) == source:
                yield FileChange(path=path, fault="left over", before=before)


def _find_origin(text: str) -> str:
    """Return the matrix that a file was generated from, or "" if it was not generated."""
    first = text.partition("\n")[0]
    found = re.search(rf"Generated from (.+?) {re.escape(MARK)}", first)
    return found[1] if found else ""


def _read(folder: Path, path: str) -> str | None:
    """Return a file's text, or None if it does not exist. Raises ProfileError."""
    target = folder / path
    if not target.resolve().is_relative_to(folder.resolve()):
        raise ProfileError(f"{target}: a symbolic link leads out of {folder}")
    try:
        with target.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProfileError(f"{target}: {error.strerror}") from None
    if len(content) > _LARGEST:
        raise ProfileError(f"{target}: more than {_LARGEST:,} bytes, so not a generated file")
    return content.decode("utf-8", "backslashreplace")


def apply_changes(
    folder: Path, changes: Sequence[FileChange], *, source: str, force: bool = False
) -> None:
    """Write all files, or none if one of them may not be written; remove left-over files.

    Raises ProfileError for an existing file that was not generated, unless ``force`` is set.
    """
    for change in changes:
        if change.fault == "changed" and not force:
            _require_ours(folder, change, source)
    with contextlib.ExitStack() as waiting:  # files are replaced when all texts are on the disk
        for change in changes:
            if change.fault != "left over":
                target = folder / change.path
                waiting.enter_context(_naming(target))
                target.parent.mkdir(parents=True, exist_ok=True)
                file = waiting.enter_context(replace_file_when_complete(target, 0o644))
                file.write(change.after.encode("utf-8"))
                file.flush()
    for change in changes:
        if change.fault == "left over":
            (folder / change.path).unlink()


def _require_ours(folder: Path, change: FileChange, source: str) -> None:
    """Raise ProfileError for a file that was not generated from this matrix."""
    target, origin = folder / change.path, _find_origin(change.before)
    if not origin:
        raise ProfileError(
            f"{target}: not generated by `binary-checks ci write` and would be overwritten; "
            "move it away, or use --force"
        )
    if origin != source and (folder / origin).is_file():
        raise ProfileError(
            f"{target}: generated from {origin} and would be overwritten; a repository should have "
            "only one matrix (or use --force)"
        )


@contextlib.contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Raise GatherError, with the file's name, if the block cannot write the file."""
    try:
        yield
    except OSError as error:
        raise GatherError(f"{target}: cannot be written: {error.strerror}") from None
