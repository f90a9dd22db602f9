"""`binary-checks` in a process with limits, so that no package can hang or exhaust this one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from binary_checks.documents.json_values import LARGEST
from binary_checks.errors import GatherError
from binary_checks.processes import SAFE_PATH

PROGRAM = (sys.executable, SAFE_PATH, "-m", "binary_checks")
_MEMORY = 16 << 30  # bytes of address space, which is more than the memory used
_LONGEST_COMPLAINT = 4096  # bytes
_CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_")


class LimitedEnd(NamedTuple):
    """The exit status of a process, negative for a signal, and the last line that it complained."""

    status: int
    complaint: str


def run_limited(arguments: Sequence[str], output: Path, timeout: float, named: str) -> LimitedEnd:
    """Run `binary-checks` in the folder of the file to which its output goes.

    Raises GatherError after ``timeout`` seconds.
    """
    folder = output.parent
    complaint = folder / "complaint"
    with output.open("wb") as printed, complaint.open("wb") as errors:
        process = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=folder,  # so that no profile in the current folder is read
            env=_make_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _limit(process.pid)
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise GatherError(f"{named}: reading it takes longer than {timeout:g} s") from None
        finally:
            _end(process)
    with complaint.open("rb") as file:
        lines = file.read(_LONGEST_COMPLAINT).decode("utf-8", "replace").splitlines()
    return LimitedEnd(status, lines[-1].removeprefix("binary-checks: ") if lines else "")


def _make_environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_CREDENTIALS)}
    return {**kept, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}


def _limit(pid: int) -> None:
    """Limit memory and file sizes to more than any real package needs."""
    if sys.platform == "linux":
        import resource

        # the process has ended, or its limits are lower already
        with contextlib.suppress(OSError, ValueError):
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
