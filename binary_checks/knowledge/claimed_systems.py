"""Which objects a claimed system takes: of which format, for which architecture."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from binary_checks.model import ElfFile, Format, Kind, ObjectFile, PeFile
from binary_checks.model.objects import object_kinds
from binary_checks.model.packages import ANY_SYSTEM, SystemClaim
from binary_checks.model.python_modules import is_extension, parse_extension_name

_OBJECTS = frozenset(
    {"x86_64", "aarch64", "i686", "armv7l", "ppc64le", "ppc64", "ppc"}
    | {"s390x", "riscv64", "loongarch64"}
)
"""The architectures that readers tell objects apart by."""
_FORMATS = {"linux": Format.ELF, "macos": Format.MACHO, "windows": Format.PE}
_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_WORDS = {
    "i686": r"x86|i386|i686|ia32|win32|32",
    "x86_64": r"x64|amd64|x86_64|win64|64",
    "aarch64": r"arm64|aarch64",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Misfit:
    """An object that no claimed system takes, or a claim that no object bears out."""

    item: ObjectFile | None = None  # None: a claim
    sentence: str
    of_other_format: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What comes of holding the objects of a package against the systems that it claims."""

    judged: int = 0  # objects
    fitting: int = 0  # of them
    unknown: tuple[str, ...] = ()  # claims of which the architecture is not known: none is judged
    misfits: tuple[Misfit, ...] = ()


def compare_architectures(
    systems: Sequence[SystemClaim], objects: Sequence[ObjectFile]
) -> Comparison | None:
    """Hold objects against claims; None where every system is claimed, or none.

    Every claim counts: one is wrong too if there is no object for its architecture.
    """
    claims = {claim.name: architectures_of(claim) for claim in systems}
    if not claims or any(claim.system == ANY_SYSTEM for claim in systems):
        return None
    # A wheel for macOS that has DLLs too, as sounddevice's does, has them for other systems.
    formats = frozenset[Format]().union(*map(formats_of, systems))
    loaded = [item for item in objects if item.kind in _LOADED]
    judged = [item for item in loaded if item.format in formats]
    foreign = [item for item in loaded if _is_of_other_format(item, formats)]
    misfits = [
        Misfit(
            item=item,
            sentence=f"is an object of format {item.format}, which {', '.join(claims)} cannot load",
            of_other_format=True,
        )
        for item in foreign
    ]
    unknown = tuple(name for name, architectures in claims.items() if not architectures)
    claimed = frozenset[str]().union(*claims.values())
    fitting = {item.path for item in judged if item.architecture in claimed}
    if not unknown:
        misfits += _find_misfits(claims, judged, fitting)
    return Comparison(
        judged=len(judged) + len(foreign),
        fitting=len(fitting),
        unknown=unknown,
        misfits=tuple(misfits),
    )


def _find_misfits(
    claims: Mapping[str, frozenset[str]], judged: Sequence[ObjectFile], fitting: Collection[str]
) -> Iterator[Misfit]:
    claimed = frozenset[str]().union(*claims.values())
    for item in judged:
        # Of a universal binary one slice that fits is enough: nothing loads the others.
        if item.path not in fitting and not may_be_foreign(item, claimed):
            sentence = f"is for {item.architecture}, the tags say {', '.join(claims)}"
            yield Misfit(item=item, sentence=sentence)
    for platform, architectures in claims.items():
        if judged and not _any_for(architectures, judged) and _any_for(claimed, judged):
            yield Misfit(sentence=f"claims {platform}, but has no object for that architecture")


def _is_of_other_format(item: ObjectFile, formats: Collection[Format]) -> bool:
    """Whether an interpreter there asks for a module of that name, and gets another's object."""
    name = parse_extension_name(item.path)
    if name is None or not name.tagged or item.format in formats:
        return False
    if name.suffix.endswith(".pyd"):
        return Format.PE in formats
    if name.platform:
        return (Format.MACHO if name.platform == "darwin" else Format.ELF) in formats
    return Format.PE not in formats


def _any_for(architectures: Collection[str], objects: Collection[ObjectFile]) -> bool:
    return any(item.architecture in architectures for item in objects)


def architectures_of(claim: SystemClaim) -> frozenset[str]:
    """The architectures of objects that a claimed system takes; empty where it is unknown."""
    # The headers of ELF do not tell ARM's version 6 from version 7.
    architectures = {"armv7l" if name == "armv6l" else name for name in claim.architectures}
    if claim.system == "windows" and "aarch64" in architectures:
        return frozenset({"aarch64", "arm64x"})  # Microsoft's own msvcp140.dll is ARM64X
    return _OBJECTS & architectures


def formats_of(claim: SystemClaim) -> frozenset[Format]:
    """The format that the loader of a claimed system takes; every one where it is not known."""
    known = _FORMATS.get(claim.system)
    every = (kind.format for kind in object_kinds().values())
    return frozenset(every if known is None else {known})


def may_be_foreign(item: ObjectFile, claimed: Collection[str]) -> bool:
    """Whether a claimed system takes it although its architecture is none of the claimed ones.

    .NET code alone has none of its own, and on Windows a program runs in a process of its own. A
    library for Windows or macOS that is called by its architecture, and no extension module, is
    meant for such a process: debugpy's win_amd64 wheel attaches to 32-bit processes with
    ``attach_x86.dll``, viztracer's for arm64 to Intel's with ``attach_x86_64.dylib``. How ARM
    passes numbers is nothing to a program that loads no library (ziglang's ``zig``).
    """
    if isinstance(item, ElfFile):
        is_alone = not item.interpreter and not item.needed and item.kind is Kind.EXECUTABLE
        return is_alone and item.architecture == "armel" and "armv7l" in claimed
    if isinstance(item, PeFile) and (item.managed or item.kind is Kind.EXECUTABLE):
        return True
    words = _WORDS.get(item.architecture)
    if words is None or is_extension(item):
        return False
    name = item.file_name.lower()
    unmistakable = {"i686": "32bit", "x86_64": "64bit", "aarch64": "arm64"}[item.architecture]
    return unmistakable in name or bool(re.search(rf"(?<![^\W_])(?:{words})(?![^\W_])", name))
