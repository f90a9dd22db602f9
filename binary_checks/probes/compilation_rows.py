"""What compilers of GPU code are asked for, and what they made of it in a probe's process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, Final

from binary_checks.knowledge.cuda import find_architectures
from binary_checks.knowledge.device_code import EM_CUDA, read_flags
from binary_checks.model import Package
from binary_checks.model.places import Place
from binary_checks.model.probes import Compilation

_HEAD: Final = Struct("<4s4xB9xH28xI12x")  # of an ELF file: magic, ABI version, machine, flags


def list_machine_targets(package: Package) -> tuple[str, ...]:
    """List the architectures that its objects have machine code for, without suffixes."""
    numbers = {number for ptx, number in find_architectures(package) if not ptx}
    return tuple(f"sm_{number}" for number in sorted(numbers, key=int) if number.isdecimal())


def read_compilations(answer: Mapping[str, Any], place: Place) -> Iterator[Compilation]:
    """Read what came of each target: an error in words, or the head of a cubin."""
    rows = answer.get("compilations")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            yield Compilation(
                target=str(row.get("target", "")),
                made=name_machine_code(str(row.get("head", ""))),
                error=place.scrub(str(row.get("error", ""))),
            )


def name_machine_code(head: str) -> str:
    """Name the architecture of a cubin by its header; "" where it is no cubin.

    The header is hexadecimal. A suffix does not stand in it.
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
    """List the texts under a key; none where it is no list."""
    value = answer.get(key)
    return tuple(map(str, value)) if isinstance(value, list) else ()
