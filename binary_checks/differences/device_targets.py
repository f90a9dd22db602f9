"""For which GPUs a build has code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.model import DeviceFile, DeviceKind, ElfFile, PeFile, StaticArchive
from binary_checks.model.compared_builds import Change, Severity

_NUMBER = re.compile(r"sm_(\d+)(\d)[af?]?")


@difference
def gpu_architectures(
    old: ElfFile | PeFile | StaticArchive | DeviceFile,
    new: ElfFile | PeFile | StaticArchive | DeviceFile,
) -> Iterator[Change]:
    """The GPU architectures that a library has code for.

    A GPU whose code is gone still runs code of an older one of its major version, or PTX, which
    its driver compiles: that is a change, and a break where there is neither.
    """
    before, after = _targets(old), _targets(new)
    lost, gained = before - after, after - before
    if lost:
        breaks = [each for each in lost if not _is_served(each, after)]
        said = f"lost code for {_list(lost)}"
        rest = f": nothing runs on {_list(set(breaks))}" if breaks else ""
        yield Change(severity=Severity.BREAK if breaks else Severity.CHANGE, sentence=said + rest)
    if gained:
        said = f"code for {_list(gained)} now"
        yield Change(severity=Severity.INFO, sentence=f"has {said}", together=f"have {said}")


_Target = tuple[str, str]


def _targets(item: ElfFile | PeFile | StaticArchive | DeviceFile) -> set[_Target]:
    known = (DeviceKind.SASS, DeviceKind.PTX, DeviceKind.AMDGPU)
    return {
        (code.kind.value, code.architecture.rstrip("?"))
        for code in item.device_code
        if code.kind in known and code.architecture
    }


def _is_served(lost: _Target, after: set[_Target]) -> bool:
    """Whether something that is still there runs where it ran."""
    one = _NUMBER.fullmatch(lost[1])
    if one is None:
        return False
    for kind, architecture in after:
        other = _NUMBER.fullmatch(architecture)
        if other is None or not architecture[-1].isdecimal():
            continue
        newer = (int(other[1]), int(other[2])) > (int(one[1]), int(one[2]))
        if not newer and (kind == DeviceKind.PTX.value or other[1] == one[1]):
            return True
    return lost[0] == DeviceKind.PTX.value and ("sass", lost[1]) in after


def _list(targets: set[_Target]) -> str:
    names = {
        f"PTX for {architecture}" if kind == DeviceKind.PTX.value else architecture
        for kind, architecture in targets
    }
    return ", ".join(sorted(names, key=lambda name: (name.startswith("PTX"), len(name), name)))
