"""Find the definition of an extension module in its data, and what its slots say of the GIL.

A static PyModuleDef for a free-threaded Python begins with a PyObject (object.h of CPython 3.13): a
thread's number (0), 2 bytes of flags, a mutex (0), a byte of the collector, ob_ref_local
(0xFFFFFFFF in all static objects), ob_ref_shared (0) and ob_type (0). m_init, m_index and m_copy
are 0, too. The words m_name, m_doc, m_size, m_methods and m_slots follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from struct import Struct

from binary_checks.model import SymbolTable, is_for_free_threads

# Numbers of slots in moduleobject.h of CPython 3.13 and in slots_generated.h of 3.15
_GIL = (4, 87)  # Py_mod_gil
_NESTED = 92  # Py_slot_subslots: the address of an array of PySlot, as PyO3 0.29 writes it
_MOST_SLOTS = 32  # of a table; modules have up to ten
_ADDRESS = (1 << 36) - 1  # the bits of an address in a fixup of Mach-O (dyld_chained_ptr_64_rebase)


def find_gil_slot(
    path: str,
    imports: SymbolTable,
    parts: Iterable[tuple[int, bytes]],
    word: Struct,
    relocations: Iterable[tuple[int, int, int]] = (),
) -> bool | None:
    """Return whether the slots of a module say Py_MOD_GIL_NOT_USED; None without slots in the data.

    ``parts`` are the data with their addresses, and ``word`` is the layout of a pointer. A pointer
    is the last number of its relocation, or else the word itself. Only modules that may have such a
    definition and that a free-threaded Python imports are searched.
    """
    if not (is_for_free_threads(path) and imports.among(("PyModuleDef_Init",))):
        return None
    held, found = tuple(parts), None
    moved = {address: addend for address, _, addend in relocations}
    # PyModuleDef_Slot: a number and a word; PySlot: a number, flags, and 8 bytes
    slot = Struct(f"{word.format[0]}i{word.size - 4}x{word.format[1]}")
    nested = Struct(f"{word.format[0]}H6xQ")

    def read_slots(address: int, layout: Struct) -> dict[int, int]:
        most = _MOST_SLOTS * layout.size
        tables = (
            data[address - start : address - start + most]
            for start, data in held
            if start <= address < start + len(data)
        )
        table = next(tables, b"")
        rows = layout.iter_unpack(table[: len(table) // layout.size * layout.size])
        return {
            # PyO3 lets m_slots lead to PySlots, too: flags are above 16 bits
            number & 0xFFFF: moved.get(address + index * layout.size + layout.size // 2)
            or value & _ADDRESS
            for index, (number, value) in enumerate(takewhile(lambda row: row[0], rows))
        }

    # ob_ref_local and what follows it up to m_name; a search for a constant text is fast
    mark = re.compile(re.escape(b"\xff" * 4 + bytes(5 * word.size)))
    for start, data in held:
        for match in mark.finditer(data, word.size + 4, len(data) - 5 * word.size):
            thread, mutex = match.start() - word.size - 4, match.start() - 2
            if any(data[thread : thread + word.size]) or data[mutex]:
                continue
            at = match.end() + 4 * word.size
            value = word.unpack_from(data, at)[0] & _ADDRESS
            slots = read_slots(moved.get(start + at) or value, slot)
            slots |= read_slots(slots.get(_NESTED, -1), nested)
            if slots:
                found = found or any(slots.get(number) == 1 for number in _GIL)
    return found
