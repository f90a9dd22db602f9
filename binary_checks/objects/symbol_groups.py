"""A symbol table in compact storage: a large library has a million symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from binary_checks.model import Symbol, SymbolTable

_FEW = 8  # names that are searched for in the undecoded names
_MANY = 1024  # names of a large group, which is not indexed


class SymbolGroups(SymbolTable):
    """Symbols in groups, in which only the names differ; names are decoded on demand."""

    def __init__(self, groups: Mapping[Symbol, Iterable[bytes]]) -> None:
        """``groups`` has, for each symbol without a name, the names of the symbols like it."""
        self._packed = [(like, b"\0".join((b"", *each, b""))) for like, each in groups.items()]

    @cached_property
    def _unpacked(self) -> Mapping[Symbol, frozenset[str]]:
        return {like: frozenset(_split(text)) for like, text in self._packed}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name, without versions and duplicates."""
        first, *others = (*self._unpacked.values(), frozenset[str]())
        return first.union(*others)

    def each_name(self) -> Iterator[str]:
        """Yield every name, without keeping them."""
        for _, text in self._packed:
            yield from _split(text)

    def may_mention(self, piece: str) -> bool:
        """Return whether the text is in a name."""
        return any(piece.encode() in text for _, text in self._packed)

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Return the given names that the table contains; few names are not worth decoding all."""
        wanted = frozenset(names)
        if "_unpacked" in self.__dict__ or len(wanted) > _FEW or "\\" in "".join(wanted):
            return wanted & self.names
        texts = {name: f"\0{name}\0".encode() for name in wanted}
        return frozenset(
            name for name, text in texts.items() if any(text in each for _, each in self._packed)
        )

    @cached_property
    def _small(self) -> Mapping[str, list[Symbol]]:
        """The small groups of each name: a crafted object may have as many groups as symbols."""
        found: dict[str, list[Symbol]] = {}
        for like, names in self._unpacked.items():
            for name in names if len(names) < _MANY else ():
                found.setdefault(name, []).append(like)
        return found

    @cached_property
    def _large(self) -> Mapping[Symbol, frozenset[str]]:
        return {like: names for like, names in self._unpacked.items() if len(names) >= _MANY}

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols of that name, one for each version."""
        large = (like for like, names in self._large.items() if name in names)
        return tuple(_name(like, name) for like in (*large, *self._small.get(name, ())))

    @property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """The imported names that must not be missing, grouped by the library they are bound to."""
        found: dict[str, list[frozenset[str]]] = {}
        for like, names in self._unpacked.items():
            if not like.weak:
                found.setdefault(like.library, []).append(names)
        return {library: frozenset().union(*groups) for library, groups in found.items()}

    def __iter__(self) -> Iterator[Symbol]:
        for like, text in self._packed:
            yield from (_name(like, name) for name in _split(text))

    def __len__(self) -> int:
        return sum(text.count(b"\0") - 1 for _, text in self._packed)

    def __repr__(self) -> str:
        return f"<{len(self)} symbols>"


def _name(like: Symbol, name: str) -> Symbol:
    """Return a symbol of a group; faster than `dataclasses.replace`."""
    return Symbol(
        name=name,
        library=like.library,
        version=like.version,
        weak=like.weak,
        hidden=like.hidden,
    )


def _split(text: bytes) -> list[str]:
    """Decode names, each between two NULs; bytes that are not UTF-8 are escaped."""
    return text.decode("utf-8", "backslashreplace").split("\0")[1:-1]
