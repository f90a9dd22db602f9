"""Targets and results of compilers for GPU code that run in a probe's process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, Final

from binary_checks.knowledge.cuda import find_architectures
from binary_checks.knowledge.device_code import EM_CUDA, read_flags
from binary_checks.model import Compilation, Package, Place

# fields of an ELF header: magic, ABI version, machine, flags
_HEAD: Final = Struct("<4s4xB9xH28xI12x")


def list_machine_targets(package: Package) -> tuple[str, ...]:
    """Return the architectures for which the package has machine code, without suffixes."""
    numbers = {number for ptx, number in find_architectures(package) if not ptx}
    return tuple(f"sm_{number}" for number in sorted(numbers, key=int) if number.isdecimal())


def read_compilations(answer: Mapping[str, Any], place: Place) -> Iterator[Compilation]:
    """Yield the result for each target: an error, or the architecture in the cubin's header."""
    rows = answer.get("compilations")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            yield Compilation(
                target=str(row.get("target", "")),
                made=name_machine_code(str(row.get("head", ""))),
                error=place.scrub(str(row.get("error", ""))),
            )


def name_machine_code(head: str) -> str:
    """Return the architecture in a cubin's header, or "" if the header is not a cubin's.

    ``head`` is hexadecimal. The architecture is returned without a suffix, as the header has none.
    """
    try:
        start = bytes.fromhex(head)
    except ValueError:
        return ""
    if len(start) < _HEAD.size:
        return ""
    magic, version, machine, flags = _HEAD.unpack_from(start)
    stated = read_flags(version, flags)
    if magic != b"\x7fELF" or machine != EM_CUDA or stated is None:
        return ""
    return f"sm_{stated.number}"


def list_texts(answer: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the texts under a key, or nothing if its value is not a list."""
    value = answer.get(key)
    return tuple(map(str, value)) if isinstance(value, list) else ()
