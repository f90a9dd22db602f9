"""Downloads wheels for another system with pip, from wherever the user's settings say."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from binary_checks.errors import GatherError, NoWheelError
from binary_checks.places.foreign_tags import ForeignPython
from binary_checks.places.installer_faults import (
    broke_off,
    find_fault,
    name_lacking,
    read_log,
    say_in_one_line,
)
from binary_checks.places.pip_command import (
    HELD_PIP,
    choose_folder,
    has_pip,
    make_installer_environment,
)
from binary_checks.places.processes import Ended, run_process
from binary_checks.withheld import DEAF

_LONGEST = 3600.0  # seconds; torch's requirements are more than 2 GB


def download(requirements: Iterable[str], python: ForeignPython, folder: Path) -> str:
    """Put a wheel for each requirement into the folder, without what these require in turn.

    Raises GatherError, in one line, when an index has none that fits, or was not reached. Where pip
    broke, what it broke with: it may have done all by then. pip 23.2 looks last at requirements
    that it cannot read.
    """
    if not has_pip():
        raise GatherError(
            "--binary-with-requirements needs pip in the environment of binary_checks"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GatherError(f"requirements: {folder}: {error.strerror}") from None
    options = ("--disable-pip-version-check", "--no-input", "--quiet", "--no-deps")
    with tempfile.TemporaryDirectory(prefix="binary_checks-", ignore_cleanup_errors=True) as place:
        log = Path(place, "log")
        ended = run_process(
            (
                *(sys.executable, DEAF, HELD_PIP, "", "download", *options),
                *("--only-binary", ":all:", *python.options(), "--dest", str(folder)),
                *("--", *requirements),
            ),
            cwd=choose_folder(Path(place)),
            env={
                **make_installer_environment(Path(place)),
                "GIT_ALLOW_PROTOCOL": "none",
                "PIP_LOG": str(log),
            },
            timeout=_LONGEST,
        )
        if ended.status == 0:
            return ""
        if ended.status is None:
            raise GatherError(f"requirements: the download took longer than {_LONGEST:g} s")
        if fault := find_fault(ended.stderr, read_log(log)):
            raise GatherError(fault)
    if broken := broke_off(ended.stderr):
        return broken
    raise _explain(ended, python)


def _explain(ended: Ended, python: ForeignPython) -> GatherError:
    if asked := name_lacking(ended.stderr):
        lacking = f"wheel of {asked} for {python.abi} on {python.platforms[0]} or newer"
        advice = "give one with --binary-with"
        return NoWheelError(f"requirements: the index has no {lacking}; {advice}", lacking)
    return GatherError(f"requirements: {say_in_one_line(ended.stderr)}")
