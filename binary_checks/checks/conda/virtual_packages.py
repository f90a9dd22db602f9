"""Whether the metadata asks for the system that the package's code needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.macos_tags import read_version
from binary_checks.knowledge.match_specs import find_minimum, is_of_cuda, name_of
from binary_checks.knowledge.nvidia_names import cuda_of_library, is_cuda_library
from binary_checks.knowledge.unloaded_objects import could_not_look
from binary_checks.model import (
    ElfFile,
    Finding,
    Level,
    Linkage,
    MachOFile,
    MalformedObject,
    PeFile,
    Problem,
    UnreadObject,
)
from binary_checks.model.objects import Format
from binary_checks.model.packages import CondaLike

_OLDEST_GLIBC = (2, 17)  # conda's own programs need it
_OLDEST_MACOS = {"osx-64": (10, 13), "osx-arm64": (11, 0)}
_GLIBC = re.compile(r"GLIBC_(\d{1,4})\.(\d{1,4})(?:\.\d+)?")


@check
def missing_virtual_package(package: CondaLike) -> Iterator[Finding]:
    """The code needs a newer glibc or macOS than every user has, and the metadata asks for none.

    Every system that conda itself runs on has glibc 2.17, macOS 10.13 on Intel and macOS 11 on
    Apple silicon; what needs no more needs no virtual package. Where the metadata states a version
    that is too old, version-newer-than-tag and minimum-os-above-tag say so.

    Why: the solver installs the package on any system; on an older one the import ends with
    "version `GLIBC_2.34' not found" or "Symbol not found".
    Fix: add ``__glibc >=2.34`` or ``__osx >=12.0`` to the run requirements, or build against an
    older ``sysroot`` or SDK.
    Level: users of older systems install a package that does not load. For macOS a warning: dyld
    loads the file, and fails only at a symbol that is missing.
    """
    named = {name_of(each) for each in (*package.depends, *package.constrains)}
    if package.subdir.startswith("linux-"):
        if "__glibc" in named:
            raise NotApplicable("its metadata states a __glibc")
        yield from map(could_not_look, _list_unread(package, Format.ELF))
        yield from _find_newest_glibc(package)
    elif oldest := _OLDEST_MACOS.get(package.subdir):
        if "__osx" in named:
            raise NotApplicable("its metadata states an __osx")
        yield from map(could_not_look, _list_unread(package, Format.MACHO))
        yield from _find_newest_macos(package, oldest)
    else:
        raise NotApplicable("it is for neither Linux nor macOS")


def _list_unread(package: CondaLike, wanted: Format) -> Iterator[MalformedObject | UnreadObject]:
    found: tuple[MalformedObject | UnreadObject, ...] = (*package.malformed, *package.unread)
    yield from (item for item in found if item.format == wanted)


def _find_newest_glibc(package: CondaLike) -> Iterator[Problem]:
    needs = [
        ((int(match[1]), int(match[2])), item.path)
        for item in package.objects_of(ElfFile)
        for need in item.symbol_versions
        if not need.weak and (match := _GLIBC.fullmatch(need.version))
    ]
    newest, path = max(needs, default=(_OLDEST_GLIBC, ""))
    if newest > _OLDEST_GLIBC:
        version = "{}.{}".format(*newest)
        sentence = f"needs GLIBC_{version}, and no requirement says __glibc >={version}"
        yield Problem(path=path, sentence=f"{sentence}: it installs on older systems")


def _find_newest_macos(package: CondaLike, oldest: tuple[int, int]) -> Iterator[Problem]:
    built = [
        (read_version(item.minimum_os), item.path)
        for item in package.objects_of(MachOFile)
        if item.minimum_os
    ]
    newest, path = max(built, default=(oldest, ""))
    if newest > oldest:
        version = "{}.{}".format(*newest)
        sentence = f"is built for macOS {version}, and no requirement says __osx >={version}"
        yield Problem(path=path, sentence=sentence, level=Level.WARNING)


@check
def understated_driver(package: CondaLike, linkage: Linkage | CondaLike) -> Iterator[Finding]:
    """A CUDA package asks for an older driver than its CUDA needs, or for none.

    ``__cuda`` is the newest CUDA that the user's driver supports. ``cuda-version`` and the packages
    of the toolkit ask for it themselves.

    Why: the solver installs the package beside a driver that cannot run it: "CUDA driver version is
    insufficient for CUDA runtime version".
    Fix: build with ``cuda-version``, whose run requirement states ``__cuda``, or state it yourself.
    Level: with an older driver, nothing of it runs on the GPU. A warning where no driver is asked
    for at all: most users of such a package have one.
    """
    needed = _find_cuda(linkage)
    code = [path for path, there in _find_device_code(package) if there]
    if not needed and not code:
        raise NotApplicable("nothing of it is for CUDA")
    stated = find_minimum("__cuda", (*package.depends, *package.constrains))
    newest = max((major for major, _ in needed), default=0)
    if stated is not None:
        if newest > stated[0]:
            name = next(name for major, name in needed if major == newest)
            sentence = "needs {}, of CUDA {}, and __cuda >={}.{} allows an older driver"
            yield Problem(sentence=sentence.format(name, newest, *stated))
        return
    if not any(map(is_of_cuda, package.depends)):
        what = f"needs {needed[0][1]}" if needed else "has code for GPUs"
        sentence = f"{what}, and no dependency asks for a driver (__cuda, cuda-version)"
        path = code[0] if code else ""
        yield Problem(path=path, sentence=sentence, level=Level.WARNING)


def _find_cuda(linkage: Linkage | CondaLike) -> list[tuple[int, str]]:
    """The libraries of CUDA that are needed, each with its CUDA, 0 where that is not told."""
    if not isinstance(linkage, Linkage):
        return []
    names = dict.fromkeys(edge.needed for edge in linkage.edges if is_cuda_library(edge.needed))
    return [(cuda_of_library(name) or 0, name) for name in names]


def _find_device_code(package: CondaLike) -> Iterable[tuple[str, bool]]:
    for item in package.objects:
        if isinstance(item, ElfFile | PeFile):
            yield item.path, any(code.architecture.startswith("sm_") for code in item.device_code)
