"""Which object of one build is which of another, whatever its name says of versions and builds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from binary_checks.knowledge.grafted_names import is_grafted_name, strip_graft
from binary_checks.knowledge.library_marks import library_of_file
from binary_checks.model import Layout, ObjectFile, Package
from binary_checks.model.python_modules import init_function, parse_extension_name

_METADATA = re.compile(r"^([^/]+?)-[^/]*(\.(?:dist-info|data)/)")
_NUMBERS = re.compile(
    r"(?<=\.so)(?:\.\d+)+$|(?:\.\d+)+(?=\.dylib$)|(?<=[a-z])[-_]?\d+(?:[-._]\d+)*(?=\.dll$)"
)
"""Where a library's version stands in its name."""
_GRAFTED_INTO = re.compile(r"(?:^|/)(?:[^/]+\.libs|\.dylibs)/")


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectPair:
    """The same object in both builds."""

    subject: str  # its path without what a build puts into it; of a fat file with the architecture
    old: ObjectFile
    new: ObjectFile


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedObjects:
    """The objects of two builds."""

    pairs: tuple[ObjectPair, ...] = ()
    lost: tuple[ObjectFile, ...] = ()
    gained: tuple[ObjectFile, ...] = ()


@lru_cache(maxsize=4096)
def loose_name(name: str) -> str:
    """The same without its version: ``libarrow.so.1900`` and ``libarrow.so.2000`` are one."""
    return _NUMBERS.sub("", strip_graft(name))


def plain_path(layout: Layout, path: str) -> str:
    """A path as users know it, without the version, the hash and the Python of one build."""
    inside = layout.inside(path)
    shown = _METADATA.sub(r"\1\2", path if inside is None else inside)
    folder, slash, name = shown.rpartition("/")
    extension = parse_extension_name(shown)
    if extension is not None and (extension.implementation or extension.platform):
        ending = ".pyd" if name.endswith(".pyd") else ".so"
        return f"{folder}{slash}{name.removesuffix(extension.suffix)}{ending}"
    return f"{folder}{slash}{strip_graft(name)}"


def is_grafted(item: ObjectFile) -> bool:
    """Whether it is a library of another project that was put into the package.

    NumPy's lapack_lite.cpython-313-darwin.so is none, whatever it is called.
    """
    name = parse_extension_name(item.path)
    return not (name is not None and name.tagged) and (
        is_grafted_name(item.file_name)
        or _GRAFTED_INTO.search(item.path) is not None
        or bool(library_of_file(item.file_name))
    )


def is_module_name(item: ObjectFile) -> bool:
    """Whether it is named as an extension module, and not as a library."""
    name = parse_extension_name(item.path)
    return name is not None and (name.tagged or not (item.name or name.stem.startswith("lib")))


def is_module(item: ObjectFile) -> bool:
    """Whether Python imports it: mypyc's 30fcd…__mypyc too, whose name is no identifier."""
    init = init_function(item.file_name.partition(".")[0])
    return is_module_name(item) or bool(item.exports.among((init,)))


def pair_objects(old: Package, new: Package) -> PairedObjects:
    """Match by path, then among the rest by path without numbers, where that is unmistakable."""
    exact = _Matching(old, new, plain_path)
    loose = _Matching(old, new, _loose_path, exact.old_rest, exact.new_rest)
    pairs = sorted((*exact.pairs, *loose.pairs), key=lambda pair: pair.subject)
    return PairedObjects(
        pairs=tuple(pairs), lost=tuple(loose.old_rest), gained=tuple(loose.new_rest)
    )


def _loose_path(layout: Layout, path: str) -> str:
    return loose_name(plain_path(layout, path))


class _Matching:
    """One way to match what is left."""

    def __init__(
        self,
        old: Package,
        new: Package,
        spell: Callable[[Layout, str], str],
        old_rest: Iterable[ObjectFile] | None = None,
        new_rest: Iterable[ObjectFile] | None = None,
    ) -> None:
        before = _by_key(old, spell, old.objects if old_rest is None else old_rest)
        after = _by_key(new, spell, new.objects if new_rest is None else new_rest)
        matched = {key for key in before if len(before[key]) == len(after.get(key, ()))}
        several = _find_fat(new.objects)
        self.pairs = [
            ObjectPair(
                subject=_name(plain_path(new.layout, two.path), two, several), old=one, new=two
            )
            for key in matched
            for one, two in zip(before[key], after[key], strict=True)
        ]
        self.old_rest = list(_others(before, matched))
        self.new_rest = list(_others(after, matched))


_Key = tuple[str, str]


def _by_key(
    package: Package, spell: Callable[[Layout, str], str], items: Iterable[ObjectFile]
) -> dict[_Key, list[ObjectFile]]:
    found: dict[_Key, list[ObjectFile]] = {}
    for item in sorted(items, key=lambda item: item.path):
        found.setdefault((spell(package.layout, item.path), item.architecture), []).append(item)
    return found


def _others(found: dict[_Key, list[ObjectFile]], matched: set[_Key]) -> Iterator[ObjectFile]:
    return (item for key, items in found.items() if key not in matched for item in items)


def _find_fat(items: Iterable[ObjectFile]) -> frozenset[str]:
    """The paths of files with several slices."""
    counted = Counter(item.path for item in items)
    return frozenset(path for path, slices in counted.items() if slices > 1)


def _name(path: str, item: ObjectFile, fat: frozenset[str]) -> str:
    return f"{path} ({item.architecture})" if item.path in fat else path
