"""How macOS's dyld finds the needs of an image (dyld(1), dlopen(3), dyld's JustInTimeLoader)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property

from binary_checks.knowledge.tags import read_version
from binary_checks.loaders.file_layout import Conventions, FileLayout
from binary_checks.loaders.loader import (
    Directory,
    Loader,
    SearchPath,
    SearchResult,
)
from binary_checks.model import (
    Kind,
    MachOFile,
    Package,
    Rule,
    TargetSystem,
    expand_load_path,
    normalise,
)

_RPATH = "@rpath/"  # replaced by each run path (dyld(1))
# The interpreter's library, in a framework build or a shared build.
_LIBPYTHON = re.compile(
    r"(?:.*/)?(?:Python3?\.framework/(?:Versions/3\.\d+t?/)?Python3?|libpython3(?:\.\d+t?)?\.dylib)"
)
_CORE_FOUNDATION = "/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation"
_LIBCXX = "/usr/lib/libc++.1.dylib"
_SYMBOL_PREFIXES = {
    # Names of namespace std, of its types and their tables; new, delete; functions of the ABI.
    # Images share their definitions, so they bind them as flat names, on each macOS.
    _LIBCXX: (
        *("_ZSt", "_ZNSt", "_ZNKSt", "_ZTISt", "_ZTSSt", "_ZTVSt", "_ZTTSt", "_ZTINSt", "_ZTSNSt"),
        *("_ZTVNSt", "_ZTTNSt", "_Znw", "_Zna", "_Zdl", "_Zda", "__cxa_", "__gxx_"),
    ),
    _CORE_FOUNDATION: ("CF", "kCF", "__CF"),
    "/usr/lib/libobjc.A.dylib": ("objc_", "OBJC_"),
    "/usr/lib/libiconv.2.dylib": ("iconv", "libiconv"),
}
# Libraries that load nothing but libSystem and libc++, as their public sources call nothing else.
# Frameworks are not among them: Foundation loads CarbonCore, which defines FSPathMakeRef, a flat
# name of pyobjc_core 13.0.
_LOADING_NOTHING = frozenset(
    f"/usr/lib/lib{name}.dylib"
    for name in ("bz2.1.0", "expat.1", "ffi", "iconv.2", "objc.A", "resolv.9", "z.1")
)
_FRAMEWORK = re.compile(r"(?:\A|/)([^/]+\.framework/.+)\Z")
_FRAMEWORKS = "/System/Library/Frameworks/"
_FIRST_IN_DOUBT, _FIRST_WITHOUT_FALLBACK = (13, 0), (14, 0)  # SDKs of macOS
_SYSTEMS_OWN = ("/usr/lib/", "/System/")


class Dyld(Loader[MachOFile]):
    """dyld, for one layout.

    If a need's name begins with ``@`` and no file has that path, dyld searches for the last
    component of the name: a library in /usr/local/lib and /usr/lib, a framework in
    /System/Library/Frameworks. It does so only if the image with the need was linked with the SDK
    of macOS 12 or older (dyld(1), DYLD_FALLBACK_LIBRARY_PATH; ``pre2022Binary`` in dyld's source).
    For the SDK of macOS 13, the manual page ("Fall 2023") and the source contradict each other.
    """

    def __init__(
        self,
        package: Package,
        others: tuple[Package, ...],
        target: TargetSystem,
    ) -> None:
        conventions: Conventions[MachOFile] = Conventions(name=leaf_name)
        layout = FileLayout(package, others, kind=MachOFile, conventions=conventions)
        super().__init__(layout, target)

    def begin(self, root: MachOFile) -> SearchPath:
        """Return the program's directory (``@executable_path``); Python's is in no package."""
        programs = root.directory if root.kind is Kind.EXECUTABLE else self.layout.prefix.python
        return self._paths.make((), program=programs)

    def hand_down(self, library: MachOFile, handed: SearchPath) -> SearchPath:
        """Return the library's own LC_RPATHs, then the LC_RPATHs of the images that led to it."""

        def expand(library: MachOFile) -> tuple[Directory, ...]:
            return tuple(
                Directory(
                    directory=expand_load_path(element, library.directory, handed.program),
                    rule=Rule.RPATH,
                    absolute=element if element.startswith("/") else "",
                )
                for element in library.rpaths
            )

        return self._paths.extend(library, expand, handed)

    def search(self, library: MachOFile, handed: SearchPath) -> SearchPath:
        """Return all run paths handed down, including the library's own."""
        del library
        return handed

    def find(self, library: MachOFile, name: str, places: SearchPath) -> SearchResult[MachOFile]:
        """Look up the name in a load command of an image with these run paths."""
        if name.startswith(_RPATH):
            return self._search(library, name.removeprefix(_RPATH), places)
        place = expand_load_path(name, library.directory, places.program)
        if place is not None:
            at_program = name.startswith("@executable_path")
            rule = Rule.EXECUTABLE_PATH if at_program else Rule.LOADER_PATH
            found = self._open(library, place, rule)
            return found or self._fall_back(library, name, (place.rpartition("/")[0],))
        return self._ask_system(name)

    def called(self, name: str) -> str:
        """Return the name; "" for a name relative to a folder, which dyld compares only by path."""
        return "" if name.startswith(("@loader_path/", "@executable_path/")) else name

    def answers_to(self, library: MachOFile, requested: str) -> tuple[str, ...]:
        """Return the library's install name, regardless of the name under which it was found."""
        del requested
        return (library.name,) if library.name else ()

    def preloaded(self) -> dict[str, str]:
        """Return libSystem, CoreFoundation, which every Python is linked with, and libc++.

        CoreFoundation loads ICU, which is written in C++ (samplerate 0.2.4 relies on it).
        """
        names = ("/usr/lib/libSystem.B.dylib", _CORE_FOUNDATION, _LIBCXX)
        return {name: f"system:{name}" for name in names if name in self.target.libraries}

    def symbol_prefixes(self, library: str) -> tuple[str, ...]:
        """Return prefixes of symbols that belong only to this library."""
        return _SYMBOL_PREFIXES.get(library, ())

    def never_flat(self, library: MachOFile) -> Collection[str]:
        """Return the needed libraries that load no others, for an object with two-level names.

        A linker binds a name to the needed library that defines it. A name that it left to
        ``-undefined dynamic_lookup`` is in none of these, but may be in a library that they load.
        """
        needed = {need.name for need in library.needed} if library.two_level_namespace else ()
        return _LOADING_NOTHING.intersection(needed)

    def _search(self, library: MachOFile, rest: str, handed: SearchPath) -> SearchResult[MachOFile]:
        """Replace ``@rpath`` by each run path."""
        systems, ending = self._system_by_leaf.get(leaf_name(rest), ()), f"/{rest}"
        absolute = {each.removesuffix(ending) for each in systems if each.endswith(ending)}
        for place in handed.having(rest, absolute=absolute):
            searched = handed.searched(place)
            if place.directory is None:
                named = f"{place.absolute.rstrip('/')}{ending}"
                if named in self.target.libraries:
                    return SearchResult(
                        resolved=f"system:{named}", rule=Rule.SYSTEM, searched=searched
                    )
                continue
            found = self._open(library, f"{place.directory}{ending}", Rule.RPATH, searched)
            if found:
                return found
        return self._fall_back(library, rest, handed.directories)

    @cached_property
    def _system_by_leaf(self) -> Mapping[str, tuple[str, ...]]:
        """The system's libraries, by the last components of their names."""
        found: dict[str, list[str]] = {}
        for name in self.target.libraries:
            found.setdefault(leaf_name(name), []).append(name)
        return {leaf: tuple(names) for leaf, names in found.items()}

    def _fall_back(
        self, library: MachOFile, name: str, searched: tuple[str, ...]
    ) -> SearchResult[MachOFile]:
        """Return the result for a name that no package has.

        The library may be Python's, or a system library that dyld finds by an old default.
        """
        python = self._python(name)
        if python is not None:
            return python
        framework = _FRAMEWORK.search(name)
        system = f"{_FRAMEWORKS}{framework[1]}" if framework else f"/usr/lib/{leaf_name(name)}"
        if system not in self.target.libraries and system not in self.target.partly:
            return SearchResult(searched=searched)
        sdk = read_version(library.sdk) if library.sdk else (0, 0)
        if sdk >= _FIRST_WITHOUT_FALLBACK:
            return SearchResult(searched=searched)
        if sdk >= _FIRST_IN_DOUBT:
            doubt = f"it is uncertain whether dyld falls back to {system} for SDK {library.sdk}"
            return SearchResult(searched=searched, unknown=doubt)
        if system in self.target.partly:
            return SearchResult(searched=searched, partly=self.target.partly[system])
        return SearchResult(resolved=f"system:{system}", rule=Rule.FALLBACK, searched=searched)

    def _open(
        self, library: MachOFile, path: str, rule: Rule, searched: tuple[str, ...] = ()
    ) -> SearchResult[MachOFile] | None:
        """Return the file at a path of the layout, if it has a slice for the process."""
        path = normalise(path.lstrip("/"))
        files = self.layout.find("", path)
        fitting = next((f for f in files if f.architecture == library.architecture), None)
        if fitting is None and not self.layout.is_unread("", path):
            return None
        resolved = self.layout.label(fitting.path if fitting else path)
        return SearchResult(resolved=resolved, rule=rule, searched=searched, library=fitting)

    def _ask_system(self, name: str) -> SearchResult[MachOFile]:
        """Return the result for an absolute path: found in the system, in Python, or unknown."""
        if name in self.target.libraries:
            return SearchResult(resolved=f"system:{name}", rule=Rule.SYSTEM)
        python = self._python(name)
        if python is not None:
            return python
        if name in self.target.partly:
            return SearchResult(partly=self.target.partly[name])
        system = name.startswith(_SYSTEMS_OWN)
        return SearchResult(unknown="no list of the system's libraries has it" if system else "")

    def _python(self, name: str) -> SearchResult[MachOFile] | None:
        """Return the result for the interpreter's own library, or None."""
        if _LIBPYTHON.fullmatch(name):
            return SearchResult(resolved=f"python:{name}", rule=Rule.PYTHON)
        return None


def leaf_name(name: str) -> str:
    """Return the last component of an install name or path, by which libraries are compared."""
    return name.rpartition("/")[2]
