"""Whether libraries that objects open by name at run time exist."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.grafted_names import strip_graft
from binary_checks.knowledge.python_dlls import is_python_dll
from binary_checks.knowledge.unloaded_objects import find_unloaded
from binary_checks.knowledge.vendor_families import complete_names
from binary_checks.knowledge.visual_cpp import is_debug_runtime, is_redistributable
from binary_checks.model import (
    Finding,
    Format,
    Level,
    Linkage,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Problem,
    TargetSystem,
)
from binary_checks.wording.phrases import name_first

_DRIVERS = (
    "libcuda.so*",
    "libnvidia-*",
    "libnvcuvid.so*",
    "libnvoptix.so*",
    "lib*_nvidia.so*",
    "libamdhip64.so*",
    "libhsa-runtime64.so*",
    "libamfrt64.so*",
    "libmfx*.so*",
    "libze_loader.so*",
    "libOpenCL.so*",
    "libvulkan.*",
    "libibverbs.so*",
    "libmlx5.so*",
    "nvcuda.dll",
    "nvml.dll",
    "nvapi*.dll",
    "nvencodeapi*.dll",
    "nvcuvid.dll",
    "opencl.dll",
    "vulkan-1.dll",
    "amfrt64.dll",
    "amdhip64*.dll",
    "atiadl*.dll",
    "libmfx*.dll",
    "mfxplugin*.dll",
    "ze_loader.dll",
)
_ENDING = r"(?i)\.so(?=$|\.)|(?:\.\d+)*\.dylib$|\.dll$"
_MOST = 8  # names in a sentence


@check(enabled=False, level=Level.WARNING)
def opened_library_missing(
    linkage: Linkage,
    package: Package,
    target: TargetSystem,
    *,
    optional: tuple[str, ...] = _DRIVERS,
) -> Iterator[Finding]:
    """A library that code opens by name at run time exists only under another name.

    Off by default. The names are whole strings in the read-only data of objects that can open
    libraries (``dlopen``, ``LoadLibrary``). They do not show whether or when one is opened, nor
    whether the code completes it; adding the library's own version, as cuDNN does, is handled.
    Where a library has several names, one that exists is enough. Libraries that exist under no name
    are noted: most are optional. ``optional`` are globs of libraries that only some machines have,
    such as drivers'. On Windows everything is noted, as repair tools leave the old names of renamed
    libraries behind.

    Why: no loader looks for the library at import; a feature is silently missing, or fails at its
    first use. ``libx.so`` without a number comes with development packages.
    Fix: open the soname that exists (``libx.so.1``), or accept it with what the code does then.
    Level: a string in a file does not show that the library is ever opened.
    """
    yield from find_unloaded(linkage, package)
    openers = [item for item in package.objects if item.format == linkage.format and item.opened]
    if not openers:
        raise NotApplicable("no object opens libraries by name")
    provided = _Provided.of(linkage, target, optional)
    nowhere: dict[str, list[str]] = {}
    for item in openers:
        lost = []
        for names in _find_lost(item, provided):
            there = provided.find(names[0])
            if there:
                yield Problem(path=item.path, sentence=_spell_other(names, there))
            else:
                lost += names
        if lost:
            nowhere.setdefault(name_first(lost, _MOST), []).append(item.path)
        if item.opened and item.opened.unread:
            sentence = f"the names by which it opens libraries: {item.opened.unread}"
            yield NotInspected(path=item.path, sentence=sentence, too_large=item.opened.too_large)
    for spelled, paths in nowhere.items():
        yield Note(path=paths[0], sentence=_spell_nowhere(spelled, len(paths) - 1, linkage))


def _spell_other(names: Collection[str], there: Collection[str]) -> str:
    return (
        f"has {name_first(names, _MOST)} among its strings, to open at run time, but the library "
        f"exists only as {name_first(there, _MOST)}: opening it by that name fails"
    )


def _spell_nowhere(names: str, others: int, linkage: Linkage) -> str:
    platform = linkage.target.partition(",")[0]
    given = ", nor a given wheel, nor" if linkage.given else " nor"
    too = f" (so may {others} more)" if others else ""
    return f"may open {names}{too}, which neither the package{given} {platform} provides"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Provided:
    """What may be opened on the target."""

    names: Mapping[str, tuple[str, ...]]  # of the layout and the system, by their stems
    optional: tuple[str, ...]
    on_windows: bool

    @classmethod
    def of(cls, linkage: Linkage, target: TargetSystem, optional: tuple[str, ...]) -> _Provided:
        system = (name.rpartition("/")[2] for name in (*target.libraries, *target.partly))
        names: dict[str, tuple[str, ...]] = {}
        for name in sorted(linkage.names.union(system)):
            names[_stem(name)] = (*names.get(_stem(name), ()), name)
        on_windows = linkage.format == Format.PE
        return cls(names=names, optional=optional, on_windows=on_windows)

    def spell(self, name: str) -> str:
        return name.lower() if self.on_windows else name

    def find(self, name: str) -> tuple[str, ...]:
        """What the library of that name is there as."""
        return self.names.get(_stem(self.spell(name)), ())

    def has(self, name: str) -> bool:
        """Whether such a name is there, or is nothing that a package would bring."""
        there, name = self.find(name), self.spell(name)
        if any(fnmatchcase(name, pattern) for pattern in self.optional):
            return True
        if self.on_windows:
            return bool(there) or _is_of_windows(name)
        return name in there or name.startswith("libpython")


def _is_of_windows(name: str) -> bool:
    tells = (is_python_dll, is_redistributable, is_debug_runtime)
    return name.startswith(("api-ms-", "ext-ms-")) or any(tell(name) for tell in tells)


def _stem(name: str) -> str:
    """The name without its ending, its version and what a repair tool put into it."""
    return re.split(_ENDING, strip_graft(name), maxsplit=1)[0]


def _find_lost(item: ObjectFile, provided: _Provided) -> Iterator[list[str]]:
    """The names of each library none of whose names is there, but the object itself."""
    own = {_stem(provided.spell(name)) for name in (item.name.rpartition("/")[2], item.file_name)}
    groups: dict[str, list[str]] = {}
    for name in item.opened.names if item.opened else ():
        groups.setdefault(_stem(provided.spell(name)), []).append(name)
    for stem, names in groups.items():
        if stem not in own and not any(provided.has(name) for name in complete_names(names, item)):
            yield names
