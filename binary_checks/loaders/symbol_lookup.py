"""Looks up the undefined symbols of all that is loaded, as ELF's loaders do that bind at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from binary_checks.loaders.elf import ElfLoader
from binary_checks.loaders.image import Image
from binary_checks.loaders.lookups import Lookups, Unresolved, is_pythons
from binary_checks.loaders.scope import Scope, SystemSymbols, mismatched, strong
from binary_checks.loaders.searches import Answers
from binary_checks.model import ElfFile, Interpreter, UnexploredSymbols, UnresolvedSymbol


def look_up(images: Iterable[Image[ElfFile]], loader: ElfLoader) -> Lookups:
    """Look up every strong undefined symbol of the package, in every process that loads it."""
    layout, system = loader.layout, SystemSymbols(loader.target)
    images = tuple(images)
    own = _OwnClosures(images)
    unresolved = Unresolved(layout)
    unexplored: dict[str, UnexploredSymbols] = {}
    granted: dict[str, set[tuple[str, str]]] = {}
    for image in images:
        scope = Scope(image, loader, system)
        for library in filter(layout.is_own, image.objects):
            own_left = own.leftover(library, scope)
            left = own_left.names
            if not left and not own_left.mismatched:
                continue
            known = unexplored.get(library.path)
            if known and known.count >= len(left) and scope.blindness:
                left = scope.certain(left)  # of the others it tells no more than another one has
            if left:
                left = scope.remaining(left)
                for name, theirs in scope.of_driver(left).items():
                    granted.setdefault(name, set()).update((library.path, each) for each in theirs)
                    left -= theirs
            hidden, reason = _out_of_sight(left, scope)
            if len(hidden) > (known.count if known else 0):
                unexplored[library.path] = UnexploredSymbols(
                    path=library.path, count=len(hidden), reason=reason
                )
            found = (
                *_describe(library, left - hidden, scope),
                *_describe_mismatched(library, own_left.mismatched, scope),
            )
            for item in found:
                unresolved.add(item, library.architecture, asked=item.version)
    return Lookups(
        unresolved=unresolved.list_all(),
        unexplored=tuple(unexplored[key] for key in sorted(unexplored)),
        granted=tuple((name, len(granted[name])) for name in sorted(granted) if granted[name]),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Leftover:
    """What an object's own closure does not satisfy."""

    names: frozenset[str]  # undefined, and not weak
    mismatched: tuple[tuple[str, str, str], ...]  # name, version, the library without it


class _OwnClosures:
    """What each object lacks within its own closure: nearly always nothing, in every process."""

    def __init__(self, images: Iterable[Image[ElfFile]]) -> None:
        self._known: dict[tuple[str, bool, Interpreter | None], _Leftover] = {}
        self._varying = frozenset(_find_varying(images))

    def leftover(self, library: ElfFile, scope: Scope) -> _Leftover:
        """Its undefined symbols that nothing it needs defines."""
        key = (library.path, scope.image.python, scope.python)
        if key in self._known:
            return self._known[key]
        names = scope.leftover(library.imports.names, scope.closure(library))
        versioned = scope.rules.CHECKS_VERSIONS and library.symbol_versions
        found = _Leftover(
            names=strong(library, names),
            mismatched=tuple(mismatched(library, scope)) if versioned else (),
        )
        if self._is_constant(scope.closure(library)):
            self._known[key] = found
        return found

    def _is_constant(self, objects: Iterable[ElfFile]) -> bool:
        """Whether each process has the same of them."""
        return not self._varying or self._varying.isdisjoint(item.path for item in objects)


def _find_varying(images: Iterable[Image[ElfFile]]) -> Iterator[str]:
    """The objects that do not get the same libraries in every process."""
    seen: dict[str, Answers] = {}
    for image in images:
        for item, answers in zip(image.objects, image.answers, strict=True):
            first = seen.setdefault(item.path, answers)
            if first is not answers and first.resolved != answers.resolved:
                yield item.path


def _out_of_sight(names: frozenset[str], scope: Scope) -> tuple[frozenset[str], str]:
    """Those of the names that something unknown may define, and what that is."""
    if not names:
        return names, ""
    if scope.blindness:
        return names - scope.certain(names), scope.blindness
    if scope.image.python and scope.python is None:
        names = frozenset(name for name in names if is_pythons(name))
        return names, "the exports of its Python are not known"
    return frozenset(), ""


def _describe(library: ElfFile, names: Iterable[str], scope: Scope) -> Iterator[UnresolvedSymbol]:
    root = scope.image.root.path
    for name in sorted(names):
        symbol = library.imports.find(name)[0]
        yield UnresolvedSymbol(
            path=library.path,
            name=name,
            version=symbol.version,
            library=symbol.library,
            root=root,
        )


def _describe_mismatched(
    library: ElfFile,
    found: Iterable[tuple[str, str, str]],
    scope: Scope,
) -> Iterator[UnresolvedSymbol]:
    for name, version, label in sorted(found):
        if not scope.answers(name, version):
            provider = scope.objects.get(label)
            yield UnresolvedSymbol(
                path=library.path,
                name=name,
                version=version,
                library=provider.name if provider else label.partition(":")[2],
                root=scope.image.root.path,
                provider=label,
            )
