"""Finds the packages that a conda package requires, for its own platform, not this host's."""

from __future__ import annotations

import tempfile
from pathlib import Path

from binary_checks.errors import GatherError, Unavailable
from binary_checks.knowledge.tags import is_of_cuda
from binary_checks.model.packages import CondaPackage
from binary_checks.places.channels import ask_channels
from binary_checks.places.sandbox import Sandbox

_LONGEST = 3600.0  # seconds; the libraries of CUDA are more than 2 GB
_VIRTUAL = {
    "linux": {"__unix": "0", "__linux": "6.1", "__glibc": "2.39"},
    "osx": {"__unix": "0", "__osx": "15.0"},
    "win": {"__win": "10.0.22000"},
}
"""A system of each kind that is new enough for all: what is too new for the claim, checks say."""
_DRIVER = "99.0"  # for what is for CUDA, and for nothing else: builds for CUDA would be chosen


def fetch_conda(
    package: CondaPackage, channels: tuple[str, ...], given: tuple[Path, ...], folder: Path
) -> tuple[Path, ...]:
    """Download what the package requires from the channels, beside what was given.

    Raises Unavailable where nothing fits, GatherError where a channel broke.
    """
    virtual = dict(_VIRTUAL.get(package.subdir.partition("-")[0], _VIRTUAL["linux"]))
    if any(map(is_of_cuda, (*package.depends, package.build))):
        virtual["__cuda"] = _DRIVER
    task = {
        "task": "collect",
        "package": str(package.path.resolve()),
        "given": [str(path.resolve()) for path in given],
        "channels": channels,
        "folder": str(folder),
        "virtual": virtual,
    }
    with tempfile.TemporaryDirectory(prefix="binary_checks-", ignore_cleanup_errors=True) as root:
        own = Path(root).resolve()
        try:
            answer = ask_channels(task, own, timeout=_LONGEST, sandbox=Sandbox())
        except GatherError as error:
            raise GatherError(f"requirements: {error}") from None
    if reason := answer.unsolved or answer.refused:
        raise Unavailable(f"what it requires is not to be had: {reason}")
    return tuple(Path(str(record["path"])) for record in answer.records)
