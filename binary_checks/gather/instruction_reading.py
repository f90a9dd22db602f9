"""Instructions in a package's objects that not every CPU of the promised architecture has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec

from binary_checks.declaring import gathers
from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.model import (
    ElfFile,
    Kind,
    Member,
    Package,
    UnparsedSource,
    VectorInstructions,
    VectorUse,
)
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.instructions import read_vector_code
from binary_checks.trees.kept_bytes import MemorySource

_LONGEST = 512 << 20  # bytes of an object that is read again
_MOST_OF_CODE = 1 << 20  # bytes of a Python file that is searched
_NAMES = re.compile(rb"avx[-_]?512|\bamx\b", re.IGNORECASE)


@gathers(VectorInstructions)
def read_instructions(package: Package, contents: MemberContents) -> VectorInstructions:
    """Count vector instructions in a sample of each object's code.

    Raises Unavailable without a disassembler, and PackageError.
    """
    if find_spec("capstone") is None:
        raise Unavailable("there is no disassembler: install binary-checks[instructions]")
    members = {member.path: member for member in package.members}
    objects = {
        members[item.path]: item.path
        for item in package.objects_of(ElfFile)
        if item.architecture == "x86_64"
        and item.kind in (Kind.SHARED, Kind.EXECUTABLE)
        and item.path in members
    }
    uses, unread = list[VectorUse](), list[UnparsedSource]()
    large = [member for member in objects if member.size > _LONGEST]
    for member in large:
        reason = f"it has {member.size} bytes, and its instructions are not read"
        unread.append(UnparsedSource(path=member.path, reason=reason))
    for member, content in contents.each(each for each in objects if each not in large):
        try:
            if isinstance(content, Unavailable):
                raise content
            found = read_vector_code(LimitedSource(MemorySource(content)))
        except (Unavailable, MalformedError, TooLarge) as error:
            unread.append(UnparsedSource(path=member.path, reason=str(error)))
            continue
        if found.avx512 or found.amx:
            uses.append(VectorUse(path=objects[member], **found._asdict()))
    return VectorInstructions(
        uses=tuple(sorted(uses, key=lambda each: each.path)),
        unread=tuple(sorted(unread, key=lambda each: each.path)),
        choosing=next(_find_choosing(package, contents), "") if uses else "",
    )


def _find_choosing(package: Package, contents: MemberContents) -> Iterator[str]:
    """Yield Python files whose text names AVX-512 or AMX: they may choose between objects."""
    files: list[Member] = [
        member
        for member in package.members
        if member.path.endswith(".py") and member.size <= _MOST_OF_CODE
    ]
    for member, content in contents.each(files):
        if not isinstance(content, Unavailable) and _NAMES.search(content):
            yield member.path
