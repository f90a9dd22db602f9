"""Reads of each package of a release what holds for all of them, and no more than that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from binary_checks.declaring import gathers
from binary_checks.errors import (
    BinaryChecksError,
    GatherError,
    NotApplicable,
    PackageError,
    RemoteChanged,
    Unavailable,
)
from binary_checks.gather.stating_files import LONGEST as LONGEST_TEXT
from binary_checks.gather.stating_files import compile_patterns, find_pattern
from binary_checks.model.protocols import ObjectReader, Source, Tree, TreeEntry, Visited, Wanted
from binary_checks.model.published import Release, ReleasePart
from binary_checks.model.requests import ReleaseRequest
from binary_checks.packages.wheel import find_dist_info, parse_file_name
from binary_checks.packages.wheel_texts import LONGEST, read_headers
from binary_checks.sources.release import ExpectedSet
from binary_checks.trees import open_part
from binary_checks.trees.file_bytes import PackageBytes, open_bytes
from binary_checks.trees.ranged_bytes import RangedBytes

_AT_ONCE = 8  # packages: those on a server are waited for
_MOST_TEXTS = 8  # of them, in one package


@gathers(Release)
def read_release(
    source: Source, request: ReleaseRequest, reader: ObjectReader, expected: ExpectedSet | None
) -> Release:
    """Read every part. Raises NotApplicable of a single package, ProfileError for a bad pattern."""
    if not source.parts():
        raise NotApplicable("it is a package, not several")
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
    """The files that indexes list beside the packages, and why not all of them are known."""
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
    """What one says; what cannot be had of it is its gap, and none of the others'."""
    try:
        try:
            return _open_part(source, patterns, reader)
        except RemoteChanged:
            return _open_part(source, patterns, reader)
    except (PackageError, GatherError, Unavailable) as error:
        return ReleasePart(file_name=source.label, gap=_say(source, error))


def _say(source: Source, error: BinaryChecksError) -> str:
    return str(error).removeprefix(f"{source.label}: ")


def _open_part(
    source: Source, patterns: Mapping[str, re.Pattern[str]], reader: ObjectReader
) -> ReleasePart:
    with ExitStack() as files:
        tree = open_part(_open_bytes(source, files), files)
        name, version, metadata = _find_metadata(tree)
        wanted = {metadata: LONGEST["METADATA"]} if metadata else {}
        stating = _find_stating(tree, patterns)
        wanted.update((each.name, LONGEST_TEXT) for each in stating)
        only = [each for each in tree.entries() if each.name in wanted]
        visited = tree.visit(reader, Wanted(kept=wanted, only=only, hashed=False))
    texts = {each.member.archive_name: _demand(each) for each in visited}
    headers, _ = read_headers(texts.get(metadata, b""))
    return ReleasePart(
        file_name=source.label,
        name=name,
        version=version,
        requires=tuple(value for key, value in headers if key.lower() == "requires-dist"),
        has_metadata=bool(metadata),
        commits=tuple(_find_commits(stating, texts, patterns)),
    )


def _open_bytes(source: Source, files: ExitStack) -> PackageBytes:
    remote = source.remote()
    if remote is None:
        return files.enter_context(open_bytes(source.path))
    file = remote.open()
    files.callback(file.close)
    return RangedBytes(remote.file_name, file)


def _find_metadata(tree: Tree) -> tuple[str, str, str]:
    """Name, version, and the member that says more; of what is no wheel nothing."""
    if not tree.label.endswith(".whl"):
        return "", "", ""
    name, version, _, _ = parse_file_name(tree.label)
    return name, version, f"{find_dist_info(tree)}/METADATA"


def _find_stating(tree: Tree, patterns: Mapping[str, re.Pattern[str]]) -> list[TreeEntry]:
    """The members that may say the commit."""
    found = [
        each
        for each in tree.entries()
        if each.size <= LONGEST_TEXT and find_pattern(each.name, patterns) is not None
    ]
    return found[:_MOST_TEXTS]


def _demand(each: Visited) -> bytes:
    if each.content is None:
        fault = next(iter(each.member.faults), "it cannot be read")
        raise PackageError(f"{each.member.archive_name}: {fault}")
    return each.content


def _find_commits(
    stating: list[TreeEntry], texts: Mapping[str, bytes], patterns: Mapping[str, re.Pattern[str]]
) -> Iterator[tuple[str, str]]:
    for entry in stating:
        pattern = find_pattern(entry.name, patterns)
        text = texts[entry.name].decode(errors="replace")
        if pattern is not None and (found := pattern.search(text)) and found[1]:
            yield entry.name, found[1]
