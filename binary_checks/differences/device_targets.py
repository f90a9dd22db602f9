"""The GPUs for which a build has code."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.knowledge.device_code import runs_on
from binary_checks.model import (
    Change,
    DeviceFile,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    ElfFile,
    PeFile,
    Severity,
    StaticArchive,
)


@difference
def gpu_architectures(
    old: ElfFile | PeFile | StaticArchive | DeviceFile,
    new: ElfFile | PeFile | StaticArchive | DeviceFile,
) -> Iterator[Change]:
    """The GPU architectures that a library has code for.

    A GPU that loses its machine code can still run code of an older architecture of its major
    version, or PTX that its driver compiles; AMD's GPUs can run generic code of their family. If
    such code is left, the loss is a change, otherwise a break. PTX also runs on GPUs newer than any
    code in the library: if it is gone, only PTX or machine code for newer GPUs replaces it.
    """
    before, after = _targets(old), _targets(new)
    gone, gained = before - after, after - before
    if gone:
        breaks = [each for each in gone if not _is_served(each, after, gained)]
        text = f"lost code for {_format_targets(gone)}"
        rest = f": {_describe(set(breaks))}" if breaks else ""
        yield Change(severity=Severity.BREAK if breaks else Severity.CHANGE, sentence=text + rest)
    if gained:
        text = f"code for {_format_targets(gained)} now"
        yield Change(severity=Severity.INFO, sentence=f"has {text}", together=f"have {text}")


def _targets(item: ElfFile | PeFile | StaticArchive | DeviceFile) -> set[DeviceTarget]:
    known = (DeviceKind.SASS, DeviceKind.PTX, DeviceKind.AMDGPU)
    return {
        DeviceTarget(kind=code.kind, architecture=code.architecture.rstrip("?"))
        for code in item.device_code
        if code.kind in known and code.architecture and code.linking is not DeviceLinking.UNUSABLE
    }


def _is_served(gone: DeviceTarget, after: set[DeviceTarget], gained: set[DeviceTarget]) -> bool:
    """Whether code that is still there runs on the GPUs of the code that is gone."""
    serving = [each for each in after if runs_on(each, gone.architecture)]
    if not _is_for_later(gone) or any(map(_is_for_later, serving)):
        return bool(serving)
    return bool(serving) and any(_is_of_later_major(each, gone) for each in gained)


def _is_for_later(target: DeviceTarget) -> bool:
    """Whether a target is PTX without a suffix, which also runs on all later GPUs."""
    return target.kind is DeviceKind.PTX and target.architecture[-1:] not in ("a", "f")


def _is_of_later_major(code: DeviceTarget, ptx: DeviceTarget) -> bool:
    """Whether machine code is for a later major version than PTX."""
    compiled = DeviceTarget(kind=DeviceKind.SASS, architecture=ptx.architecture)
    gpu = code.architecture
    return code.kind is DeviceKind.SASS and runs_on(ptx, gpu) and not runs_on(compiled, gpu)


def _describe(breaks: set[DeviceTarget]) -> str:
    gpus = {each for each in breaks if not _is_for_later(each)}
    return f"nothing runs on {_format_targets(gpus)}" if gpus else "nothing runs on later GPUs"


def _format_targets(targets: set[DeviceTarget]) -> str:
    names = {
        f"PTX for {each.architecture}" if each.kind is DeviceKind.PTX else each.architecture
        for each in targets
    }
    return ", ".join(sorted(names, key=lambda name: (name.startswith("PTX"), len(name), name)))
