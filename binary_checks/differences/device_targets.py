"""For which GPUs a build has code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.model import (
    DeviceFile,
    DeviceKind,
    DeviceLinking,
    ElfFile,
    PeFile,
    StaticArchive,
)
from binary_checks.model.compared_builds import Change, Severity

_PTX = DeviceKind.PTX.value
_NUMBER = re.compile(r"sm_(\d+)(\d)([af]?)")
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


@difference
def gpu_architectures(
    old: ElfFile | PeFile | StaticArchive | DeviceFile,
    new: ElfFile | PeFile | StaticArchive | DeviceFile,
) -> Iterator[Change]:
    """The GPU architectures that a library has code for.

    A GPU whose code is gone still runs code of an older one of its major version, or PTX, which
    its driver compiles, and AMD's run generic code of their family: that is a change, and a break
    where there is neither. PTX also runs on GPUs that are newer than all code there is: where it
    is gone, only PTX or code for newer ones takes its place.
    """
    before, after = _targets(old), _targets(new)
    lost, gained = before - after, after - before
    if lost:
        breaks = [each for each in lost if not _is_served(each, after, gained)]
        said = f"lost code for {_list(lost)}"
        rest = f": {_tell(set(breaks))}" if breaks else ""
        yield Change(severity=Severity.BREAK if breaks else Severity.CHANGE, sentence=said + rest)
    if gained:
        said = f"code for {_list(gained)} now"
        yield Change(severity=Severity.INFO, sentence=f"has {said}", together=f"have {said}")


_Target = tuple[str, str]


def _tell(breaks: set[_Target]) -> str:
    gpus = {each for each in breaks if each[0] != _PTX or each[1][-1:] in ("a", "f")}
    return f"nothing runs on {_list(gpus)}" if gpus else "nothing runs on later GPUs"


def _targets(item: ElfFile | PeFile | StaticArchive | DeviceFile) -> set[_Target]:
    known = (DeviceKind.SASS, DeviceKind.PTX, DeviceKind.AMDGPU)
    return {
        (code.kind.value, code.architecture.rstrip("?"))
        for code in item.device_code
        if code.kind in known and code.architecture and code.linking is not DeviceLinking.UNUSABLE
    }


def _is_served(lost: _Target, after: set[_Target], gained: set[_Target]) -> bool:
    """Whether something that is still there runs where it ran."""
    kind, architecture = lost
    if kind == DeviceKind.AMDGPU.value:
        return any(_runs_on(other, architecture) for _, other in after)
    gpu = _NUMBER.fullmatch(architecture)
    if gpu is None:
        return False
    if kind == _PTX and not gpu[3]:
        if any(ptx and _runs_later(other, gpu) for ptx, other in _numbered(after)):
            return True
        newer = any(not ptx and int(each[1]) > int(gpu[1]) for ptx, each in _numbered(gained))
        return newer and any(_runs_within(each, gpu) for _, each in _numbered(after))
    return any(
        _runs_within(other, gpu) or (ptx and _runs_later(other, gpu))
        for ptx, other in _numbered(after)
    )


def _numbered(targets: set[_Target]) -> Iterator[tuple[bool, re.Match[str]]]:
    """Those of NVIDIA, and whether each is PTX."""
    for kind, architecture in targets:
        found = _NUMBER.fullmatch(architecture)
        if found is not None:
            yield kind == _PTX, found


def _runs_later(code: re.Match[str], gpu: re.Match[str]) -> bool:
    """Whether it is PTX's way: on its own GPU and all later ones, where it has no suffix."""
    return not code[3] and _number(code) <= _number(gpu)


def _runs_within(code: re.Match[str], gpu: re.Match[str]) -> bool:
    """Whether machine code runs there: on its major version's GPUs from its own on.

    That of a family (``sm_100f``) does too, that of ``sm_90a`` on this one alone.
    """
    if code[3] == "a":
        return _number(code) == _number(gpu)
    return code[1] == gpu[1] and int(code[2]) <= int(gpu[2])


def _number(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2])


def _runs_on(other: str, lost: str) -> bool:
    """Whether AMD's code runs where other code did: it is for the family, or for any setting."""
    name, gpu = other.partition(":")[0], lost.partition(":")[0]
    return other == gpu or re.fullmatch(_GENERIC.get(name, "(?!)"), gpu) is not None


def _list(targets: set[_Target]) -> str:
    names = {
        f"PTX for {architecture}" if kind == _PTX else architecture
        for kind, architecture in targets
    }
    return ", ".join(sorted(names, key=lambda name: (name.startswith("PTX"), len(name), name)))
