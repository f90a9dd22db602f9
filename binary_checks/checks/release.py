"""Whether a release is complete and its packages are consistent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from fnmatch import fnmatchcase
from itertools import groupby

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import Finding, Level, NotInspected, Problem, Release, ReleasePart
from binary_checks.wording.sentences import name_first

_SHORT = 12  # characters of a commit that are shown


@check
def file_missing_from_release(release: Release) -> Iterator[Finding]:
    """A file that the release must have is missing.

    ``--binary-expect-set FILE`` lists globs on file names. Each must match one of the packages
    named on the command line, or a file that their index lists for the same project and version.

    Why: a job of the build matrix failed or was skipped, and users of that platform get an older
    version, or nothing.
    Fix: run the job again; take the line out of the list if the platform was dropped.
    Level: the project itself expects the file.
    """
    globs = _require_expected(release)
    names = _list_names(release)
    where = "among the packages named" if release.listed is None else "named or in the index"
    for glob in globs:
        if any(fnmatchcase(name, glob) for name in names):
            continue
        sentence = f"no file {where} matches {glob} of {release.expected_by}"
        if release.unlisted:
            yield NotInspected(sentence=f"{sentence}; the index did not answer: {release.unlisted}")
        else:
            yield Problem(sentence=sentence, facts=(glob,))


@check(level=Level.WARNING)
def file_unexpected_in_release(release: Release) -> Iterator[Finding]:
    """A file of the release matches no line of the expected set.

    ``--binary-expect-set FILE`` lists globs on file names; a file that none of them matches is
    superfluous, or the list is out of date.

    Why: a platform that was dropped, or a file with a wrong name, reaches users untested.
    Fix: add a line to the list, or keep the file from being uploaded.
    Level: one more file breaks nobody by itself.
    """
    globs = _require_expected(release)
    for name in _list_names(release):
        if not any(fnmatchcase(name, glob) for glob in globs):
            yield Problem(path=name, sentence=f"no line of {release.expected_by} matches it")


def _require_expected(release: Release) -> tuple[str, ...]:
    if release.expected is None:
        raise NotApplicable("no set is expected (--binary-expect-set)")
    return release.expected


def _list_names(release: Release) -> list[str]:
    return sorted({*(part.file_name for part in release.parts), *(release.listed or ())})


@check(level=Level.WARNING)
def requirements_differ_in_release(
    release: Release, *, allowed: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """Wheels of one version require different packages.

    Builds with different local labels, such as ``+cpu`` and ``+cu126``, are different versions. The
    option ``allowed`` lists globs on the names of requirements that may differ.

    Why: resolvers that lock for all platforms (uv, Poetry, PDM) read the metadata of one wheel and
    assume that all wheels have the same: users of the other wheels miss a requirement, or get too
    many.
    Fix: write the same requirements into all wheels, with environment markers where they differ.
    Level: pip reads the wheel that it installs; only locked environments are affected.
    """
    yield from _report_gaps(release, "what it requires is not known")
    for one, other in _list_pairs(release):
        own, others = (_normalise(part.requires, allowed) for part in (one, other))
        yield from _compare(one, other, own, others, ("requires", "does not require"))


@check(level=Level.WARNING)
def python_differs_in_release(release: Release) -> Iterator[Finding]:
    """Wheels of one version have different Requires-Python.

    Why: an index may show the Requires-Python of one wheel for the whole release, and resolvers
    that lock for all platforms assume that it is that of all: users of another wheel are offered a
    release that does not run there, or are not offered one that does.
    Fix: write the same Requires-Python into all wheels; their tags say for which Python each is.
    Level: pip reads the wheel that it installs; only locked environments are affected.
    """
    yield from _report_gaps(release, "the Python that it requires is not known")
    for one, other in _list_pairs(release):
        own, others = (_normalise_python(each.requires_python) for each in (one, other))
        if own != others:
            yield Problem(
                path=other.file_name,
                sentence=f"requires Python {others or 'of any version'}, unlike {one.file_name}: "
                f"{own or 'any version'}",
            )


def _normalise_python(text: str) -> str:
    """Return a specifier with its parts in one order and spelling."""
    return ",".join(sorted("".join(part.split()) for part in text.split(",") if part.strip()))


@check(level=Level.WARNING)
def classifiers_differ_in_release(release: Release) -> Iterator[Finding]:
    """Wheels of one version have different classifiers.

    Why: PyPI shows the classifiers of the first uploaded wheel for the whole release; different
    ones show that the wheels were built from different states of the project.
    Fix: build all wheels from the same pyproject.toml.
    Level: classifiers are information for people; no installer reads them.
    """
    yield from _report_gaps(release, "its classifiers are not known")
    for one, other in _list_pairs(release):
        own, others = set(one.classifiers), set(other.classifiers)
        yield from _compare(one, other, own, others, ("has the classifier", "lacks"))


def _list_pairs(release: Release) -> Iterator[tuple[ReleasePart, ReleasePart]]:
    """Yield the first wheel of each version with each of the others.

    Raises NotApplicable if there is nothing to compare.
    """
    groups = _group(part for part in release.parts if part.has_metadata)
    if not groups and not any(part.gap for part in release.parts):
        raise NotApplicable("no two wheels of one version")
    for first, *others in groups:
        yield from ((first, each) for each in others)


def _report_gaps(release: Release, what: str) -> Iterator[NotInspected]:
    for part in release.parts:
        if part.gap:
            yield NotInspected(path=part.file_name, sentence=f"{what}: {part.gap}")


def _group(parts: Iterable[ReleasePart]) -> list[list[ReleasePart]]:
    """Return the groups of parts with the same project and version, each by file name.

    A part that is alone in its version cannot be compared and is left out.
    """

    def title(part: ReleasePart) -> tuple[str, str]:
        return part.name, part.version

    groups = (list(group) for _, group in groupby(sorted(parts, key=title), title))
    return [sorted(group, key=lambda part: part.file_name) for group in groups if len(group) > 1]


def _compare(
    one: ReleasePart,
    other: ReleasePart,
    own: Set[str],
    others: Set[str],
    verbs: tuple[str, str],
) -> Iterator[Problem]:
    """Compare what two wheels state; the verbs are for what one has more and has fewer."""
    differences = zip(verbs, (others - own, own - others), strict=True)
    changes = [f"{verb} {name_first(sorted(texts))}" for verb, texts in differences if texts]
    if changes:
        sentence = f"{' and '.join(changes)}, unlike {one.file_name}"
        yield Problem(path=other.file_name, sentence=sentence)


def _normalise(requires: Iterable[str], allowed: tuple[str, ...]) -> frozenset[str]:
    """Return the requirements in one spelling, without requirements that may differ."""
    found = set()
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # invalid-requirement reports it
            found.add(" ".join(text.split()))
            continue
        name = canonicalize_name(requirement.name)
        if not any(fnmatchcase(name, glob) for glob in allowed):
            requirement.name = name
            found.add(str(requirement))
    return frozenset(found)


@check
def commits_differ_in_release(release: Release) -> Iterator[Finding]:
    """Packages of one version were built from different commits.

    A package records its commit in a file: ``git_version`` in ``torch/version.py``, or the text of
    ``build-hash``. The table ``[probes.release]`` of a profile names other files, and how to find
    the commit in each. Files with the same path are compared between packages whose versions differ
    at most in the local label. A package without a recorded commit is not judged.

    Why: jobs of one night that check the branch out one after the other build different code under
    one version; a bug of one platform cannot be reproduced on another.
    Fix: choose the commit once and hand it to every job.
    Level: users of two platforms get different code under one version.
    """
    yield from _report_gaps(release, "its commit is not known")
    stated: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for part in release.parts:
        for path, commit in part.commits:
            key = (part.name, part.version.partition("+")[0], path)
            stated.setdefault(key, []).append((part.file_name, commit))
    if not stated and not any(part.gap for part in release.parts):
        raise NotApplicable("no package says which commit it was built from")
    for (_, _, path), commits in stated.items():
        first_name, first = commits[0]
        for name, commit in commits[1:]:
            if not _are_same(first, commit):
                built = f"{path} says commit {commit[:_SHORT]}"
                yield Problem(
                    path=name,
                    sentence=f"{built}, but the same file of {first_name} says {first[:_SHORT]}",
                    facts=(path,),
                )


def _are_same(one: str, other: str) -> bool:
    """Whether two commits are the same; either may be abbreviated to its first digits."""
    one, other = one.lower(), other.lower()
    return one.startswith(other) or other.startswith(one)
