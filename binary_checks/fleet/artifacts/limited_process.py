"""`binary-checks` in a process with limits, so that no package can hang or exhaust this one.

The process itself bounds the CPU time and the memory that a package may take.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from binary_checks.errors import GatherError
from binary_checks.processes import SAFE_PATH

PROGRAM = (sys.executable, SAFE_PATH, "-m", "binary_checks")
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
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_CREDENTIALS)}
    with output.open("wb") as printed, complaint.open("wb") as errors:
        try:
            ended = subprocess.run(
                [*PROGRAM, *arguments],
                cwd=folder,  # so that no profile in the current folder is read
                env={**kept, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=errors,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GatherError(f"{named}: reading it takes longer than {timeout:g} s") from None
    with complaint.open("rb") as file:
        lines = file.read(_LONGEST_COMPLAINT).decode("utf-8", "replace").splitlines()
    return LimitedEnd(ended.returncode, lines[-1].removeprefix("binary-checks: ") if lines else "")
