"""Hides NVIDIA's driver from a process, as far as that can be done without rights."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from binary_checks.model import GpuHost
from binary_checks.places.sandbox import Sandbox
from binary_checks.probes.gpu_host.reader import HIDDEN, describe_host

_DRIVERS = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", "libnvidia-ml.so")


def hide_driver(
    python: Path,
    folder: Path,
    *,
    timeout: float,
    variables: Mapping[str, str] = HIDDEN,
    sandbox: Sandbox | None = None,
) -> tuple[Mapping[str, str], GpuHost]:
    """Give the variables that hide the host's driver, and what of it is seen all the same.

    On Linux empty files of the driver's names, which lie in the folder and are found first, are
    what the loader comes to and refuses: everything that opens the driver by its name, as CUDA's
    runtime does, fails as it does where there is none. Other systems have no such way.
    """
    host = describe_host(python, variables, timeout=timeout, sandbox=sandbox)
    if not host.library or sys.platform != "linux":
        return variables, host
    folder.mkdir(exist_ok=True)
    for name in _DRIVERS:
        (folder / name).touch()
    paths = (str(folder), variables.get("LD_LIBRARY_PATH", ""))
    hidden = {**variables, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
    return hidden, describe_host(python, hidden, timeout=timeout, sandbox=sandbox)
