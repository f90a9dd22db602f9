"""Static libraries: whether a linker of the promised system takes all of their members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    ArchiveMembers,
    Finding,
    Format,
    Level,
    MalformedObject,
    NotInspected,
    Problem,
    StaticArchive,
    UnreadObject,
)
from binary_checks.model.packages import CppArchive
from binary_checks.wording.phrases import name_first

_FORMATS = {"linux": {"ELF"}, "macos": {"Mach-O"}, "windows": {"COFF", "import"}}
_BITCODE = "LLVM bitcode"
_OF_TINY_C = "libtcc1.a"  # what that compiler links: ELF objects on every system


@check
def foreign_archive_member(package: CppArchive) -> Iterator[Finding]:
    """A static library has members for another system or architecture than the archive is for.

    Why: the linker skips them ("incompatible with", "file was built for unsupported file format"),
    and the program lacks what they define.
    Fix: look for the step of a cross build that took a library of the host.
    Level: users who link with the library get undefined symbols.
    """
    yield from _find_unread(package)
    systems = package.claims.systems
    formats = {name for each in systems for name in _FORMATS.get(each.system, ())}
    architectures = {name for each in systems for name in each.architectures}
    if not (formats and architectures):
        raise NotApplicable("it is not known for which system and architecture it is")
    fitting = {
        item.path
        for item in package.objects_of(StaticArchive)
        if any(e.format in formats and e.architecture in architectures for e in item.members)
    }
    slices = Counter(item.path for item in package.objects_of(StaticArchive))
    for item in package.objects_of(StaticArchive):
        if slices[item.path] > 1 and item.path in fitting:
            continue  # of a universal one the linker takes what it needs
        for each in item.members:
            if each.format in {"", _BITCODE} or item.file_name == _OF_TINY_C:
                continue
            if each.format not in formats or _is_foreign(each, architectures):
                sentence = f"{_describe(each)}; the archive is for {systems[0].name}"
                yield Problem(path=item.path, sentence=sentence)


def _is_foreign(members: ArchiveMembers, architectures: set[str]) -> bool:
    """Objects of code for Windows on ARM that runs beside x64's are for both."""
    name = members.architecture
    if name == "arm64ec":
        return architectures.isdisjoint({"aarch64", "x86_64"})
    return bool(name) and name not in architectures


def _describe(members: ArchiveMembers) -> str:
    objects = "object" if members.count == 1 else "objects"
    of = " ".join(filter(None, (members.format, members.architecture)))
    return f"has {members.count} {objects} of {of} ({members.first})"


@check
def unlinkable_static_library(package: CppArchive) -> Iterator[Finding]:
    """A static library is one that linkers refuse, or that only one compiler can link.

    A thin archive, which names files of the build machine in place of having them; one without an
    index of symbols; members whose headers are broken; and members that hold a compiler's own code
    for link-time optimisation and no machine code.

    Why: linkers stop at the library. Code for link-time optimisation is read by the very version
    of the compiler that wrote it, and by no other linker.
    Fix: ``ar rcs`` without ``T`` writes a whole archive with an index; compile with
    ``-ffat-lto-objects`` or without ``-flto`` (``/GL``).
    Level: users cannot link with the library. Code for link-time optimisation is a warning: with
    the right compiler it works.
    """
    yield from _find_unread(package)
    present = {each.path for each in package.members}
    for item in package.objects_of(StaticArchive):
        lost = [name for name in item.thin if f"{item.directory}/{name}" not in present]
        if lost:
            sentence = f"is a thin archive, and {name_first(lost)} are missing"
            if len(lost) == 1:
                sentence = f"is a thin archive, and its {lost[0]} is missing"
            yield Problem(path=item.path, sentence=sentence)
        elif not item.indexed and any(each.format for each in item.members):
            yield Problem(path=item.path, sentence="has no index of symbols: ranlib writes one")
        for each in item.members:
            yield from _judge_members(item.path, each)


def _judge_members(path: str, members: ArchiveMembers) -> Iterator[Problem]:
    count, first = members.count, members.first
    if members.note == "broken":
        yield Problem(path=path, sentence=f"{count} of its members are broken ({first})")
    elif members.format == _BITCODE or members.note:
        what = members.note or "LLVM bitcode for link-time optimisation"
        sentence = f"{count} of its members hold only {what} ({first})"
        yield Problem(path=path, sentence=sentence, level=Level.WARNING)


def _find_unread(package: CppArchive) -> Iterator[NotInspected]:
    for item in package.objects_of(StaticArchive):
        if item.unread:
            yield NotInspected(path=item.path, sentence=item.unread)
    unread: list[MalformedObject | UnreadObject] = [*package.unread, *package.malformed]
    for lost in unread:
        if lost.format == Format.ARCHIVE:
            yield NotInspected(path=lost.path, sentence=lost.reason)
