"""One pass over an archive's members: each inflated once, hashed, and read if it is an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from binary_checks.errors import GatherError
from binary_checks.model.objects import Format, MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.packages import Member
from binary_checks.model.protocols import ObjectReader
from binary_checks.python_code.mentions import Mention
from binary_checks.trees.file_bytes import FileBytes
from binary_checks.trees.retention import MemorySource, StreamedObject
from binary_checks.trees.zip.batches import make_batches, run_batches
from binary_checks.trees.zip.directory import Archive, ZipEntry
from binary_checks.trees.zip.inflate import (
    HEAD,
    WHOLE,
    Inflated,
    expand_again,
    read_small,
    read_stream,
)
from binary_checks.trees.zip.local_header import find_overlaps
from binary_checks.trees.zip.preview import SOURCE_CODE

Read = ObjectFile | MalformedObject | UnreadObject
Progress = Callable[[int, int], None]
Place = Callable[[str], str]

_BEGINNING = 64 << 10  # bytes, by which a reader tells what it will ask for; the more, the better


class MemberReading(NamedTuple):
    """A member, the objects in it, and its content where that was asked for."""

    member: Member
    objects: tuple[Read, ...] = ()
    content: bytes | None = None
    mentions: bool = False  # it has what was sought in it


class Sought(NamedTuple):
    """What to search for in which members: to be read again they need not all be kept."""

    names: frozenset[str]  # in the archive
    mention: Mention


class Task(NamedTuple):
    """What every thread needs to know."""

    file: FileBytes
    archive: Archive
    reader: ObjectReader
    place: Place  # archive name -> installed path
    kept: Mapping[str, int] = {}  # wanted contents: archive name -> most bytes
    sought: Sought | None = None


def read_members(task: Task, progress: Progress | None = None) -> list[MemberReading]:
    """Read every member, in the order of the central directory.

    ``progress`` is told, in the calling thread, how many of how many bytes have been inflated.
    """
    entries = task.archive.entries
    batches = list(make_batches(entries))
    overlaps = find_overlaps(task.archive)
    total = sum(entry.size for entry in entries)
    done = [0] * len(batches)  # bytes; each batch counts in its own place

    def read(number: int) -> list[tuple[int, MemberReading]]:
        readings = []
        for index in batches[number]:
            readings.append((index, _read_member(task, entries[index], overlaps.get(index))))
            done[number] += entries[index].size
        return readings

    def report() -> None:
        if progress is not None:
            progress(sum(done), total)

    readings = dict(pair for batch in run_batches(batches, read, report) for pair in batch)
    return [readings[index] for index in range(len(entries))]


def _read_member(task: Task, entry: ZipEntry, refusal: str | None) -> MemberReading:
    if refusal is not None:
        return _describe(task, entry, Inflated(faults=(*entry.faults, refusal)))
    if max(entry.size, entry.compressed_size) <= WHOLE:
        content, outcome = read_small(task.file, entry, task.archive.limit_of(entry))
        objects = _read_small_object(task, entry, content, outcome)
        wanted = content if entry.name in task.kept and outcome.sha256 else None
        reading = _describe(task, entry, outcome, objects, wanted)
        search = _make_search(task, entry)
        return reading._replace(mentions=search(content)) if search else reading
    if entry.name in task.kept:
        return _read_kept(task, entry, task.kept[entry.name])
    return _read_large(task, entry)


def _describe(
    task: Task,
    entry: ZipEntry,
    outcome: Inflated,
    objects: tuple[Read, ...] = (),
    content: bytes | None = None,
) -> MemberReading:
    faults = outcome.faults
    if objects and entry.name.endswith(SOURCE_CODE):
        found = objects[0].format
        faults = (*faults, f"by its name it is source code, by its first bytes {found}")
    member = Member(
        path=task.place(entry.name),
        archive_name=entry.name,
        size=entry.size,
        compressed_size=entry.compressed_size,
        mode=entry.mode,
        sha256=outcome.sha256,
        faults=faults,
    )
    return MemberReading(member, objects, content)


def _read_small_object(
    task: Task, entry: ZipEntry, content: bytes, outcome: Inflated
) -> tuple[Read, ...]:
    found = task.reader.announce(entry.name, content[:HEAD])
    if found is None:
        return ()
    if not outcome.sha256:
        return (_leave_unread(task, entry, found, outcome),)
    return task.reader.read_objects(task.place(entry.name), MemorySource(content))


def _leave_unread(task: Task, entry: ZipEntry, found: Format, outcome: Inflated) -> UnreadObject:
    """Say that an object is there: a broken archive proves nothing about it."""
    reason = f"the archive does not yield it: {outcome.faults[-1]}"
    return UnreadObject(path=task.place(entry.name), format=found, reason=reason)


def _read_kept(task: Task, entry: ZipEntry, most: int) -> MemberReading:
    pieces: list[bytes] = []
    consume = pieces.append if entry.size <= most else _drop
    outcome = read_stream(task.file, entry, consume, task.archive.limit_of(entry))
    if entry.size > most:
        too_large = f"it has {entry.size} bytes, more than {most} are not read"
        outcome = Inflated(outcome.sha256, (*outcome.faults, too_large))
    content = b"".join(pieces) if pieces and outcome.sha256 else None
    return _describe(task, entry, outcome, (), content)


def _drop(_: bytes) -> None:
    pass


def _make_search(task: Task, entry: ZipEntry) -> Callable[[bytes], bool] | None:
    """Make a function that takes a member piece by piece and says whether it was found yet."""
    if task.sought is None or entry.name not in task.sought.names:
        return None
    return task.sought.mention.search()


def _read_large(task: Task, entry: ZipEntry) -> MemberReading:
    """Stream a member by; the first piece tells whether it is an object and what to keep."""
    source: StreamedObject | None = None
    found: Format | None = None
    first = True
    search = _make_search(task, entry)

    def consume(piece: bytes) -> None:
        nonlocal source, found, first
        if first:
            first = False
            head = piece[:HEAD]
            found = task.reader.announce(entry.name, head)
            if found is not None:
                again = partial(expand_again, task.file, entry)
                source = StreamedObject(task.reader, piece[:_BEGINNING], entry.size, again)
        if source is not None:
            source.append(piece)
        if search is not None:
            search(piece)

    path = task.place(entry.name)
    try:
        outcome = read_stream(task.file, entry, consume, task.archive.limit_of(entry))
        if source is None or found is None:
            mentions = search is not None and search(b"")
            return _describe(task, entry, outcome)._replace(mentions=mentions)
        if not outcome.sha256:
            unread = _leave_unread(task, entry, found, outcome)
            return _describe(task, entry, outcome, (unread,))
        return _describe(task, entry, outcome, source.read(path))
    except OSError as error:  # of the temporary file: the package's own come as PackageError
        reason = f"what {path} needs cannot be kept in a temporary file: {error.strerror}"
        raise GatherError(f"{task.file.path.name}: {reason}") from None
    finally:
        if source is not None:
            source.close()
