"""The CUDA or ROCm for which a package was built, as the package's generated files state it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

from packaging.utils import canonicalize_name

from binary_checks.declaring import gathers
from binary_checks.errors import BinaryChecksError, ProfileError, Unavailable
from binary_checks.gather.member_contents import LARGEST, MemberContents
from binary_checks.knowledge.configurations import configure
from binary_checks.knowledge.linked_libraries import find_linked
from binary_checks.knowledge.toolkit_claims import claim_by_label, claim_by_package, read_stated
from binary_checks.model import (
    BinaryConfiguration,
    BuildsRequest,
    ContentRequest,
    JudgedProjects,
    Linkage,
    LinkedLibraries,
    Package,
    Platform,
    StatedConfiguration,
    StatedToolkits,
    TargetSystem,
    ToolkitClaim,
    ToolkitSource,
    TreeEntry,
)

# Files of a package selected by globs and searched with patterns.


def compile_patterns(
    patterns: Mapping[str, str], where: str, what: str
) -> dict[str, re.Pattern[str]]:
    """Compile the regular expressions of a table. Raises ProfileError for an invalid one."""
    found = {}
    for glob, pattern in patterns.items():
        place = f"{where}.{glob}"
        try:
            found[glob] = re.compile(pattern)
        except re.error as error:
            raise ProfileError(f"{place}: not a regular expression: {error}") from None
        if found[glob].groups != 1:
            raise ProfileError(f"{place}: it needs one group, around the {what}")
    return found


def find_pattern(name: str, patterns: Mapping[str, re.Pattern[str]]) -> re.Pattern[str] | None:
    """Return the pattern for a file, or None; the ``*`` of a glob does not match a slash."""
    return next((known for glob, known in patterns.items() if _matches(name, glob)), None)


def _matches(name: str, glob: str) -> bool:
    parts, globs = name.split("/"), glob.split("/")
    # the last component shows for most files that they do not match
    return len(parts) == len(globs) and all(map(fnmatchcase, reversed(parts), reversed(globs)))


# Build files: files that state the toolkits of the build.

_SHOWN = 60  # characters of the text that states a toolkit
_LABELS = "labels"
_Patterns: TypeAlias = Mapping[str, Mapping[str, re.Pattern[str]]]


def _may_state(entry: TreeEntry) -> bool:
    return entry.name.endswith(_USUAL)


_REQUEST = BuildsRequest()
_USUAL = tuple(
    re.split(r"[*?]|\[[^]]*\]", glob)[-1]
    for glob in (*_REQUEST.cuda, *_REQUEST.rocm, *_REQUEST.labels)
)
STATING = ContentRequest(chooses=_may_state, longest=LARGEST)
"""The files that state the toolkit in most packages; a profile may name others."""


@gathers(StatedToolkits, wants=(STATING,))
def find_stated_toolkits(
    package: Package, contents: MemberContents, target: TargetSystem, request: BuildsRequest
) -> StatedToolkits:
    """Find the CUDA or ROCm versions stated by the label, name, requirements and build files.

    Raises ProfileError for an invalid pattern.
    """
    patterns = {
        table: compile_patterns(globs, f"probes.builds.{table}", "version")
        for table, globs in (
            (Platform.CUDA.value, request.cuda),
            (Platform.ROCM.value, request.rocm),
            (_LABELS, request.labels),
        )
    }
    shown = {
        member: package.layout.shorten(member.path)
        for member in package.members
        if not (member.is_directory or member.target)
    }
    tables = patterns.values()
    wanted = [each for each in shown if any(find_pattern(shown[each], table) for table in tables)]
    claims = [*claim_by_package(package, target)]
    unread: list[tuple[str, str]] = []
    try:
        texts = dict(contents.each(wanted))
    except (BinaryChecksError, OSError) as error:
        gap = (wanted[0].path, str(error))
        return StatedToolkits(claims=tuple(claims), unread=(gap,))
    for member in wanted:
        content = texts[member]
        if isinstance(content, Unavailable):
            unread.append((member.path, str(content)))
        else:
            text = content.decode(errors="replace")
            claims += dict.fromkeys(_find_claims(member.path, shown[member], text, patterns))
    return StatedToolkits(claims=tuple(claims), unread=tuple(unread))


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


# The configuration of the build, and the libraries that it is linked with.


@gathers(JudgedProjects)
def list_judged_projects(stated: StatedConfiguration) -> JudgedProjects:
    """Return the projects whose names the file names of the run's packages begin with."""
    names = (canonicalize_name(name.partition("-")[0]) for name in stated.file_names)
    return JudgedProjects(names=frozenset(names))


@gathers(BinaryConfiguration)
def find_configuration(package: Package, stated: StatedConfiguration) -> BinaryConfiguration:
    """Find the configuration of the package's build, from all facts that state it."""
    return configure(package, stated)


@gathers(LinkedLibraries)
def find_linked_libraries(package: Package, linkage: Linkage | None) -> LinkedLibraries:
    """Find how the package is linked with known libraries; a linkage shows where they come from."""
    return find_linked(package, linkage)
