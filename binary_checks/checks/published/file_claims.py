"""What ranges of a published file show: whether it is the file that its name and index promise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from binary_checks.checks import archive
from binary_checks.checks.metadata import wheel_claims
from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.claimed_systems import compare_architectures
from binary_checks.model import Finding, Level, Note, NotInspected, Problem, UnreadObject, Wheel
from binary_checks.model.packages import decode_hash
from binary_checks.model.published import PublishedFile, PublishedWheel


@check
def broken_published_archive(file: PublishedFile) -> Iterator[Finding]:
    """The directory of a published archive contradicts itself, or lists what no tool unpacks.

    What ambiguous-archive, unreadable-member, duplicate-member-name and escaping-member-name say of
    the whole file later is said here of what its directory shows.

    Why: tools unpack it differently, or refuse to; the upload was cut off or changed on its way.
    Fix: compare the file with the one that was built; upload it again under a new name.
    Level: an installer refuses the archive, or users get another file than the one that was built.
    """
    yield from archive.ambiguous_archive(file.package)
    yield from archive.unreadable_member(file.package)
    yield from archive.duplicate_member_name(file.package)
    yield from archive.escaping_member_name(file.package)
    amount = f"{file.transferred} of {file.package.size} bytes"
    anew = ", begun anew once as it changed" if file.began_anew else ""
    ranges = "1 range" if file.requests == 1 else f"{file.requests} ranges"
    yield Note(sentence=f"{amount} were read by {ranges}{anew}")


@check
def published_name_disagrees(file: PublishedWheel) -> Iterator[Finding]:
    """A published wheel is not the project or the version that its name says.

    The same as name-and-version-disagree and metadata-is-incomplete, before the download.

    Why: the wrong file was uploaded under this name; installers refuse it.
    Fix: look for the step that names or uploads the file; never rename a wheel.
    Level: users cannot install the wheel.
    """
    yield from wheel_claims.name_and_version_disagree(file.package)
    yield from wheel_claims.metadata_is_incomplete(file.package)


@check(level=Level.WARNING)
def published_tags_disagree(file: PublishedWheel) -> Iterator[Finding]:
    """The tags in WHEEL of a published wheel differ from those in its name.

    The same as tags-disagree, before the download.

    Why: installers select by the file name, and some check WHEEL; one of the two is wrong.
    Fix: let the tool that changes the tags (``auditwheel repair``, ``wheel tags``) rewrite both.
    Level: installers select by the file name alone; only some tools and indexes read WHEEL.
    """
    yield from wheel_claims.tags_disagree(file.package)


@check
def published_for_another_system(file: PublishedFile) -> Iterator[Finding]:
    """The libraries of a published file are for another system or architecture than it says.

    The first bytes of each library tell. Where some of them fit, the others are only warned of:
    wrong-architecture knows which of them are loaded, once the file is downloaded.

    Why: the wrong file stands behind this URL, or a cross build picked up the host's objects.
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
            yield Problem(path=misfit.item.path, sentence=misfit.sentence, level=level)
        elif not package.unread:  # one of which may be for it
            yield Problem(sentence=misfit.sentence)
    for broken in package.malformed:
        yield Problem(path=broken.path, sentence=broken.reason, level=level)


@check
def published_record_differs(file: PublishedWheel) -> Iterator[Finding]:
    """RECORD of a published wheel and its directory list different files or sizes.

    The same as record-is-wrong, but for the hashes: what the files contain only the download shows.

    Why: files were lost, added or replaced after the wheel was built.
    Fix: have the last tool that changes the wheel write RECORD anew; upload what it wrote.
    Level: uv refuses files that do not match their row, and an index refuses the upload.
    """
    yield from archive.record_is_wrong(_trust_hashes(file.package))


def _sum_up(unread: Sequence[UnreadObject]) -> Iterator[NotInspected]:
    """One line for all that were not read for one reason: a conda package has hundreds."""
    for reason in dict.fromkeys(each.reason for each in unread):
        same = [each for each in unread if each.reason == reason]
        more = f", and {len(same) - 1} more" if len(same) > 1 else ""
        sentence = f"{same[0].format} not read{more}: {reason}"
        yield NotInspected(path=same[0].path, sentence=sentence)


def _read_hash(signature: str) -> str:
    """A SHA-256 in either of the spellings that RECORD is seen to have."""
    digits = signature.removeprefix("sha256=")
    return digits if re.fullmatch("[0-9a-f]{64}", digits) else decode_hash(signature)


def _trust_hashes(package: Wheel) -> Wheel:
    """The wheel with the hashes of RECORD in place of those that only reading all of it gives."""
    rows = {row.path.replace("\\", "/"): _read_hash(row.hash) for row in package.record or ()}
    members = (
        member if member.sha256 else replace(member, sha256=rows.get(member.archive_name, ""))
        for member in package.members
    )
    return replace(package, members=tuple(members))
