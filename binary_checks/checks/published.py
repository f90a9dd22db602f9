"""Statements of an index or a server about a file, compared with the file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from binary_checks.checks import archive
from binary_checks.checks import metadata as wheel_claims
from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.configurations import (
    find_day,
    judge_age,
)
from binary_checks.knowledge.tags import compare_architectures
from binary_checks.model import (
    Finding,
    Level,
    Note,
    NotInspected,
    Problem,
    Publication,
    PublishedFile,
    PublishedWheel,
    UnreadObject,
    Wheel,
    decode_hash,
)
from binary_checks.safe_text import elide
from binary_checks.wording.problem_lines import of_damage
from binary_checks.wording.sentences import name_first

# Whether a published file is what its name and index promise, as far as the ranges read show.


@check
def broken_published_archive(file: PublishedFile) -> Iterator[Finding]:
    """A published archive's directory contradicts itself, or lists members that no tool unpacks.

    The checks ambiguous-archive, unreadable-member, duplicate-member-name and escaping-member-name
    find such faults in the whole file; this check reports those that the directory shows.

    Why: tools unpack it differently, or refuse to; the upload was cut off or changed on its way.
    Fix: compare the file with the one that was built; upload it again under a new name.
    Level: an installer refuses the archive, or users get another file than the one that was built.
    """
    yield from archive.ambiguous_archive(file.package)
    yield from archive.unreadable_member(file.package)
    yield from archive.duplicate_member_name(file.package)
    yield from archive.escaping_member_name(file.package)
    amount = f"{file.transferred} of {file.package.size} bytes"
    anew = ", and reading began again as the file changed" if file.began_anew else ""
    ranges = "1 range" if file.requests == 1 else f"{file.requests} ranges"
    yield Note(sentence=f"{amount} were read by {ranges}{anew}")


@check
def published_name_disagrees(file: PublishedWheel) -> Iterator[Finding]:
    """A published wheel is not the project or the version that its name says.

    These are the checks name-and-version-disagree and metadata-is-incomplete, before the download.

    Why: the wrong file was uploaded under this name; installers refuse it.
    Fix: look for the step that names or uploads the file; never rename a wheel.
    Level: users cannot install the wheel.
    """
    yield from wheel_claims.name_and_version_disagree(file.package)
    yield from wheel_claims.metadata_is_incomplete(file.package)


@check(level=Level.WARNING)
def published_tags_disagree(file: PublishedWheel) -> Iterator[Finding]:
    """The tags in WHEEL of a published wheel differ from those in its name.

    This is the check tags-disagree, before the download.

    Why: installers select by the file name, and some check WHEEL; one of the two is wrong.
    Fix: let the tool that changes the tags (``auditwheel repair``, ``wheel tags``) rewrite both.
    Level: installers select by the file name alone; only some tools and indexes read WHEEL.
    """
    yield from wheel_claims.tags_disagree(file.package)


@check
def published_for_another_system(file: PublishedFile) -> Iterator[Finding]:
    """The libraries of a published file are for another system or architecture than it says.

    Only the first bytes of each library are read. If some libraries fit, the others are warnings:
    once the file is downloaded, wrong-architecture knows which of them are loaded.

    Why: the wrong file is behind this URL, or a cross build picked up the host's objects.
    Fix: look for the step that names or uploads the file; correct the tag.
    Level: users cannot import the package.
    """
    package = file.package
    found = compare_architectures(package.claims.systems, package.objects)
    if found is None:
        raise NotApplicable("it claims no system in particular")
    if not found.judged and not package.unread and not package.malformed:
        raise NotApplicable("it has no library whose first bytes can be read")
    for platform in found.unknown:
        yield NotInspected(sentence=f"the architecture of {platform} is unknown to this check")
    yield from _sum_up(package.unread)
    level = Level.WARNING if found.fitting else Level.ERROR
    for misfit in found.misfits:
        if misfit.item is not None:
            yield Problem(
                path=misfit.item.path, sentence=misfit.sentence, facts=misfit.facts, level=level
            )
        elif not package.unread:  # an unread library may be for it
            yield Problem(sentence=misfit.sentence, facts=misfit.facts)
    for broken in package.malformed:
        yield Problem(
            path=broken.path,
            sentence=f"is a malformed {broken.format} file, so that its system is not known: "
            f"{broken.reason}",
            level=level,
            cause=of_damage(broken),
            consequence=True,  # malformed-object reports it once the file is downloaded
        )


@check
def published_record_differs(file: PublishedWheel) -> Iterator[Finding]:
    """RECORD of a published wheel and the archive's directory list different files or sizes.

    This is the check record-is-wrong without the hashes, which need the download.

    Why: files were lost, added or replaced after the wheel was built.
    Fix: have the last tool that changes the wheel rewrite RECORD; upload the wheel that it wrote.
    Level: uv refuses files that do not match their row, and an index refuses the upload.
    """
    yield from archive.record_is_wrong(_trust_hashes(file.package))


def _sum_up(unread: Sequence[UnreadObject]) -> Iterator[NotInspected]:
    """Yield one finding for all objects not read for one reason: a conda package has hundreds."""
    for reason in dict.fromkeys(each.reason for each in unread):
        same = [each for each in unread if each.reason == reason]
        more = f", and {len(same) - 1} more" if len(same) > 1 else ""
        sentence = f"{same[0].format} not read{more}: {reason}"
        yield NotInspected(path=same[0].path, sentence=sentence)


def _read_hash(signature: str) -> str:
    """Return a SHA-256 from either of the spellings that occur in RECORD."""
    digits = signature.removeprefix("sha256=")
    return digits if re.fullmatch("[0-9a-f]{64}", digits) else decode_hash(signature)


def _trust_hashes(package: Wheel) -> Wheel:
    """Return the wheel with the hashes of RECORD, as computing them needs the whole file."""
    rows = {row.path.replace("\\", "/"): _read_hash(row.hash) for row in package.record or ()}
    members = (
        member if member.sha256 else replace(member, sha256=rows.get(member.archive_name, ""))
        for member in package.members
    )
    return replace(package, members=tuple(members))


# Statements of an index about a file, compared with the file itself and with expectations.


@check(level=Level.WARNING)
def yanked_file(publication: Publication) -> Iterator[Finding]:
    """The index marks the file as yanked.

    Why: installers ignore it unless its exact version is required, so most users get another
    version, or none.
    Fix: publish a corrected version, or remove the mark.
    Level: the mark is usually intended; users who name the version get the file all the same.
    """
    reason = publication.provenance.yanked
    if reason is not None:
        remark = f": {reason}" if reason else "; no reason is given"
        yield Problem(sentence=f"the index marks it as yanked{remark}")


@check(enabled=False)
def stale_publication(publication: Publication, *, days: int = 3) -> Iterator[Finding]:
    """A published file is older than the profile allows.

    Its date is taken from its version (``.devYYYYMMDD``), else from the upload time that the index
    states, else from the answer's Last-Modified. It may be ``days`` days old.

    Why: the nightly build has been failing for days, and users and tests get the last build that
    succeeded.
    Fix: find out why newer builds are missing; a day in the future is a wrong clock.
    Level: the project itself set the limit.
    """
    stated = publication.provenance
    found = find_day(publication.version, stated.uploaded, stated.modified)
    if found is None:
        reason = "neither its version nor the index nor the server states its date"
        yield NotInspected(sentence=reason)
    elif sentence := judge_age(found[1], datetime.now(timezone.utc).date(), days, found[0]):
        yield Problem(sentence=sentence)


@check
def index_size_differs(file: PublishedFile, publication: Publication) -> Iterator[Finding]:
    """The server sends a file of another size than the index states.

    Why: the file was replaced, cut off or never completely uploaded; its hash cannot be right, and
    installers refuse it.
    Fix: upload the file again under a new name (a build number), and leave the old one alone.
    Level: no user can install it.
    """
    stated = publication.provenance.size
    if stated is None:
        raise NotApplicable("the index states no size")
    if stated != file.package.size:
        yield Problem(
            sentence=f"the index states {stated} bytes, but the file has {file.package.size}"
        )


@check
def index_metadata_differs(file: PublishedWheel, publication: Publication) -> Iterator[Finding]:
    """The METADATA that the index serves differs from the METADATA in the wheel.

    Only the fields that resolvers read count: name, version, requirements, extras and
    Requires-Python.

    Why: installers resolve by the index's METADATA (PEP 658) and then install the wheel: packages
    that it really requires are missing, or the resolution was for nothing.
    Fix: have the index take METADATA out of the wheel again.
    Level: users get an environment in which the package does not work, or pip refuses the wheel.
    """
    if publication.metadata is None:
        raise NotApplicable("the index serves no METADATA for the file")
    served, own = map(_pick_resolved, (publication.metadata, file.package.metadata))
    path = f"{file.package.dist_info}/METADATA"
    if only := served - own:
        yield Problem(
            path=path,
            sentence=f"only the index's METADATA says {_join(only)}",
            facts=("index", min(only)[0]),
        )
    if only := own - served:
        yield Problem(
            path=path,
            sentence=f"only the wheel's METADATA says {_join(only)}",
            facts=("wheel", min(only)[0]),
        )


_RESOLVED = frozenset({"name", "version", "requires-dist", "requires-python", "provides-extra"})


def _pick_resolved(headers: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    """Return the headers that resolvers read, with their white space normalised."""
    found = ((key.lower(), " ".join(value.split())) for key, value in headers)
    return frozenset(header for header in found if header[0] in _RESOLVED)


def _join(headers: frozenset[tuple[str, str]]) -> str:
    return name_first([f"{key.title()}: {value}" for key, value in sorted(headers)])


@check(level=Level.WARNING)
def index_python_differs(file: PublishedWheel, publication: Publication) -> Iterator[Finding]:
    """The Requires-Python that the index states differs from the one in the wheel.

    Why: installers choose among the files by the index's statements: users of some Pythons are
    offered a version that refuses them, or not offered one that would work.
    Fix: have the index read METADATA again; set Requires-Python in the project's configuration.
    Level: installers also read the wheel's own Requires-Python before they install the wheel.
    """
    stated, own = publication.provenance.requires_python, file.package.header("Requires-Python")
    if stated is None and own:
        yield Note(sentence=f"the index states no Requires-Python; the wheel has {elide(own)}")
    elif stated is not None and not _are_same(stated, own):
        found = f"the wheel has {elide(own)}" if own else "the wheel has none"
        yield Problem(sentence=f"the index states Requires-Python {elide(stated)}, {found}")


def _are_same(one: str, other: str) -> bool:
    try:
        return SpecifierSet(one) == SpecifierSet(other)
    except InvalidSpecifier:
        return one == other
