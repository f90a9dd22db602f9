"""Gathers what a check needs to judge one package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from binary_checks.declaring import Check
from binary_checks.errors import NotApplicable, TooLarge, Unavailable
from binary_checks.gather.facts import Facts
from binary_checks.model import (
    DeviceFile,
    ElfFile,
    Format,
    MachOFile,
    MalformedObject,
    NotInspected,
    ObjectFile,
    Package,
    PeFile,
    StaticArchive,
    UnreadObject,
)

FORMATS: dict[type, Format] = {
    ElfFile: Format.ELF,
    MachOFile: Format.MACHO,
    PeFile: Format.PE,
    StaticArchive: Format.ARCHIVE,
    DeviceFile: Format.DEVICE,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A check with everything that it needs to judge one package."""

    check: Check[Any]
    package_file_name: str
    names: tuple[str, ...] = ()  # by which a profile may know the package beside
    subjects: tuple[Any, ...]  # what it is called on, one after the other
    evidence: tuple[Any, ...]  # the later positional arguments, the same for every subject
    unread: tuple[NotInspected, ...] = ()  # objects that it should have seen and could not


def applicable_formats(check: Check[Any]) -> frozenset[Format] | None:
    """The formats of which one must occur for the check to be collected; None for any package."""
    if not check.judges_objects:
        return None
    if ObjectFile in check.subjects:
        return frozenset(Format)
    return frozenset(FORMATS[kind] for kind in check.subjects)


def prepare(check: Check[Any], facts: Facts) -> Case:
    """Gather what the check asks for.

    Raises NotApplicable, Unavailable, PackageError or GatherError.
    """
    subjects: tuple[Any, ...] = ()
    evidence: tuple[Any, ...] = ()
    unread: tuple[NotInspected, ...] = ()
    try:
        if check.judges_objects:
            package = facts.get(Package)
            subjects, unread = _subjects(check, package), _unread(check, package)
        else:
            subjects = (_first_of(check.subjects, facts),)
        evidence = tuple(_first_of(kinds, facts) for kinds in check.facts[1:])
    except TooLarge as error:
        subjects, unread = (), (NotInspected(sentence=str(error), too_large=True),)
    return Case(
        check=check,
        package_file_name=facts.path.name,
        names=facts.wheel_names,
        subjects=subjects,
        evidence=evidence,
        unread=unread,
    )


def _subjects(check: Check[Any], package: Package) -> tuple[ObjectFile, ...]:
    subjects = tuple(item for item in package.objects if isinstance(item, check.subjects))
    unread = _unread(check, package)
    if not subjects and unread and not any(item.too_large for item in unread):
        raise Unavailable(f"none of {len(unread)} objects could be read: {unread[0].sentence}")
    if not subjects and not unread:
        formats = applicable_formats(check) or frozenset()
        raise NotApplicable(f"no {' or '.join(sorted(formats))} object in the package")
    return subjects


def _unread(check: Check[Any], package: Package) -> tuple[NotInspected, ...]:
    formats = applicable_formats(check) or frozenset()
    unreadable: tuple[MalformedObject | UnreadObject, ...] = (*package.malformed, *package.unread)
    return tuple(
        NotInspected(
            path=item.path,
            sentence=item.reason,
            too_large=isinstance(item, UnreadObject) and item.too_large,
        )
        for item in unreadable
        if item.format in formats
    )


def _first_of(kinds: tuple[type, ...], facts: Facts) -> Any:
    """The first of the accepted classes that the package has a fact of."""
    for kind in kinds[:-1]:
        try:
            return facts.get(kind)
        except NotApplicable:
            continue
    return facts.get(kinds[-1])
