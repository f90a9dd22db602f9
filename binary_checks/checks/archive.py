"""The archive and its RECORD: members that tools unpack differently, or cannot unpack."""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

from binary_checks.declaring import check
from binary_checks.model import (
    Finding,
    Level,
    Member,
    NotInspected,
    Package,
    Problem,
    RecordRow,
    Wheel,
    WheelLike,
    directories,
    format_of_name,
)
from binary_checks.wording.problem_lines import of_missing_file

_UNSIGNED = ("RECORD", "RECORD.jws", "RECORD.p7s")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_HEXADECIMAL = len("sha256=") + 64
"""The length of a SHA-256 in hexadecimal instead of the required base64, with its prefix."""
_SCHEMES = frozenset({"purelib", "platlib", "headers", "scripts", "data"})
_LONGEST_NAME = 255  # bytes on Linux (NAME_MAX); UTF-16 units on Windows and Apple's systems
_IN_UTF_16 = ("win", "macosx_", "ios_")  # platforms that count such units
_LONGEST_PATH = 4095  # bytes on Linux (PATH_MAX without its NUL); on macOS 1,023
_NO_NAMES = frozenset({"", ".", ".."})  # components of a path that are not names


@check
def ambiguous_archive(package: Package) -> Iterator[Finding]:
    """Different tools can read the file as different archives.

    The check reports a second end-of-central-directory record, in a comment or behind the archive;
    bytes before the first member or after that record; and a ZIP64 end record that its locator does
    not find, or that contradicts the ordinary record.

    Why: each tool searches for the end record in its own way, so users may install other files than
    were judged and signed, and some installers refuse the archive.
    Fix: write the archive again with a sound tool, without a comment; look for what was appended to
    the file, or put in front of it.
    Level: which files users install depends on their installer, or it refuses the package.
    """
    for ambiguity in package.ambiguities:
        yield Problem(sentence=ambiguity)


@check
def unreadable_member(package: Package) -> Iterator[Finding]:
    """The archive contradicts itself about a member, or the member cannot be extracted.

    The check reports a wrong CRC-32, a local header that disagrees with the central directory,
    encryption, data that does not inflate to the declared size, text that cannot be decoded, and an
    object file that is named like source code.

    Why: tools unpack it differently, or refuse to; a package index rejects it.
    Fix: write the archive again with a sound tool; look for a broken upload or download.
    Level: an index or an installer refuses the archive, or users get another file than the one that
    was built. If the package is a folder on disk, a link that leads out of it is not a fault; it is
    not inspected.
    """
    for fault in package.archive_faults:
        yield Problem(sentence=fault)
    for member in package.members:
        leads_out = package.claims.partial and member.target.startswith("/")
        say = NotInspected if leads_out else Problem
        for fault in member.faults:
            yield say(path=member.archive_name, sentence=fault)


@check
def duplicate_member_name(package: Package) -> Iterator[Finding]:
    """The archive has several members of the same name, or two that install to the same path.

    Why: the tool decides which one is installed; the file that runs may not be the one reviewed.
    Fix: look for the build step that adds a file twice.
    Level: which of the files users run depends on their installer. Two members that install the
    same content to one path are a warning (an ``__init__.py`` in purelib and platlib).
    """
    for name, count in _repeated([member.archive_name for member in package.members]):
        yield Problem(path=name, sentence=f"{count} members have this name")
    first: dict[str, Member] = {}
    for member in package.members:
        path = _drop_empty(member.path)
        other = first.setdefault(path, member)
        if other.archive_name != member.archive_name:
            same = bool(member.sha256) and member.sha256 == other.sha256
            yield Problem(
                path=member.archive_name,
                sentence=f"installs to {package.layout.shorten(path)}, as {other.archive_name} does"
                + (", with the same content" if same else ""),
                facts=(other.archive_name,),
                level=Level.WARNING if same else Level.ERROR,
            )


def _repeated(names: list[str]) -> Iterator[tuple[str, int]]:
    """Yield each name that occurs more than once, and how often."""
    if len(set(names)) < len(names):
        yield from ((name, count) for name, count in Counter(names).items() if count > 1)


@check
def escaping_member_name(package: Package) -> Iterator[Finding]:
    """A member's name leads out of the folder that the archive is unpacked into.

    Why: unpacking it may overwrite any of the user's files; installers refuse such a package.
    Fix: build the archive from relative paths with forward slashes.
    Level: installers refuse the package, or write outside of the environment. An empty or ``.``
    component is a warning: pip and uv drop it.
    """
    for member in package.members:
        name = member.archive_name
        parts = name.removesuffix("/").split("/")
        if "\\" in name or ":" in name or not _NO_NAMES.isdisjoint(parts):
            yield from _judge_name(name, parts)


def _judge_name(name: str, parts: list[str]) -> Iterator[Problem]:
    if name.startswith("/"):
        yield Problem(path=name, sentence="its name is absolute")
    elif "\\" in name:
        yield Problem(path=name, sentence="its name contains a backslash")
    elif name[1:2] == ":" and name[0].isascii() and name[0].isalpha():
        yield Problem(path=name, sentence="its name begins with a drive letter")
    elif ".." in parts:
        yield Problem(path=name, sentence="its name contains ..")
    elif name[-1:] not in {"", "/"} and {"", "."}.issuperset(parts):
        sentence = "its name stands for the folder that the archive is unpacked into"
        yield Problem(path=name, sentence=sentence)
    elif "." in parts or "" in parts:
        sentence = "its name has an empty or . component"
        yield Problem(path=name, sentence=sentence, level=Level.WARNING)


@check
def uninstallable_member(package: Wheel) -> Iterator[Finding]:
    """A member has a path that no installer can install.

    The check reports a file where other members need a folder; a file or folder in ``*.data``
    outside of ``purelib``, ``platlib``, ``headers``, ``scripts`` and ``data``; a folder in
    ``scripts``; and a name longer than file systems allow.

    Why: pip and uv abort, and leave nothing or half of the package behind. uv aborts at a folder in
    ``scripts``; pip copies its files to where no shell looks for commands.
    Fix: look for the build step that adds the file.
    Level: users cannot install the package.
    """
    names = {_drop_empty(member.archive_name) for member in package.members}
    # With the lowest character in place of a slash, members below a name are sorted right behind
    # it.
    ordered = sorted(name.replace("/", "\0") for name in names)
    for name, following in pairwise(ordered):
        if following.startswith(f"{name}\0") and not name.endswith("\0"):
            path = name.replace("\0", "/")
            yield Problem(path=path, sentence="is a file, and other members are below it")
    data = package.dist_info.removesuffix(".dist-info") + ".data"
    wide = all(platform.startswith(_IN_UTF_16) for platform in package.platforms)
    coding, width, unit = ("utf-16-le", 2, "UTF-16 units") if wide else ("utf-8", 1, "bytes")
    for name in sorted(names):
        sizes = [len(part.encode(coding, "surrogatepass")) // width for part in name.split("/")]
        if (longest := max(sizes)) > _LONGEST_NAME:
            sentence = f"has a name of {longest:,} {unit}; file systems allow {_LONGEST_NAME}"
            yield Problem(path=name, sentence=sentence, facts=(str(_LONGEST_NAME),))
        elif (size := len(name.encode("utf-8", "surrogatepass"))) > _LONGEST_PATH:
            sentence = f"has a path of {size:,} bytes; no system allows over {_LONGEST_PATH:,}"
            yield Problem(path=name, sentence=sentence, facts=(str(_LONGEST_PATH),))
        if name.startswith(f"{data}/") and name != f"{data}/":
            part, slash, below = name.removeprefix(f"{data}/").partition("/")
            if part == "scripts" and "/" in below.rstrip("/"):
                sentence = f"is in a folder of {data}/scripts: uv refuses to install the wheel"
                yield Problem(path=name, sentence=sentence, facts=(".data",))
            elif not slash or part not in _SCHEMES:
                yield Problem(
                    path=name,
                    sentence=f"is in a part of {data} that no installer knows",
                    facts=(".data",),
                )


def _drop_empty(name: str) -> str:
    """Return the path without components that pip and uv drop: empty ones and ``.``."""
    if "//" not in name and "./" not in name:
        return name
    parts = [part for part in name.removesuffix("/").split("/") if part not in {"", "."}]
    return "/".join([*parts, ""] if name.endswith("/") else parts)


@check
def symlink_in_wheel(package: Wheel) -> Iterator[Finding]:
    """A wheel contains a symbolic link.

    Why: the wheel format has none; pip writes a text file with the link's target instead.
    Fix: pack the file itself, under the one name that is needed.
    Level: users get a text file in place of the file that was meant.
    """
    for member in package.members:
        if member.is_symlink:
            yield Problem(path=member.archive_name, sentence="is a symbolic link")


@check
def record_is_wrong(package: WheelLike) -> Iterator[Finding]:
    """RECORD is missing, or does not agree with the files in the archive.

    Why: verification, uninstallation and package indexes rely on it; a file that does not match
    its hash looks like tampering.
    Fix: change a wheel's files with a tool that rewrites RECORD (``wheel pack``).
    Level: a file was lost, added or changed after the build, and an index refuses the upload. Rows
    that are only spelled in an unusual way are warnings, and so is a file of .dist-info that does
    not match its row, or a library that does not and reads as a sound one (patchelf and strip
    change it): pip and uv install them.
    """
    path = f"{package.dist_info}/RECORD"
    if package.record is None:
        yield Problem(path=path, sentence="there is no RECORD")
        return
    for fault in package.record_faults:
        yield Problem(path=path, sentence=fault)
    record, mended = _mend_separators(package)
    # one problem for all: maturin on Windows once wrote every row so, and pip and uv read them
    # correctly
    if mended:
        paths = "1 path has" if mended == 1 else f"{mended} paths have"
        sentence = f"{paths} backslashes, installers expect slashes"
        yield Problem(path=path, sentence=sentence, facts=("path",), level=Level.WARNING)
    for name, count in _repeated([row.path for row in record]):
        sentence = f"RECORD lists it {count} times"
        yield Problem(path=name, sentence=sentence, facts=("path",), level=Level.WARNING)
    yield from _judge_rows(package, record)
    members = {member.archive_name: member for member in package.members}
    longer = [row for row in record if len(row.hash) == _HEXADECIMAL]
    spelled = [row for row in longer if _is_hexadecimal(row, members.get(row.path))]
    if spelled:  # one problem for all: in gmsh 424 rows have the same mistake
        hashes = "1 hash is" if len(spelled) == 1 else f"{len(spelled)} hashes are"
        sentence = f"{hashes} hexadecimal, installers expect URL-safe base64 without padding"
        yield Problem(path=path, sentence=sentence, facts=("hash",), level=Level.WARNING)


def _mend_separators(package: WheelLike) -> tuple[tuple[RecordRow, ...], int]:
    """Return the rows with slashes instead of backslashes, and how many were changed."""
    rows = package.record or ()
    odd = [row for row in rows if "\\" in row.path]
    if not odd:
        return rows, 0
    names = {member.archive_name for member in package.members}
    mended = {row: replace(row, path=row.path.replace("\\", "/")) for row in odd}
    mended = {row: other for row, other in mended.items() if other.path in names}
    return tuple(mended.get(row, row) for row in rows), len(mended)


def _judge_rows(package: WheelLike, record: tuple[RecordRow, ...]) -> Iterator[Finding]:
    # Installers and indices tolerate rows and members that stand for directories.
    members = {m.archive_name: m for m in package.members if m.archive_name[-1:] != "/"}
    rows = {row.path: row for row in record if row.path[-1:] != "/"}
    unsigned = {f"{package.dist_info}/{name}" for name in _UNSIGNED}
    missing = sorted(rows.keys() - members.keys())
    known, place = cache(partial(directories, package)), package.layout.place
    sound = {item.path for item in package.objects}
    for name in missing:
        is_library = format_of_name(name) is not None
        cause = of_missing_file(place(name), known, package.layout) if is_library else ""
        sentence = "RECORD lists it, but the archive lacks it"
        yield Problem(path=name, sentence=sentence, cause=cause, consequence=is_library)
    for name in sorted(members.keys() - rows.keys() - unsigned):
        yield Problem(path=name, sentence="the archive has it, but RECORD does not list it")
    signed = dict(zip(members, _encode_all([m.sha256 for m in members.values()]), strict=True))
    for name, row in rows.items():
        member = members.get(name)
        if member is None:
            continue
        if name not in unsigned:
            matches = member.sha256 and row.hash == f"sha256={signed[name]}"
            if not matches or row.size != member.size:
                mild = name.startswith(f"{package.dist_info}/") or place(name) in sound
                level = Level.WARNING if mild else Level.ERROR
                yield from _judge_row(row, member, signed[name], level)
        elif row.hash:
            sentence = "RECORD has a hash of this file, which is written after RECORD"
            yield Problem(path=name, sentence=sentence, facts=("hash",), level=Level.WARNING)


def _judge_row(
    row: RecordRow, member: Member, actual: str, level: Level = Level.ERROR
) -> Iterator[Finding]:
    """Compare one row with its member; ``level`` is the level of a difference in contents."""
    algorithm, _, stated = row.hash.partition("=")
    if not row.hash:
        sentence = "RECORD has no hash for it"
        yield Problem(path=row.path, sentence=sentence, facts=("hash",), level=Level.WARNING)
    elif algorithm in {"md5", "sha1"}:
        sentence = f"RECORD has {algorithm}, weaker than SHA-256"
        yield Problem(
            path=row.path, sentence=sentence, facts=("hash", algorithm), level=Level.WARNING
        )
    elif algorithm != "sha256":
        yield NotInspected(path=row.path, sentence=f"RECORD has an unknown hash {algorithm!r}")
    elif not member.sha256:
        yield NotInspected(path=row.path, sentence="it cannot be unpacked")
    elif stated != actual and not _is_hexadecimal(row, member):
        sentence = f"RECORD says sha256={stated}, but the file has {actual}"
        yield Problem(path=row.path, sentence=sentence, facts=("hash", algorithm), level=level)
        return  # its size then differs as well
    if row.size is not None and row.size != member.size:
        sentence = f"RECORD says {row.size} bytes, but the file has {member.size}"
        yield Problem(path=row.path, sentence=sentence, facts=("size",), level=level)


def _encode_all(digests: list[str]) -> Iterator[str]:
    """Yield hexadecimal digests as RECORD spells them; an unknown digest is treated as zeros."""
    # A zero byte after each digest makes 33 bytes, which are exactly 44 base64 letters; the last
    # letter only encodes zeros.
    filled = "".join(f"{digest:0<64.64}00" for digest in digests)
    encoded = binascii.b2a_base64(bytes.fromhex(filled), newline=False).translate(_URL_SAFE)
    text = encoded.decode("ascii")
    return (text[start : start + 43] for start in range(0, len(text), 44))


def _is_hexadecimal(row: RecordRow, member: Member | None) -> bool:
    return member is not None and bool(member.sha256) and row.hash == f"sha256={member.sha256}"
