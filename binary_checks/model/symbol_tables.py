"""The symbols of an object file: what it imports and what it exports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

from binary_checks.errors import Unavailable


@dataclass(frozen=True, kw_only=True, slots=True)
class Symbol:
    """One dynamic symbol, imported or exported."""

    name: str
    library: str = (
        ""  # whom an import is asked of: vn_file (ELF), two-level ordinal (Mach-O), DLL (PE)
    )
    version: str = ""  # ELF symbol version node such as "GLIBC_2.17"; "" is unversioned
    weak: bool = False
    hidden: bool = False  # an exported non-default version (name@VERSION, not name@@VERSION)
    ordinal: int | None = None  # PE: an export's number; of an import, when it asks by number
    forwarder: str = ""  # PE: an export that stands for another library's, "NTDLL.RtlAllocateHeap"


class SymbolTable(Collection[Symbol]):
    """The symbols of one object, kept compact: a Symbol is made only when somebody asks for it."""

    __slots__ = ()

    @property
    @abstractmethod
    def names(self) -> frozenset[str]:
        """Every name once, without versions."""

    def each_name(self) -> Iterator[str]:
        """Every name, some perhaps more than once; quicker than all of them together."""
        return iter(self.names)

    def may_mention(self, piece: str) -> bool:
        """Whether a name may have that in it: False only where it is quick to say so."""
        del piece
        return True

    @property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, version); the library of an export is ""."""
        grouped: dict[tuple[str, str], set[str]] = {}
        for symbol in self:
            grouped.setdefault((symbol.library, symbol.version), set()).add(symbol.name)
        return {key: frozenset(names) for key, names in grouped.items()}

    @property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """By the library that they are asked of, the imported names that may not be missing."""
        grouped: dict[str, set[str]] = {}
        for symbol in self:
            if not symbol.weak:
                grouped.setdefault(symbol.library, set()).add(symbol.name)
        return {library: frozenset(names) for library, names in grouped.items()}

    @abstractmethod
    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name, one a version; empty when there is none."""

    @property
    def forwarders(self) -> Mapping[str, str]:
        """By name, whose function an export stands for, where it does (PE)."""
        return {symbol.name: symbol.forwarder for symbol in self if symbol.forwarder}

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that it has."""
        return self.names.intersection(names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __eq__(self, other: object) -> bool:
        """Whether the other, of whatever kind, has the same symbols."""
        return isinstance(other, SymbolTable) and sorted(self, key=repr) == sorted(other, key=repr)

    def __hash__(self) -> int:
        return hash(tuple(self))


class Symbols(SymbolTable):
    """A symbol table over ready-made symbols, in the order given."""

    def __init__(self, symbols: Iterable[Symbol] = ()) -> None:
        self._symbols = tuple(symbols)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name once, without versions."""
        return frozenset(symbol.name for symbol in self._symbols)

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[Symbol, ...]]:
        found: dict[str, list[Symbol]] = {}
        for symbol in self._symbols:
            found.setdefault(symbol.name, []).append(symbol)
        return {name: tuple(symbols) for name, symbols in found.items()}

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name, one a version."""
        return self._by_name.get(name, ())

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._symbols)

    def __len__(self) -> int:
        return len(self._symbols)

    def __repr__(self) -> str:
        return f"Symbols({self._symbols!r})"


class UnknownSymbols(SymbolTable):
    """The table of an object whose symbols nobody kept: whoever asks could not look."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self) -> NoReturn:
        raise Unavailable(self._reason)

    @property
    def names(self) -> frozenset[str]:
        """Raises Unavailable, as all that asks for a symbol does."""
        self._refuse()

    def find(self, name: str) -> tuple[Symbol, ...]:  # noqa: ARG002 - the others' signature
        """Raises Unavailable."""
        self._refuse()

    def __iter__(self) -> Iterator[Symbol]:
        self._refuse()

    def __len__(self) -> int:  # noqa: PLE0303 - nobody knows how many there are
        self._refuse()


NO_SYMBOLS = Symbols()
