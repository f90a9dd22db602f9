"""Has `binary-checks inspect` say what a file is, as a process: whatever the file, it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from binary_checks.documents.decoding import LARGEST
from binary_checks.documents.facts_reader import Statement, WantedFacts, restore
from binary_checks.errors import GatherError, PackageError, ProfileError
from binary_checks.exit_codes import MISUSED, PROBLEMS
from binary_checks.lines import cut, one_line
from binary_checks.model import UnknownSymbols
from binary_checks.withheld import DEAF

INSPECT_LIMIT = 1800.0
"""Seconds that the reading of one file may take."""
_PROGRAM = (sys.executable, DEAF, "-m", "binary_checks", "inspect", "--json")
_MEMORY = 16 << 30  # bytes of addresses, which are more than those that are used
_LONGEST_COMPLAINT = 4096  # bytes
_FOR_LINKERS = (".a", ".lib")
_CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_")


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectedFile:
    """What `inspect` says of a file."""

    statement: Statement
    facts: Path | None  # the document, to be kept; None where it is about a stand-in


@contextmanager
def inspect_file(path: Path, *, timeout: float = INSPECT_LIMIT) -> Iterator[InspectedFile]:
    """Read a file's facts; the document is gone afterwards.

    Raises PackageError for a file that is nothing known, ProfileError for one that is not there,
    and GatherError where the process was ended by its limits, or by others.
    """
    with tempfile.TemporaryDirectory(prefix="artifact-") as folder:
        alone = path.suffix.lower() not in _FOR_LINKERS
        subject = path.absolute() if alone else _wrap(path, Path(folder))
        document = Path(folder) / "facts.json"
        _run(subject, path.name, document, timeout)
        statement = read_statement(document, path.name)
        yield InspectedFile(statement=statement, facts=document if alone else None)


def read_statement(document: Path, file_name: str) -> Statement:
    """What facts say of a file, without the symbols of its objects. Raises ProfileError."""
    keep = WantedFacts(record=False, keep_symbols=lambda _: UnknownSymbols("not asked for"))
    return restore(document, named=f"{file_name}: its facts", reading=keep)


def _wrap(path: Path, folder: Path) -> Path:
    """Put an input for linkers, which is read as part of C++ libraries alone, into such an archive.

    A link does as well, but not on every system.
    """
    wrapped = folder / f"{path.stem}.zip"
    try:
        with zipfile.ZipFile(wrapped, "w") as archive:
            archive.writestr("include/library.h", "")
            archive.write(path, f"lib/{path.name}")
    except OSError as error:
        raise ProfileError(f"{path.name}: cannot be read: {error.strerror or error}") from None
    return wrapped


def _run(subject: Path, name: str, document: Path, timeout: float) -> None:
    """Write the document. Raises what `inspect_file` does."""
    complaint = document.with_name("complaint")
    with document.open("xb") as output, complaint.open("xb") as errors:
        process = subprocess.Popen(
            [*_PROGRAM, str(subject)],
            cwd=document.parent,  # no profile of the current folder counts
            env=_make_environment(document.parent),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _limit(process.pid)
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise GatherError(f"{name}: not read within {timeout:g} s") from None
        finally:
            _end(process)
    if status:
        raise _explain(name, status, complaint)


def _make_environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_CREDENTIALS)}
    return {**kept, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}


def _limit(pid: int) -> None:
    """Let it take no more memory, and write no more, than any real package asks for."""
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError, ValueError):  # it has ended, or has less anyway
            resource.prlimit(pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (LARGEST, LARGEST))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _explain(name: str, status: int, complaint: Path) -> Exception:
    with complaint.open("rb") as file:
        lines = file.read(_LONGEST_COMPLAINT).decode("utf-8", "replace").splitlines()
    said = lines[-1].removeprefix("binary-checks: ") if lines else ""
    about = said if name in said else f"{name}: {said or 'could not be inspected'}"
    if status < 0:
        return GatherError(f"{name}: inspect was ended by signal {-status}")
    kind = {PROBLEMS: PackageError, MISUSED: ProfileError}.get(status, GatherError)
    return kind(cut(one_line(about)))
