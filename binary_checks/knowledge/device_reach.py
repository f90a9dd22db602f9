"""Knows where device code runs, and for which GPUs it can be linked with other code."""

from __future__ import annotations

import re

from binary_checks.model import DeviceKind, DeviceTarget

_NAME = re.compile(r"sm_(\d{1,4})(\d)([af?]?)")
_GENERIC = {
    "gfx9-generic": r"gfx90(?:[02469]|c)",
    "gfx9-4-generic": r"gfx94[0-2]|gfx950",
    "gfx10-1-generic": r"gfx101\d",
    "gfx10-3-generic": r"gfx103\d",
    "gfx11-generic": r"gfx11\d\d",
    "gfx12-generic": r"gfx120\d",
    "gfx12-5-generic": r"gfx125\d",
}
"""On which GPUs AMD's generic targets run (LLVM's AMDGPUUsage, "Generic Processors")."""


def runs_on(code: DeviceTarget, gpu: str) -> bool:
    """Whether a driver runs code for one target on the GPU that an architecture names."""
    if code.kind is DeviceKind.AMDGPU:
        return _runs_on_amd(code.architecture, gpu)
    one, other = _NAME.fullmatch(code.architecture), _NAME.fullmatch(gpu)
    return one is not None and other is not None and _runs(code.kind, one, other)


def serves(code: DeviceTarget, wanted: DeviceTarget) -> bool:
    """Whether code for one target is of use wherever another target is meant.

    PTX without a suffix means its own GPU and all later ones, which only such PTX serves. nvlink
    13.5 takes relocatable code of an older GPU of the same major version, and code without a
    suffix beside code with one; it refuses ``sm_90a`` where ``sm_90`` is asked for.
    """
    if code.kind not in (DeviceKind.SASS, DeviceKind.PTX):
        return False
    one, other = _NAME.fullmatch(code.architecture), _NAME.fullmatch(wanted.architecture)
    if one is None or other is None:
        return code == wanted
    if wanted.kind is DeviceKind.PTX and not other[3]:
        return code.kind is DeviceKind.PTX and not one[3] and _number(one) <= _number(other)
    if one[3] == "a" and other[3] not in ("a", "?"):
        return False
    return _runs(code.kind, one, other)


def _runs(kind: DeviceKind, code: re.Match[str], gpu: re.Match[str]) -> bool:
    """Whether it does on NVIDIA's GPUs.

    PTX without a suffix is compiled for all later ones. Other code runs within its major version,
    from its own GPU on, that of a family (``sm_100f``) too; ``sm_90a`` is for this one alone.
    """
    if kind is DeviceKind.PTX and not code[3]:
        return _number(code) <= _number(gpu)
    if code[3] == "a":
        return _number(code) == _number(gpu)
    return code[1] == gpu[1] and int(code[2]) <= int(gpu[2])


def _number(name: re.Match[str]) -> tuple[int, int]:
    return int(name[1]), int(name[2])


def _runs_on_amd(code: str, gpu: str) -> bool:
    """Whether it does on AMD's: where it is for that GPU, for any setting of it, or its family."""
    name, plain = code.partition(":")[0], gpu.partition(":")[0]
    return code in (gpu, plain) or re.fullmatch(_GENERIC.get(name, "(?!)"), plain) is not None
