"""Knows the lowest NVIDIA driver that a CUDA build runs on: NVIDIA's compatibility table.

From CUDA 11 on a build runs on every driver that was made for its major version; before that it
needed the driver of its own release. PTX is the exception: a driver compiles none of a newer
toolkit than its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from binary_checks.knowledge.nvidia_names import cuda_of_library

# CUDA Compatibility, table 1, and table 2 of the toolkit's release notes. Those of CUDA 13 name one
# number for all systems.
_OF_MAJORS = {
    11: ("450.80.02", "452.39"),
    12: ("525.60.13", "528.33"),
    13: ("580", "580"),
}
"""The drivers of Linux and of Windows."""
_OF_RELEASES = {
    "9.0": ("384.81", "385.54"),
    "9.1": ("390.46", "391.29"),
    "9.2": ("396.26", "397.44"),
    "10.0": ("410.48", "411.31"),
    "10.1": ("418.39", "418.96"),
    "10.2": ("440.33", "441.22"),
}


def cudas_of(accelerator: str) -> tuple[str, ...]:
    """CUDA's versions in an accelerator's name, the oldest first: of "cuda 11, cuda 12" both."""
    found = re.findall(r"\bcuda (\d{1,4}(?:\.\d{1,4})?)", accelerator)
    return tuple(sorted(found, key=_numbers))


def cudas_of_files(paths: Iterable[str]) -> tuple[str, ...]:
    """CUDA's versions in the names of its own libraries: ``nvidia/cu13/lib/libcudart.so.13``."""
    majors: set[int] = set()
    for path in paths:
        folder = re.search(r"(?:^|/)cu(1\d)/", path)
        major = int(folder[1]) if folder else cuda_of_library(path.rpartition("/")[2])
        majors.update([] if major is None else [major])
    return tuple(map(str, sorted(majors)))


def lowest_driver(cuda: str, system: str) -> str:
    """The lowest driver that runs a build for that CUDA: "525.60.13"; "" where nobody knows it."""
    drivers = _OF_MAJORS.get(_numbers(cuda)[0]) or _OF_RELEASES.get(cuda)
    if drivers is None or system not in ("linux", "windows"):
        return ""
    return drivers[system == "windows"]


def is_newer_driver(one: str, other: str) -> bool:
    """Whether one of two versions of drivers is the newer one."""
    return _numbers(one) > _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
