"""Reads the generated files of a package that state which CUDA or ROCm it was built for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TypeAlias

from binary_checks.errors import BinaryChecksError, BrokenDataError
from binary_checks.gather.member_contents import find_entry
from binary_checks.gather.stating_files import LONGEST, compile_patterns, find_named, find_pattern
from binary_checks.knowledge.toolkit_claims import claim_by_label, read_stated
from binary_checks.model import Layout, Member, Package
from binary_checks.model.binary_configuration import (
    Platform,
    StatedToolkits,
    ToolkitClaim,
    ToolkitSource,
    UnreadStatement,
)
from binary_checks.model.protocols import Source, Tree
from binary_checks.model.requests import BuildsRequest

_MOST = 16  # such files of one package
_SHOWN = 60  # characters of the text that says it
_LABELS = "labels"
_Patterns: TypeAlias = Mapping[str, Mapping[str, re.Pattern[str]]]


def read_build_files(package: Package, source: Source, request: BuildsRequest) -> StatedToolkits:
    """Read every file that a glob names. Raises ProfileError for a pattern that is none."""
    patterns = {
        table: compile_patterns(globs, f"probes.builds.{table}", "version")
        for table, globs in (
            (Platform.CUDA.value, request.cuda),
            (Platform.ROCM.value, request.rocm),
            (_LABELS, request.labels),
        )
    }
    wanted = list(_find_wanted(package, patterns))
    if not wanted:
        return StatedToolkits()
    try:
        with closing(source.open()) as tree:
            return _read(package, tree, wanted, patterns)
    except (BinaryChecksError, OSError) as error:
        unread = UnreadStatement(path=wanted[0].path, reason=str(error))
        return StatedToolkits(unread=(unread,))


def _find_wanted(package: Package, patterns: _Patterns) -> Iterator[Member]:
    files = (each for each in package.members if not (each.is_directory or each.target))
    shown = [(package.layout.shorten(member.path), member) for member in files]
    named = frozenset(find_named((path for path, _ in shown), patterns.values()))
    yield from (member for path, member in shown if path in named)


def _read(
    package: Package, tree: Tree, wanted: Sequence[Member], patterns: _Patterns
) -> StatedToolkits:
    claims: list[ToolkitClaim] = []
    unread: list[UnreadStatement] = []
    for index, member in enumerate(wanted):
        text, reason = _read_text(tree, member, package.layout)
        if reason or index >= _MOST:
            reason = reason or f"only the first {_MOST} such files are read"
            unread.append(UnreadStatement(path=member.path, reason=reason))
            continue
        shown = package.layout.shorten(member.path)
        claims += dict.fromkeys(_find_claims(member.path, shown, text, patterns))
    return StatedToolkits(claims=tuple(claims), unread=tuple(unread))


def _read_text(tree: Tree, member: Member, layout: Layout) -> tuple[str, str]:
    """The text of a file, and why it could not be read."""
    if member.size > LONGEST:
        return "", f"it has {member.size} bytes, and no more than {LONGEST} are read"
    entry = find_entry(tree, member, layout)
    if entry is None:
        return "", "it cannot be read"
    try:
        return b"".join(tree.pieces(entry)).decode(errors="replace"), ""
    except BrokenDataError as error:
        return "", str(error)


def _find_claims(path: str, shown: str, text: str, patterns: _Patterns) -> Iterator[ToolkitClaim]:
    for table, known in patterns.items():
        pattern = find_pattern(shown, known)
        for match in pattern.finditer(text) if pattern else ():
            words = " ".join(match[0].split())[:_SHOWN]
            evidence = f"{shown} ({words})"
            if table == _LABELS:
                label = match[1].partition("+")[2]
                yield from claim_by_label(label, evidence, ToolkitSource.FILE, path, words)
                continue
            platform = Platform(table)
            version = read_stated(match[1], platform)
            if version is not None:
                yield ToolkitClaim(
                    platform=platform,
                    version=version,
                    source=ToolkitSource.FILE,
                    evidence=evidence,
                    path=path,
                    detail=words,
                )
