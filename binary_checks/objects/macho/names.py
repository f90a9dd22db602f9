"""The names of symbols as C has them: without the underscore that Mach-O puts before each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.commands import decode


def join_names(names: Iterable[bytes]) -> bytes:
    """Keep many names as one piece of bytes, with a zero, which none has, around each."""
    return b"\0".join((b"", *names, b""))


def decode_names(text: bytes) -> list[str]:
    """The names in such a piece."""
    return decode(text.replace(b"\0_", b"\0")[1:-1]).split("\0") if len(text) > 1 else []


def holds(text: bytes, name: str) -> bool:
    """Whether a name is in such a piece."""
    return any(b"\0%b\0" % each in text for each in spell(name))


def spell(name: str) -> tuple[bytes, ...]:
    """How Mach-O may spell a name of C: assembler can do without the underscore."""
    plain = name.encode("utf-8", "backslashreplace")
    return (b"_" + plain,) if plain.startswith(b"_") else (b"_" + plain, plain)


@lru_cache(maxsize=4)  # one library after the other is asked for the same
def spell_all(names: frozenset[str], *, plain: bool) -> list[bytes]:
    """How Mach-O may spell many names, sorted; only if ``plain``, also without the underscore."""
    spelled = ("_" + "\0_".join(names)).encode("utf-8", "backslashreplace").split(b"\0")
    if plain:
        spelled += [each[1:] for each in spelled if not each.startswith(b"__")]
    return sorted(spelled)


def library_of(name: bytes, ordinal: int, libraries: Mapping[int, str]) -> str:
    """Whom a symbol is asked of. Raises MalformedError."""
    try:
        return libraries[ordinal]
    except KeyError:
        raise MalformedError(f"{decode(name)} is asked of dylib {ordinal}, there is none") from None
