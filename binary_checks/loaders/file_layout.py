"""Where the files of a package, and of those given beside it, lie once all are installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from binary_checks.model import Kind, Layout, ObjectFile, Package

ObjectT = TypeVar("ObjectT", bound=ObjectFile)

_MOST_LINKS = 40  # that Linux follows for one path
_LONGEST_PATH = 4095  # characters that it takes
_MOST_NAMESAKES = 64  # files of one name, of which the one in a folder is looked for
_ODD_PARTS = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)")  # "", "." and ".." as parts of a path


def _as_it_is(name: str) -> str:
    return name


def is_of(item: ObjectFile, architecture: str) -> bool:
    """Whether an object is for that architecture and no other."""
    return item.architecture == architecture


@dataclass(frozen=True, kw_only=True, slots=True)
class Conventions(Generic[ObjectT]):
    """How a system tells names, files and architectures apart."""

    name: Callable[[str], str] = _as_it_is
    """What of a needed name libraries are called by."""
    by_file: bool = False
    """Whether a library is known by its file's name alone, and not by what it calls itself."""
    path: Callable[[str], str] = _as_it_is
    """What of a path files are told apart by."""
    fits: Callable[[ObjectT, str], bool] = is_of
    """Whether an object may be loaded into a process of an architecture."""


def relocate(package: Package, layout: Layout) -> Package:
    """The package as it lies in a prefix of another layout.

    ``cp38-abi3`` counts from ``lib/python3.8``, what is judged beside it from ``lib/python3.11``:
    at the user's both lie in one site-packages.
    """
    if package.layout == layout:
        return package

    def move(path: str) -> str:
        if package.layout.inside(path) is None and not package.layout.climbs:
            return path  # it counts from the prefix, wherever site-packages is
        return layout.place(package.layout.shorten(path))

    return replace(
        package,
        layout=layout,
        members=tuple(
            replace(item, path=move(item.path), target=item.target and move(item.target))
            for item in package.members
        ),
        objects=tuple(replace(item, path=move(item.path)) for item in package.objects),
        malformed=tuple(replace(item, path=move(item.path)) for item in package.malformed),
        unread=tuple(replace(item, path=move(item.path)) for item in package.unread),
        dll_directories=tuple(map(move, package.dll_directories)),
        loading_code=tuple(map(move, package.loading_code)),
        preloaded=tuple(map(move, package.preloaded)),
    )


class FileLayout(Generic[ObjectT]):
    """One prefix with several packages in it; the first is the one that is judged.

    Only objects of one format are in it.
    """

    def __init__(
        self,
        package: Package,
        others: Iterable[Package] = (),
        *,
        kind: type[ObjectT],
        conventions: Conventions[ObjectT] | None = None,
    ) -> None:
        packages = (package, *others)
        conventions = conventions or Conventions()
        self._kind, self.fits, self._by_file = kind, conventions.fits, conventions.by_file
        self.spell_name, self._spell_path = conventions.name, conventions.path
        self.objects = tuple(
            sorted(
                (item for item in package.objects_of(kind) if is_loadable(item)),
                key=lambda item: (item.path, item.architecture),
            )
        )
        self.origins: dict[str, str] = {}  # path -> the other package that brings it
        self.unread: dict[str, str] = {}  # path -> why there are no facts about it
        self._files: dict[str, tuple[ObjectT, ...]] = {}
        self._by_name: dict[str, list[ObjectT]] = {}
        for brought in packages:
            self._install(brought, "" if brought is package else brought.name)
        self._links: dict[str, str] = {}  # path -> where it leads, of symbolic and hard links
        for brought in packages:
            self._link(brought, "" if brought is package else brought.name)
        self.prefix = package.layout
        self._namesakes: dict[tuple[str, str], dict[str, str]] = {}
        self._elsewhere: dict[tuple[str, str], tuple[str, ...]] = {}

    def _install(self, package: Package, origin: str) -> None:
        unread = ((i.path, i.reason) for each in (package.malformed, package.unread) for i in each)
        self.unread.update((self._spell_path(path), reason) for path, reason in unread)
        for item in package.objects_of(self._kind):
            if is_loadable(item):
                self.origins.setdefault(item.path, origin)
                path = self._spell_path(item.path)
                self._files[path] = (*self._files.get(path, ()), item)
                for name in self.names_of(item):
                    self._by_name.setdefault(name, []).append(item)

    def _link(self, package: Package, origin: str) -> None:
        """Have libraries found by the names of links to them: libx.so.1 -> libx.so.1.2.3."""
        links = [member for member in package.members if member.target]
        self._links.update((self._spell_path(each.path), each.target) for each in links)
        for member in links:
            found = self._files.get(self._follow(self._spell_path(member.path)), ())
            if found:
                self.origins.setdefault(member.path, origin)
                self._files.setdefault(self._spell_path(member.path), found)
                name = self.spell_name(member.path.rpartition("/")[2])
                self._by_name.setdefault(name, []).extend(found)

    def _follow(self, path: str) -> str:
        """Where a path leads behind links, of directories too; in a circle nowhere."""
        for _ in range(_MOST_LINKS if len(path) <= _LONGEST_PATH else 0):
            beginning, _, rest = path.partition("/")
            while beginning not in self._links:
                if not rest:
                    return path
                part, _, rest = rest.partition("/")
                beginning = f"{beginning}/{part}"
            path = self._spell_path(f"{self._links[beginning]}/{rest}".removesuffix("/"))
        return ""

    def names_of(self, item: ObjectFile) -> frozenset[str]:
        """What an object is called by, whoever needs it."""
        names = (item.file_name,) if self._by_file else (item.name, item.file_name)
        return frozenset(self.spell_name(name) for name in names if name)

    def find(self, directory: str, name: str) -> tuple[ObjectT, ...]:
        """The objects at that place: slices, or files that two packages fight for it with."""
        path = self._spell_path(f"{directory}/{name}" if directory else name)
        if path not in self._files and self._links:
            path = self._follow(path)
        return self._files.get(path, ())

    def folders_with(self, name: str) -> Collection[str] | None:
        """The folders that have a file of that name, or one that nothing is known about.

        None where the name does not tell: a folder in it may be a link.
        """
        name = self._spell_path(name)
        beginning, slash, leaf = name.rpartition("/")
        folders = self._by_leaf.get(leaf, {})
        if not slash:
            return folders
        if self._links or len(folders) > _MOST_NAMESAKES or _ODD_PARTS.search(name):
            return None
        below = (f"/{folder}" for folder in folders)
        ending = f"/{beginning}"
        return {each.removesuffix(ending)[1:]: None for each in below if each.endswith(ending)}

    def real_folder(self, directory: str) -> str:
        """Where a folder lies behind links."""
        directory = self._spell_path(directory)
        return self._follow(directory) if self._links and directory else directory

    @cached_property
    def _by_leaf(self) -> Mapping[str, dict[str, None]]:
        """By the names of files the folders that they lie in."""
        found: dict[str, dict[str, None]] = {}
        for path in (*self._files, *self.unread):
            folder, _, name = path.rpartition("/")
            found.setdefault(name, {})[folder] = None
        return found

    def is_unread(self, directory: str, name: str) -> bool:
        """Whether a file lies there that nothing is known about."""
        return self._spell_path(f"{directory}/{name}".lstrip("/")) in self.unread

    def elsewhere(self, name: str, needer: ObjectT) -> tuple[str, ...]:
        """The objects that go by that name, as file name or soname, wherever they lie.

        First those whose file has the name: of libx.so and libx.so.1, both of soname libx.so.1,
        the loader could find the second alone.
        """
        key = self.spell_name(name), needer.architecture
        if key not in self._namesakes:
            self._namesakes[key] = dict(self._find_namesakes(*key))
        if needer.path in self._namesakes[key]:
            found = self._namesakes[key].items()
            return tuple(label for path, label in found if path != needer.path)
        if key not in self._elsewhere:
            self._elsewhere[key] = tuple(self._namesakes[key].values())
        return self._elsewhere[key]

    def _find_namesakes(self, name: str, architecture: str) -> Iterator[tuple[str, str]]:
        """The paths and labels of the objects that go by a name."""
        namesakes = sorted(
            self._by_name.get(name, ()), key=lambda item: self.spell_name(item.file_name) != name
        )
        for item in namesakes:
            if self.fits(item, architecture):
                yield item.path, self.label(item.path)

    def has(self, name: str) -> bool:
        """Whether any object goes by that name, wherever it lies."""
        return self.spell_name(name) in self._by_name

    @property
    def names(self) -> frozenset[str]:
        """What all objects go by."""
        return frozenset(self._by_name)

    def label(self, path: str) -> str:
        """Name a place as linkages do: ``wheel:<dist>:<path>`` where another package brings it."""
        origin = self.origins.get(path)
        return f"wheel:{origin}:{path}" if origin else path

    def label_of(self, item: ObjectT) -> str:
        """Name the place of an object."""
        return self.label(item.path)

    def labelled(self, label: str) -> ObjectT | None:
        """The object at a place that ``label`` names; of several slices the first."""
        path = label.split(":", 2)[2] if label.startswith("wheel:") else label
        return next(iter(self._files.get(self._spell_path(path), ())), None)

    @property
    def libraries(self) -> Iterator[ObjectT]:
        """All objects, those of the packages beside it too."""
        return (item for files in self._files.values() for item in files)

    def fitting(self, label: str, architecture: str) -> ObjectT | None:
        """The object at a place that ``label`` names, for a process of that architecture."""
        path = label.split(":", 2)[2] if label.startswith("wheel:") else label
        slices = self._files.get(self._spell_path(path), ())
        return next((item for item in slices if self.fits(item, architecture)), None)

    def is_own(self, item: ObjectT) -> bool:
        """Whether the judged package brings that object."""
        return not self.origins.get(item.path)

    def definers(self, names: frozenset[str], architecture: str) -> Mapping[str, str]:
        """The first object of the layout that defines each symbol, where there is one."""
        found: dict[str, str] = {}
        for item in self.libraries if names else ():
            if len(found) == len(names):
                break
            if self.fits(item, architecture):
                defined = item.exports.among(names - found.keys())
                found.update(dict.fromkeys(defined, self.label(item.path)))
        return found


def is_loadable(item: ObjectFile) -> bool:
    """Whether a loader ever maps such an object."""
    return item.kind in {Kind.SHARED, Kind.EXECUTABLE}
