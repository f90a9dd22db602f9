"""Runs the opcodes of LC_DYLD_INFO as dyld does, for where they would write.

dyld refuses a rebase or a bind outside of the segment that its opcode names; a damaged table may
also end early, and lose what the symbol table still lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.encoding import read_uleb
from binary_checks.objects.macho.segments import Segment

# The upper half of an opcode, of rebases and of binds.
_DONE, _TYPE, _PLACE, _ADD, _ADD_SCALED, _TIMES = range(6)
_TIMES_ULEB, _THEN_ADD, _TIMES_SKIPPING = 6, 7, 8
_REBASES_WITH_NUMBER = frozenset({_PLACE, _ADD, _TIMES_ULEB, _THEN_ADD, _TIMES_SKIPPING})
_ORDINAL, _SPECIAL = 1, 3
_ORDINAL_ULEB, _SYMBOL, _BIND_TYPE, _ADDEND, _BIND_PLACE, _BIND_ADD = 2, 4, 5, 6, 7, 8
_BIND, _BIND_THEN_ADD, _BIND_THEN_ADD_SCALED, _BIND_SKIPPING, _THREADED = range(9, 14)
_BINDS_WITH_NUMBER = frozenset(
    {_ORDINAL_ULEB, _ADDEND, _BIND_PLACE, _BIND_ADD, _BIND_THEN_ADD, _BIND_SKIPPING}
)
_NOT_LAZY = frozenset({_BIND_THEN_ADD, _BIND_THEN_ADD_SCALED, _BIND_SKIPPING, _THREADED})
_TYPES = range(1, 4)
_LOWEST_ORDINAL = -3  # weak lookup
_NEEDS = (  # of a write, table by table; lazy ones are pointers, weak ones asked of everybody
    {"segment", "type"},
    {"segment", "type", "dylib", "symbol"},
    {"segment", "type", "symbol"},
    {"segment", "dylib", "symbol"},
)


class _Cursor:
    """Where the next pointer would be written."""

    def __init__(
        self,
        segments: Sequence[Segment],
        pointer: int,
        what: str,
        *,
        needs: Iterable[str],
        dylibs: int,
    ) -> None:
        self.needs = set(needs)  # that are yet to come
        self._dylibs = dylibs
        self._segments = segments
        self._pointer = pointer
        self._what = what
        self._mask = (1 << 8 * pointer) - 1
        self._sections: tuple[range, ...] = ()  # of the segment that was named
        self._room = range(0)  # the section of the last write
        self._known = tuple(_list_sections(segment) for segment in segments)
        self._offset = 0
        self._idle = False  # nothing was written since the segment was named

    def move_to(self, number: int, offset: int) -> None:
        if number >= len(self._segments):
            count = len(self._segments)
            raise MalformedError(f"{self._what} names segment {number} of {count}")
        self.demand_write()
        self.needs.discard("segment")
        self._sections, self._offset, self._idle = self._known[number], offset, True
        self._room = range(0)

    def ask(self, ordinal: int) -> None:
        """Bind from now on to that dylib."""
        self.needs.discard("dylib")
        if not _LOWEST_ORDINAL <= ordinal <= self._dylibs:
            raise MalformedError(f"{self._what} asks dylib {ordinal}, of {self._dylibs}")

    def demand_write(self) -> None:
        """Raise MalformedError for a place where nothing was written: its opcode was lost."""
        if self._idle:
            raise MalformedError(f"{self._what} names {self._offset:#x} and writes nothing there")

    def add(self, distance: int) -> None:
        self._offset = self._offset + distance & self._mask

    def write(self, count: int = 1, skip: int = 0) -> None:
        """Write so many pointers, each behind the one before and so many bytes more."""
        if self.needs:
            raise MalformedError(f"{self._what} writes before any {min(self.needs)} was named")
        self._idle = False
        if not count:
            return
        step = self._pointer + skip & self._mask
        last = self._offset + (count - 1) * step
        room = self._room  # most writes go where the one before went
        if not room.start <= self._offset <= last <= room.stop - self._pointer:
            self._find_room(self._offset)
            self._find_room(last)
        self._offset = last + step & self._mask

    def _find_room(self, start: int) -> None:
        for room in self._sections:
            if room.start <= start <= room.stop - self._pointer:
                self._room = room
                return
        raise MalformedError(f"{self._what} writes at {start:#x}, where no section is")


def _list_sections(segment: Segment) -> tuple[range, ...]:
    """Where the sections are, counted from the start of the segment."""
    places = ((item.address - segment.address, item.size) for item in segment.sections)
    return tuple(range(start, start + size) for start, size in places)


def find_opcode_faults(
    tables: Sequence[bytes], segments: Sequence[Segment], bits: int, dylibs: int
) -> Iterator[str]:
    """Say where the tables of LC_DYLD_INFO lead out of the file: rebases, binds, weak, lazy.

    Each fault goes on from the path.
    """
    pointer = bits // 8
    names = ("a rebase", "a bind", "a weak bind", "a lazy bind")
    for number, (name, table) in enumerate(zip(names, tables, strict=True)):
        cursor = _Cursor(segments, pointer, name, needs=_NEEDS[number], dylibs=dylibs)
        try:
            if number == 0:
                _run_rebases(table, cursor, pointer)
            else:
                _run_binds(table, cursor, pointer, name, lazy=number == 3)
            cursor.demand_write()
        except MalformedError as error:
            yield f"has opcodes of which {error.reason}"
        except IndexError:
            yield f"has opcodes of which {name} runs beyond their end"


def _run_rebases(table: bytes, cursor: _Cursor, pointer: int) -> None:
    place, end = 0, len(table)
    while place < end:
        operation, immediate = table[place] >> 4, table[place] & 0xF
        place += 1
        if operation == _DONE:
            return _demand_end(table, place, "a rebase")
        if operation in _REBASES_WITH_NUMBER:
            value, place = read_uleb(table, place)
            skip = 0
            if operation == _TIMES_SKIPPING:
                skip, place = read_uleb(table, place)
            _rebase(cursor, operation, immediate, value, skip)
        elif operation == _TYPE:
            _demand_type(immediate, "a rebase")
            cursor.needs.discard("type")
        elif operation == _ADD_SCALED:
            cursor.add(immediate * pointer)
        elif operation == _TIMES:
            cursor.write(immediate)
        else:
            raise MalformedError(f"a rebase is {table[place - 1]:#04x}, which is no opcode")
    return None


def _rebase(cursor: _Cursor, operation: int, immediate: int, value: int, skip: int) -> None:
    if operation == _PLACE:
        cursor.move_to(immediate, value)
    elif operation == _ADD:
        cursor.add(value)
    elif operation == _THEN_ADD:
        cursor.write()
        cursor.add(value)
    else:
        cursor.write(value, skip)


def _run_binds(table: bytes, cursor: _Cursor, pointer: int, name: str, *, lazy: bool) -> None:
    place, end = 0, len(table)
    while place < end:
        operation, immediate = table[place] >> 4, table[place] & 0xF
        place += 1
        if lazy and operation in _NOT_LAZY:
            raise MalformedError(f"{name} is {table[place - 1]:#04x}, which binds at once")
        if operation == _SYMBOL:
            found = table.find(0, place)
            place = found + 1 if found >= 0 else end
            cursor.needs.discard("symbol")
        elif operation in _BINDS_WITH_NUMBER:
            value, place = read_uleb(table, place)
            skip = 0
            if operation == _BIND_SKIPPING:
                skip, place = read_uleb(table, place)
            _bind(cursor, operation, immediate, value, skip)
        elif operation in {_BIND, _BIND_THEN_ADD_SCALED}:
            cursor.write()
            cursor.add(immediate * pointer if operation == _BIND_THEN_ADD_SCALED else 0)
        elif operation in {_ORDINAL, _SPECIAL}:
            cursor.ask(immediate - 16 if operation == _SPECIAL and immediate else immediate)
        elif operation == _BIND_TYPE:
            _demand_type(immediate, name)
            cursor.needs.discard("type")
        elif operation == _DONE and not lazy:
            return _demand_end(table, place, name)
        elif operation == _THREADED:  # arm64e's: the places are chained in the segments
            return None
        elif operation > _THREADED:
            raise MalformedError(f"{name} is {table[place - 1]:#04x}, which is no opcode")
    return None


def _bind(cursor: _Cursor, operation: int, immediate: int, value: int, skip: int) -> None:
    if operation == _BIND_PLACE:
        cursor.move_to(immediate, value)
    elif operation == _ORDINAL_ULEB:
        cursor.ask(value)
    elif operation == _BIND_ADD:
        cursor.add(value)
    elif operation == _BIND_THEN_ADD:
        cursor.write()
        cursor.add(value)
    elif operation == _BIND_SKIPPING:
        cursor.write(value, skip)


def _demand_end(table: bytes, place: int, name: str) -> None:
    """Linkers fill up with zeros behind the last opcode."""
    if left := len(table[place:].lstrip(b"\0")):
        raise MalformedError(f"{name} ends the table, {left} bytes before its end")


def _demand_type(kind: int, name: str) -> None:
    if kind not in _TYPES:
        raise MalformedError(f"{name} is of type {kind}, which dyld does not know")
