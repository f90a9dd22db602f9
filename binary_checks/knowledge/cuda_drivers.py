"""Knows the lowest NVIDIA driver that a CUDA build runs on: NVIDIA's compatibility tables.

From CUDA 11 on a build runs on every driver that was made for its major version; before that it
needed the driver of its own release. PTX is the exception: a driver compiles none of a newer
toolkit than its own ("CUDA Compatibility", minor version compatibility, limitations).

The sources are the release notes of the toolkits, up to those of 13.3 (table "CUDA Toolkit and
Corresponding Driver Versions"), and the release history of PTX in its manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from binary_checks.knowledge.nvidia_names import cuda_of_library
from binary_checks.model.system import read_numbers

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
_OF_TOOLKITS = {
    **_OF_RELEASES,
    "11.0": ("450.36.06", "451.22"),
    "11.1": ("455.23", "456.38"),
    "11.2": ("460.27.03", "460.82"),
    "11.3": ("465.19.01", "465.89"),
    "11.4": ("470.42.01", "471.11"),
    "11.5": ("495.29.05", "496.04"),
    "11.6": ("510.39.01", "511.23"),
    "11.7": ("515.43.04", "516.01"),
    "11.8": ("520.61.05", "520.06"),
    "12.0": ("525.60.13", "527.41"),
    "12.1": ("530.30.02", "531.14"),
    "12.2": ("535.54.03", "536.25"),
    "12.3": ("545.23.06", "545.84"),
    "12.4": ("550.54.14", "551.61"),
    "12.5": ("555.42.02", "555.85"),
    "12.6": ("560.28.03", "560.76"),
    "12.7": ("565", "565"),  # a driver without a toolkit; by PTX's manual
    "12.8": ("570.26", "570.65"),
    "12.9": ("575.51.03", "576.02"),
    # From here on the notes name none for Windows, where the toolkit brings no driver any more.
    "13.0": ("580.65.06", "580"),
    "13.1": ("590.44.01", "590"),
    "13.2": ("595.45.04", "595"),
    "13.3": ("610.43.02", "610"),
}
"""Those that came with the first release of each toolkit: they know all of it."""
_CUDA_OF_PTX = {
    "6.0": "9.0",
    "6.1": "9.1",
    "6.2": "9.2",
    "6.3": "10.0",
    "6.4": "10.1",
    "6.5": "10.2",
    **{f"7.{minor}": f"11.{minor}" for minor in range(9)},
    **{f"8.{minor}": f"12.{minor}" for minor in range(6)},  # 8.5 is 12.6's as well
    **{f"8.{minor}": f"12.{minor + 1}" for minor in range(6, 9)},
    **{f"9.{minor}": f"13.{minor}" for minor in range(6)},
}
"""The first toolkit with each version of the language."""


def cudas_of(accelerator: str) -> tuple[str, ...]:
    """CUDA's versions in an accelerator's name, the oldest first: of "cuda 11, cuda 12" both."""
    found = re.findall(r"\bcuda (\d{1,4}(?:\.\d{1,4})?)", accelerator)
    return tuple(sorted(found, key=read_numbers))


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
    drivers = _OF_MAJORS.get(read_numbers(cuda)[0]) or _OF_RELEASES.get(cuda)
    if drivers is None or system not in ("linux", "windows"):
        return ""
    return drivers[system == "windows"]


def driver_of_toolkit(cuda: str, system: str) -> str:
    """The driver that came with a toolkit, which knows all of it; "" where nobody knows it."""
    drivers = _OF_TOOLKITS.get(cuda)
    if drivers is None or system not in ("linux", "windows"):
        return ""
    return drivers[system == "windows"]


def cuda_of_ptx(version: str) -> str:
    """The first toolkit that writes that version of PTX: "12.8" of "8.7"; "" where unknown."""
    return _CUDA_OF_PTX.get(version, "")


def oldest_driver_of_ptx(version: str, system: str) -> str:
    """The lowest driver that compiles PTX of that version; "" where nobody knows it."""
    return driver_of_toolkit(cuda_of_ptx(version), system)


def newest_driver(system: str) -> str:
    """The newest of the drivers that are known here."""
    return list(_OF_TOOLKITS.values())[-1][system == "windows"]


def is_driver(text: str) -> bool:
    """Whether it is the version of a driver: "580", "580.65.06"."""
    return re.fullmatch(r"\d{3,4}(?:\.\d{1,4}){0,2}", text) is not None


def exceeds_driver(needed: str, driver: str) -> bool:
    """Whether a driver is not enough, as precisely as both are known: "580" is any of 580."""
    one, other = (read_numbers(each) if each else () for each in (needed, driver))
    length = min(len(one), len(other))
    return one[:length] > other[:length]


def is_newer_driver(one: str, other: str) -> bool:
    """Whether one of two versions of drivers is the newer one."""
    return read_numbers(one) > read_numbers(other)
