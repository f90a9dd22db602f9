"""What an index says of a file: held against the file itself, and against what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from fnmatch import fnmatchcase

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.stated_versions import (
    find_day,
    judge_age,
    same_version,
)
from binary_checks.model import Finding, Level, Note, NotInspected, Problem
from binary_checks.model.published import Publication, PublishedFile, PublishedWheel

_FEW = 3  # headers in one sentence
_LONGEST = 60  # characters of a header that are shown


@check(level=Level.WARNING)
def yanked_file(publication: Publication) -> Iterator[Finding]:
    """The index marks the file as yanked.

    Why: installers pass over it unless its exact version is required, so most users get another
    version, or none.
    Fix: publish a corrected version, or take the mark back.
    Level: the mark is usually meant; who named the version gets the file all the same.
    """
    reason = publication.provenance.yanked
    if reason is not None:
        said = f": {reason}" if reason else "; no reason is given"
        yield Problem(sentence=f"the index marks it as yanked{said}")


@check(enabled=False)
def stale_publication(publication: Publication, *, days: int = 3) -> Iterator[Finding]:
    """A published file is older than the profile allows.

    Its day is that in its version (``.devYYYYMMDD``), else that of its upload as the index states
    it, else that of the answer's Last-Modified. It may be ``days`` days old.

    Why: the nightly build has been failing for days, and users and tests get the last one that did
    not.
    Fix: find out why newer builds are missing; a day in the future is a wrong clock.
    Level: the project itself set the limit.
    """
    stated = publication.provenance
    found = find_day(publication.version, stated.uploaded, stated.modified)
    if found is None:
        reason = "neither its version nor the index nor the server says of which day it is"
        yield NotInspected(sentence=reason)
    elif sentence := judge_age(found[1], datetime.now(timezone.utc).date(), days, found[0]):
        yield Problem(sentence=sentence)


@check(enabled=False)
def unexpected_publication(publication: Publication, *, expected: str = "") -> Iterator[Finding]:
    """The version that is published is not the one that the profile expects.

    The option ``expected`` names it; a local label counts, as in ``2.15.0+cpu``.

    Why: the upload of a new version failed, or an index serves another project's file.
    Fix: look for the job that uploads, and for the channel that it uploads to.
    Level: users get another version than the one that was released.
    """
    if not expected:
        yield NotInspected(sentence="no version to compare with: the option expected is not set")
    elif not publication.version:
        yield NotInspected(sentence=f"{publication.file_name} has no version that is known here")
    elif not same_version(expected, publication.version):
        yield Problem(sentence=f"its version is {publication.version}, not {expected} as expected")


@check(enabled=False)
def published_file_too_large(
    file: PublishedFile, *, limit: int = 0, limits: Mapping[str, int] = {}
) -> Iterator[Finding]:
    """A published file is larger than the profile allows.

    The option ``limit`` is in bytes. ``limits`` sets other limits by globs on the file name; the
    first that matches decides.

    Why: users cancel the download, or their build times out.
    Fix: strip debug information, drop duplicate libraries, split off optional parts.
    Level: the project itself set the limit.
    """
    name, size = file.package.file_name, file.package.size
    allowed = next((most for glob, most in limits.items() if fnmatchcase(name, glob)), limit)
    if not allowed:
        yield NotInspected(sentence="no limit is set: the option limit is 0")
    elif size > allowed:
        yield Problem(sentence=f"is {size} bytes, but the limit is {allowed}")


@check
def index_size_differs(file: PublishedFile, publication: Publication) -> Iterator[Finding]:
    """The server sends a file of another size than the index states.

    Why: the file was replaced, cut off or never uploaded as a whole; its hash cannot be right, and
    installers refuse it.
    Fix: upload the file again under a new name (a build number), and leave the old one alone.
    Level: no user can install it.
    """
    stated = publication.provenance.size
    if stated is None:
        raise NotApplicable("the index states no size")
    if stated != file.package.size:
        yield Problem(sentence=f"the index states {stated} bytes, the file has {file.package.size}")


@check
def index_metadata_differs(file: PublishedWheel, publication: Publication) -> Iterator[Finding]:
    """The METADATA that the index serves is not that of the wheel.

    Only what resolvers read counts: name, version, requirements, extras and Requires-Python.

    Why: installers resolve by the index's METADATA (PEP 658) and then install the wheel: what it
    really requires is missing, or the resolution was for nothing.
    Fix: have the index take METADATA out of the wheel again.
    Level: users get an environment in which the package does not work, or pip refuses the wheel.
    """
    if publication.metadata is None:
        raise NotApplicable("the index serves no METADATA beside the file")
    served, own = map(_pick_resolved, (publication.metadata, file.package.metadata))
    path = f"{file.package.dist_info}/METADATA"
    if only := served - own:
        yield Problem(path=path, sentence=f"only the index's METADATA says {_join(only)}")
    if only := own - served:
        yield Problem(path=path, sentence=f"only the wheel's METADATA says {_join(only)}")


_RESOLVED = frozenset({"name", "version", "requires-dist", "requires-python", "provides-extra"})


def _pick_resolved(headers: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    """The headers that resolvers read, however they are spaced."""
    found = ((key.lower(), " ".join(value.split())) for key, value in headers)
    return frozenset(header for header in found if header[0] in _RESOLVED)


def _join(headers: frozenset[tuple[str, str]]) -> str:
    few = [f"{key.title()}: {value[:_LONGEST]}" for key, value in sorted(headers)[:_FEW]]
    more = f" and {len(headers) - _FEW} more" if len(headers) > _FEW else ""
    return ", ".join(few) + more


@check(level=Level.WARNING)
def index_python_differs(file: PublishedWheel, publication: Publication) -> Iterator[Finding]:
    """The Requires-Python that the index states is not that of the wheel.

    Why: installers choose among the files by what the index states: users of some Pythons are
    given a version that refuses them, or kept from one that would work.
    Fix: have the index read METADATA again; set Requires-Python in the project's configuration.
    Level: installers read the wheel's own, too, before they install it.
    """
    stated, own = publication.provenance.requires_python, file.package.header("Requires-Python")
    if stated is None and own:
        yield Note(sentence=f"the index states no Requires-Python; the wheel has {own[:_LONGEST]}")
    elif stated is not None and not _are_same(stated, own):
        found = f"the wheel has {own[:_LONGEST]}" if own else "the wheel has none"
        yield Problem(sentence=f"the index states Requires-Python {stated[:_LONGEST]}, {found}")


def _are_same(one: str, other: str) -> bool:
    try:
        return SpecifierSet(one) == SpecifierSet(other)
    except InvalidSpecifier:
        return one == other
