"""What a Mach-O file exports: the trie itself, walked as far as the names asked for lead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Symbol, SymbolTable
from binary_checks.objects.macho.encoding import (
    decode_names,
    join_names,
    library_of,
    spell,
    spell_all,
)
from binary_checks.objects.macho.trie import (
    WEAK_DEFINITION,
    Export,
    find_in_trie,
    read_export,
    walk_trie,
)

_FEW, _BYTES_PER_NAME = 8, 32
"""Once a few and one name in so many bytes of a trie were found, all is read, which is quicker."""
_UNDERSCORE_FIRST = b"\0\1_"
"""How a trie begins in which every name begins with an underscore, as all of C do."""


class MachOExports(SymbolTable):
    """The exports of one object, as its trie has them.

    A name is looked up once, as dyld does it, and the other parts of the trie are not read. Where
    a part turns out to be malformed, the check that asked could not inspect it; `verify` reads all
    beforehand.
    """

    def __init__(
        self, path: str, trie: bytes, libraries: Mapping[int, str], factor: int = 1
    ) -> None:
        self._path = path
        self._trie = trie
        self._libraries = libraries  # by ordinal
        self._text: bytes | None = None  # all names, once they were read
        self._names: frozenset[str] | None = None
        self._factor = factor
        self._asked: set[str] = set()  # among all; of these it has
        self._found: set[str] = set()

    def verify(self) -> None:
        """Read the whole trie. Raises MalformedError, or TooLarge for names that explode."""
        names = []
        for name, _, ordinal in walk_trie(self._trie, self._factor):
            names.append(name)
            if ordinal:
                library_of(name, ordinal, self._libraries)
        self._text = join_names(names)

    @property
    def names(self) -> frozenset[str]:
        """Every name once."""
        if self._names is None:
            if self._text is None:
                try:
                    self.verify()
                except (MalformedError, Unavailable) as error:
                    raise self._cannot_look(error) from None
            self._names = frozenset(decode_names(self._text or b""))
        return self._names

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that it has."""
        wanted = frozenset(names)
        often = (_FEW + len(self._found)) * _BYTES_PER_NAME > len(self._trie)
        if often or self._text is not None or "\\" in "".join(wanted):  # our escape
            return wanted & self.names
        unknown = wanted - self._asked
        if unknown:
            self._found.update(self._look_up(unknown))
            self._asked |= unknown
        return wanted & self._found

    def _look_up(self, names: frozenset[str]) -> list[str]:
        spelled = spell_all(names, plain=not self._trie.startswith(_UNDERSCORE_FIRST))
        try:
            return decode_names(join_names(name for name, _ in find_in_trie(self._trie, spelled)))
        except (MalformedError, Unavailable) as error:
            raise self._cannot_look(error) from None

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbol of that name."""
        if "\\" in name:
            return tuple(symbol for symbol in self if symbol.name == name)
        found = find_in_trie(self._trie, sorted(spell(name)))
        return tuple(self._make_symbols(read_export(self._trie, *each) for each in found))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.among((name,)))

    def __iter__(self) -> Iterator[Symbol]:
        return self._make_symbols(walk_trie(self._trie, self._factor))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<exports trie of {len(self._trie)} bytes>"

    def _make_symbols(self, exports: Iterator[Export]) -> Iterator[Symbol]:
        try:
            for name, flags, ordinal in exports:
                library = library_of(name, ordinal, self._libraries) if ordinal else ""
                (text,) = decode_names(join_names((name,)))
                yield Symbol(name=text, library=library, weak=bool(flags & WEAK_DEFINITION))
        except (MalformedError, Unavailable) as error:
            raise self._cannot_look(error) from None

    def _cannot_look(self, error: MalformedError | Unavailable) -> Unavailable:
        reason = error.reason if isinstance(error, MalformedError) else error
        kind = TooLarge if isinstance(error, TooLarge) else Unavailable
        return kind(f"what {self._path} exports cannot be told: {reason}")
