"""Reading of the judged package, once for all facts, and the system that the package claims."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

from binary_checks import objects, systems
from binary_checks.declaring import gathers
from binary_checks.errors import (
    GatherError,
    NotApplicable,
    PackageError,
    RemoteChanged,
    Unavailable,
)
from binary_checks.gather.member_contents import LARGEST, MemberContents
from binary_checks.gather.stated_toolkits import compile_patterns, find_pattern
from binary_checks.model import (
    ContentRequests,
    ObjectReader,
    Package,
    Progress,
    Publication,
    PublishedFile,
    PublishedWheel,
    Reading,
    Release,
    ReleasePart,
    ReleaseRequest,
    Remote,
    Source,
    TargetSystem,
    Tree,
    Visited,
    VisitRequest,
    Wheel,
)
from binary_checks.objects.first_bytes import read_first_bytes
from binary_checks.packages import read_file_name, read_outline
from binary_checks.packages.distributions import LONGEST, read_headers
from binary_checks.packages.wheel import find_dist_info, parse_file_name
from binary_checks.profile import Profile
from binary_checks.sources.release import ExpectedSet
from binary_checks.trees import open_part
from binary_checks.trees.file_bytes import PackageBytes, RangedBytes, open_bytes


@gathers(Reading)
def read_source(
    source: Source, profile: Profile, progress: Progress | None, wants: ContentRequests
) -> Reading:
    """Read the package, once for all facts. Raises PackageError."""
    reader = objects.LimitedReader(profile.limit_factor, samples=True)
    return source.read(reader, progress, wants)


@gathers(Package)
def take_package(reading: Reading) -> Package:
    """Return the package that was read."""
    return reading.package


@gathers(MemberContents)
def take_contents(reading: Reading, source: Source) -> MemberContents:
    """Return the kept contents of the package's members."""
    return MemberContents(reading.package, reading.kept, source.open)


@gathers(TargetSystem)
def name_target(package: Package, profile: Profile) -> TargetSystem:
    """Return the system on which the package claims to run, with the profile's additions."""
    return systems.target_for(package.claims, profile.system_libraries, profile.dll_directories)


# Published files: the index's statements, and the facts that range requests find.

_FACTS: dict[type[Package], Callable[..., PublishedFile]] = {Wheel: PublishedWheel}
"""Kinds of packages for which there is a special class of facts."""


def require_remote(source: Source) -> Remote:
    """Return the published file. Raises NotApplicable for a local file."""
    remote = source.remote()
    if remote is None:
        raise NotApplicable("it is a local file, not a published one")
    return remote


@gathers(Publication)
def find_publication(source: Source) -> Publication:
    """Read the index's statements about a published file, and its name.

    Raises GatherError, and NotApplicable for a local file.
    """
    remote = require_remote(source)
    name, version, tags = read_file_name(remote.file_name)
    metadata = remote.core_metadata()
    return Publication(
        file_name=remote.file_name,
        name=name,
        version=version,
        tags=tags,
        provenance=remote.provenance,
        metadata=None if metadata is None else read_headers(metadata)[0],
    )


@gathers(PublishedFile)
def find_published(source: Source, reader: ObjectReader) -> PublishedFile:
    """Read a published file by ranges; start again, once, if the file changed meanwhile.

    Raises NotApplicable for a local file, Unavailable if the server supports no ranges,
    PackageError if the file is not a package, and GatherError if the network failed or the file
    changed again.
    """
    remote = require_remote(source)
    try:
        return _read(remote, reader)
    except RemoteChanged:
        pass
    except Unavailable as error:
        raise Unavailable(f"before the download: {error}") from None
    try:
        return _read(remote, reader, again=True)
    except RemoteChanged:
        raise GatherError(f"{remote.file_name}: it changed twice while it was read") from None


def _read(remote: Remote, reader: ObjectReader, *, again: bool = False) -> PublishedFile:
    with ExitStack() as files:
        file = files.enter_context(closing(remote.open()))
        ranged = RangedBytes(remote.file_name, file)
        package: Package = read_outline(open_part(ranged, files, read_first_bytes), reader)
        transfer = ranged.transfer
    return _FACTS.get(type(package), PublishedFile)(
        package=package,
        requests=transfer.requests,
        transferred=transfer.size,
        began_anew=again,
    )


# Releases: the facts about each package that are needed to judge all of them together.

_AT_ONCE = 8  # packages read at the same time, as servers take time to answer


@gathers(Release)
def read_release(
    source: Source, request: ReleaseRequest, reader: ObjectReader, expected: ExpectedSet | None
) -> Release:
    """Read all parts of the release.

    Raises NotApplicable for a single package, ProfileError for a bad pattern.
    """
    if not source.parts():
        raise NotApplicable("it is a single package, not a release")
    patterns = compile_patterns(request.commits, "probes.release.commits", "commit")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        parts = [*pool.map(lambda each: _read_part(each, patterns, reader), source.parts())]
    listed, gap = _list_siblings(source)
    return Release(
        parts=tuple(sorted(parts, key=lambda part: part.file_name)),
        listed=listed,
        unlisted=gap,
        expected=None if expected is None else expected.globs,
        expected_by="" if expected is None else expected.written,
    )


def _list_siblings(source: Source) -> tuple[tuple[str, ...] | None, str]:
    """Return the files that indexes list next to the packages, and why the list is incomplete."""
    remotes = [remote for part in source.parts() if (remote := part.remote()) is not None]
    found: set[str] = set()
    for remote in remotes:
        try:
            found.update(remote.siblings())
        except GatherError as error:
            return None, str(error)
    return (tuple(sorted(found)) if found else None), ""


def _read_part(
    source: Source, patterns: Mapping[str, re.Pattern[str]], reader: ObjectReader
) -> ReleasePart:
    """Read one part; record gaps for what cannot be read, without effect on other parts."""
    try:
        try:
            return _open_part(source, patterns, reader)
        except RemoteChanged:
            return _open_part(source, patterns, reader)
    except (PackageError, GatherError, Unavailable) as error:
        gap = str(error).removeprefix(f"{source.label}: ")
        return ReleasePart(file_name=source.label, gap=gap)


def _open_part(
    source: Source, patterns: Mapping[str, re.Pattern[str]], reader: ObjectReader
) -> ReleasePart:
    with ExitStack() as files:
        tree = open_part(_open_bytes(source, files), files)
        name, version, metadata = _find_metadata(tree)
        wanted = {metadata: LONGEST["METADATA"]} if metadata else {}
        stating = {
            each.name: pattern
            for each in tree.entries()
            if (pattern := find_pattern(each.name, patterns)) is not None
        }
        wanted.update(dict.fromkeys(stating, LARGEST))
        only = [each for each in tree.entries() if each.name in wanted]
        visited = tree.visit(reader, VisitRequest(texts=wanted, only=only, hashed=False))
    texts = {each.member.archive_name: _require(each) for each in visited}
    headers, _ = read_headers(texts.get(metadata, b""))
    return ReleasePart(
        file_name=source.label,
        name=name,
        version=version,
        requires=_list_values(headers, "requires-dist"),
        requires_python=next(iter(_list_values(headers, "requires-python")), ""),
        classifiers=_list_values(headers, "classifier"),
        has_metadata=bool(metadata),
        commits=tuple(
            (name, found[1])
            for name, pattern in stating.items()
            if (found := pattern.search(texts[name].decode(errors="replace"))) and found[1]
        ),
    )


def _list_values(headers: Iterable[tuple[str, str]], name: str) -> tuple[str, ...]:
    return tuple(value for key, value in headers if key.lower() == name)


def _open_bytes(source: Source, files: ExitStack) -> PackageBytes:
    remote = source.remote()
    if remote is None:
        return files.enter_context(open_bytes(source.path))
    file = files.enter_context(closing(remote.open()))
    return RangedBytes(remote.file_name, file)


def _find_metadata(tree: Tree) -> tuple[str, str, str]:
    """Return name, version, and the member with further metadata.

    Return "" for each if the tree does not belong to a wheel.
    """
    if not tree.label.endswith(".whl"):
        return "", "", ""
    name, version, _, _ = parse_file_name(tree.label)
    return name, version, f"{find_dist_info(tree)}/METADATA"


def _require(each: Visited) -> bytes:
    if each.content is None:
        fault = next(iter(each.member.faults), "it cannot be read")
        raise PackageError(f"{each.member.archive_name}: {fault}")
    return each.content
