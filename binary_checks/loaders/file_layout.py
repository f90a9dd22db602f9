"""The files of a package, and of packages installed next to it, in one prefix."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Generic, TypeVar

from binary_checks.knowledge.tags import is_loaded
from binary_checks.model import Layout, ObjectFile, Package

ObjectT = TypeVar("ObjectT", bound=ObjectFile)

_MOST_LINKS = 40  # links that Linux follows for one path
_LONGEST_PATH = 4095  # characters of a path that Linux accepts
# Limit on files with the same name; above it, names with a folder are not looked up this way.
_MOST_NAMESAKES = 64
_ODD_PARTS = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)")  # a part of a path that is "", "." or ".."


def _as_it_is(name: str) -> str:
    return name


def is_of(item: ObjectFile, architecture: str) -> bool:
    """Return whether an object is for exactly this architecture."""
    return item.architecture == architecture


@dataclass(frozen=True, kw_only=True, slots=True)
class Conventions(Generic[ObjectT]):
    """How a system compares names, files and architectures."""

    name: Callable[[str], str] = _as_it_is
    """Normalises the name of a needed library."""
    by_file: bool = False
    """Whether only a library's file name counts, not the name stated in it."""
    path: Callable[[str], str] = _as_it_is
    """Normalises a path."""
    fits: Callable[[ObjectT, str], bool] = is_of
    """Tests whether an object may be loaded into a process of an architecture."""


def relocate(package: Package, layout: Layout) -> Package:
    """Return a package with its paths changed to the prefix of another layout.

    The paths of a ``cp38-abi3`` wheel begin with ``lib/python3.8``, the judged package's paths
    perhaps with ``lib/python3.11``; on the user's machine both packages are in one site-packages.
    """
    if package.layout == layout:
        return package

    def move(path: str) -> str:
        if package.layout.inside(path) is None and not package.layout.climbs:
            return path  # relative to the prefix, so independent of site-packages
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
    )


class FileLayout(Generic[ObjectT]):
    """One prefix with several packages installed; the first package is judged.

    All objects in the layout have the same format.
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
        self.normalise_name, self._normalise_path = conventions.name, conventions.path
        self.objects = tuple(
            sorted(
                (item for item in package.objects_of(kind) if is_loaded(item)),
                key=lambda item: (item.path, item.architecture),
            )
        )
        # path -> name of the other package that contains the file
        self.origins: dict[str, str] = {}
        self.unread: dict[str, str] = {}  # path -> why there are no facts about the file
        self._files: dict[str, tuple[ObjectT, ...]] = {}
        self._by_name: dict[str, list[ObjectT]] = {}
        for each in packages:
            self._install(each, "" if each is package else each.name)
        self._links: dict[str, str] = {}  # path of a symbolic or hard link -> its target
        for each in packages:
            self._link(each, "" if each is package else each.name)
        self.prefix = package.layout
        self._namesakes: dict[tuple[str, str], dict[str, str]] = {}
        self._elsewhere: dict[tuple[str, str], tuple[str, ...]] = {}

    def _install(self, package: Package, origin: str) -> None:
        unread = ((i.path, i.reason) for each in (package.malformed, package.unread) for i in each)
        self.unread.update((self._normalise_path(path), reason) for path, reason in unread)
        for item in package.objects_of(self._kind):
            if is_loaded(item):
                self.origins.setdefault(item.path, origin)
                path = self._normalise_path(item.path)
                self._files[path] = (*self._files.get(path, ()), item)
                for name in self.names_of(item):
                    self._by_name.setdefault(name, []).append(item)

    def _link(self, package: Package, origin: str) -> None:
        """Add the names of links to libraries: libx.so.1 -> libx.so.1.2.3."""
        links = [member for member in package.members if member.target]
        self._links.update((self._normalise_path(each.path), each.target) for each in links)
        for member in links:
            found = self._files.get(self._follow(self._normalise_path(member.path)), ())
            if found:
                self.origins.setdefault(member.path, origin)
                self._files.setdefault(self._normalise_path(member.path), found)
                name = self.normalise_name(member.path.rpartition("/")[2])
                self._by_name.setdefault(name, []).extend(found)

    def _follow(self, path: str) -> str:
        """Resolve links in a path, including links to directories; return "" for a circle."""
        for _ in range(_MOST_LINKS if len(path) <= _LONGEST_PATH else 0):
            beginning, _, rest = path.partition("/")
            while beginning not in self._links:
                if not rest:
                    return path
                part, _, rest = rest.partition("/")
                beginning = f"{beginning}/{part}"
            path = self._normalise_path(f"{self._links[beginning]}/{rest}".removesuffix("/"))
        return ""

    def names_of(self, item: ObjectFile) -> frozenset[str]:
        """Return the names under which other objects may need an object."""
        names = (item.file_name,) if self._by_file else (item.name, item.file_name)
        return frozenset(self.normalise_name(name) for name in names if name)

    def find(self, directory: str, name: str) -> tuple[ObjectT, ...]:
        """Return the objects with this path: slices, or files of two packages."""
        path = self._normalise_path(f"{directory}/{name}" if directory else name)
        if path not in self._files and self._links:
            path = self._follow(path)
        return self._files.get(path, ())

    def folders_with(self, name: str) -> Collection[str] | None:
        """Return the folders that contain a file with this name, readable or not.

        Return None if the name contains a folder, which may be a link.
        """
        name = self._normalise_path(name)
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
        """Return a folder with links resolved."""
        directory = self._normalise_path(directory)
        return self._follow(directory) if self._links and directory else directory

    @cached_property
    def _by_leaf(self) -> Mapping[str, dict[str, None]]:
        """The folders of files, by file name."""
        found: dict[str, dict[str, None]] = {}
        for path in (*self._files, *self.unread):
            folder, _, name = path.rpartition("/")
            found.setdefault(name, {})[folder] = None
        return found

    def is_unread(self, directory: str, name: str) -> bool:
        """Return whether the folder contains a file of that name that could not be read."""
        return self._normalise_path(f"{directory}/{name}".lstrip("/")) in self.unread

    def elsewhere(self, name: str, needer: ObjectT) -> tuple[str, ...]:
        """Return the objects with a file name or soname, in any folder.

        Objects with that file name come first: if libx.so and libx.so.1 both have the soname
        libx.so.1, the loader could find only the second file.
        """
        key = self.normalise_name(name), needer.architecture
        if key not in self._namesakes:
            self._namesakes[key] = dict(self._find_namesakes(*key))
        if needer.path in self._namesakes[key]:
            found = self._namesakes[key].items()
            return tuple(label for path, label in found if path != needer.path)
        if key not in self._elsewhere:
            self._elsewhere[key] = tuple(self._namesakes[key].values())
        return self._elsewhere[key]

    def _find_namesakes(self, name: str, architecture: str) -> Iterator[tuple[str, str]]:
        """Yield path and label of each object with a name."""
        namesakes = sorted(
            self._by_name.get(name, ()),
            key=lambda item: self.normalise_name(item.file_name) != name,
        )
        for item in namesakes:
            if self.fits(item, architecture):
                yield item.path, self.label(item.path)

    def has(self, name: str) -> bool:
        """Return whether any object has this name, in any folder."""
        return self.normalise_name(name) in self._by_name

    @property
    def names(self) -> frozenset[str]:
        """The names of all objects."""
        return frozenset(self._by_name)

    def label(self, path: str) -> str:
        """Return the label of a path in a linkage: ``wheel:<dist>:<path>`` for another package."""
        origin = self.origins.get(path)
        return f"wheel:{origin}:{path}" if origin else path

    def label_of(self, item: ObjectT) -> str:
        """Return the label of an object."""
        return self.label(item.path)

    def labelled(self, label: str) -> ObjectT | None:
        """Return the object with a label (the first of several slices), or None."""
        path = label.split(":", 2)[2] if label.startswith("wheel:") else label
        return next(iter(self._files.get(self._normalise_path(path), ())), None)

    @property
    def libraries(self) -> Iterator[ObjectT]:
        """All objects, including those of other packages."""
        return (item for files in self._files.values() for item in files)

    def fitting(self, label: str, architecture: str) -> ObjectT | None:
        """Return the object with a label for a process of this architecture."""
        path = label.split(":", 2)[2] if label.startswith("wheel:") else label
        slices = self._files.get(self._normalise_path(path), ())
        return next((item for item in slices if self.fits(item, architecture)), None)

    def is_own(self, item: ObjectT) -> bool:
        """Return whether an object belongs to the judged package."""
        return not self.origins.get(item.path)

    def definers(self, names: frozenset[str], architecture: str) -> Mapping[str, str]:
        """Map each symbol to the first object that defines it; undefined symbols are left out.

        The package's own objects come first. Libraries that a repair tool put into another package
        are left out: nobody can link with them.
        """
        found: dict[str, str] = {}
        theirs = (item for item in self.libraries if not (self.is_own(item) or is_grafted(item)))
        for item in chain(filter(self.is_own, self.libraries), theirs) if names else ():
            if len(found) == len(names):
                break
            if self.fits(item, architecture):
                defined = item.exports.among(names - found.keys())
                found.update(dict.fromkeys(defined, self.label(item.path)))
        return found


def is_grafted(item: ObjectFile) -> bool:
    """Return whether a repair tool put the library into its package."""
    return item.directory.endswith((".libs", ".dylibs"))
