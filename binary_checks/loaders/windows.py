"""How Windows finds the DLLs of modules that CPython 3.8 and later loads.

Python calls LoadLibraryExW with LOAD_LIBRARY_SEARCH_DEFAULT_DIRS and
LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR (Python/dynload_win.c). Windows then searches the module's
directory, the program's directory, directories added by ``os.add_dll_directory``, and System32, but
neither PATH nor the current directory.
"""

from __future__ import annotations

import re

from binary_checks.loaders.file_layout import Conventions, FileLayout
from binary_checks.loaders.loader import (
    Directory,
    Loader,
    SearchPath,
    SearchResult,
)
from binary_checks.model import Kind, Package, PeFile, Rule, TargetSystem

# "Windows API sets" (Microsoft): name, major, minor and subversion of a contract
_API_SET = re.compile(r"(?:api|ext)-[a-z0-9-]+-l\d+-\d+-\d+(?:\.dll)?")
# DLLs next to python.exe in any Python for Windows. For CPython there are exact data.
_ANY_PYTHONS = r"vcruntime140(?:_1)?\.dll|libpypy3(?:\.\d+)?-c\.dll|python3\d*t?\.dll"


_NATIVE = 1  # IMAGE_SUBSYSTEM_NATIVE: a driver of the kernel, or a program that runs before Windows
# What the kernel itself has for drivers, by the import libraries of the Windows Driver Kit.
_KERNEL = re.compile(
    r"ntoskrnl\.exe|(?:hal|bootvid|kdcom|pshed)\.dll|(?:bda|battc|classpnp|clfs|cng|dmusic|drmk|"
    r"dxgkrnl|fltmgr|fwpkclnt|hidclass|hidparse|ks|ksecdd|msrpc|mup|ndis|netio|portcls|rdbss|"
    r"scsiport|storport|stream|tbs|tdi|usbd|usbport|videoprt|watchdog|wdfldr|win32k|wmilib|"
    r"wpprecorder)\.sys"
)


class WindowsLoader(Loader[PeFile]):
    """The loader of Windows, for one layout."""

    def __init__(
        self,
        package: Package,
        others: tuple[Package, ...],
        target: TargetSystem,
    ) -> None:
        conventions = Conventions(name=normalise_dll_name, by_file=True, path=str.lower, fits=fits)
        layout = FileLayout(package, others, kind=PeFile, conventions=conventions)
        super().__init__(layout, target)
        packages = (package, *others)
        self._deciding = tuple(path for each in packages for path in each.loading_code)
        stated = map(package.layout.place, target.dll_directories)
        added = [*stated, *(d for each in packages for d in each.dll_directories)]
        if self._deciding:
            # Such code may also add folders of other packages: PySide6 adds those of shiboken6.
            images = (item for each in others for item in each.objects_of(PeFile))
            added += (i.directory for i in images if i.file_name.lower().endswith(".dll"))
        self._others = (
            Directory(directory=self.layout.prefix.python, rule=Rule.APPLICATION),
            *(
                Directory(directory=each, rule=Rule.ADDED_DIRECTORY)
                for each in dict.fromkeys(added)
            ),
        )
        self._begun: dict[tuple[str, Kind], SearchPath] = {}

    def begin(self, root: PeFile) -> SearchPath:
        """Return the directories for all needs of the root; its own directory comes first.

        A program has only its own directory.
        """
        key = root.directory, root.kind
        if key not in self._begun:
            own = Directory(directory=root.directory, rule=Rule.SIBLING)
            others = () if root.kind is Kind.EXECUTABLE else self._others
            self._begun[key] = self._paths.make((own, *others))
        return self._begun[key]

    def hand_down(self, library: PeFile, handed: SearchPath) -> SearchPath:
        """Return the same directories for all needs below one root."""
        del library
        return handed

    def search(self, library: PeFile, handed: SearchPath) -> SearchPath:
        """Return the directories of the process."""
        del library
        return handed

    def find(self, library: PeFile, name: str, places: SearchPath) -> SearchResult[PeFile]:
        """Look up the name in an import descriptor; the kernel loads drivers, and has libraries."""
        called = normalise_dll_name(name)
        if library.subsystem == _NATIVE and _KERNEL.fullmatch(called):
            return SearchResult(resolved=f"system:{called}", rule=Rule.SYSTEM)
        return self._look_for(library, called, places)

    def called(self, name: str) -> str:
        """Return the base name: a loaded DLL with that base name satisfies the need."""
        return normalise_dll_name(name)

    def answers_to(self, library: PeFile, requested: str) -> tuple[str, ...]:
        """Return the library's base name."""
        del requested
        return (normalise_dll_name(library.file_name),)

    def preloaded(self) -> dict[str, str]:
        """Return Python's own DLL, and the C runtime that Python is linked with."""
        python = self.target.interpreter
        return {name: f"python:{name}" for name in python.libraries} if python else {}

    def _look_for(self, library: PeFile, name: str, handed: SearchPath) -> SearchResult[PeFile]:
        if _API_SET.fullmatch(name):
            return self._ask_schema(name)
        pythons = self._find_python(name, handed)
        for place in handed.having(name, also=pythons):
            directory = place.directory or ""
            files = self.layout.find(directory, name)
            fitting = next((each for each in files if fits(each, library.architecture)), None)
            if fitting or self.layout.is_unread(directory, name):
                path = fitting.path if fitting else f"{directory}/{name}".lstrip("/")
                return SearchResult(
                    resolved=self.layout.label(path),
                    rule=place.rule,
                    searched=handed.searched(place),
                    library=fitting,
                )
            if directory in pythons:
                searched = handed.searched(place)
                return SearchResult(resolved=f"python:{name}", rule=Rule.PYTHON, searched=searched)
        return self._ask_system(name, handed)

    def _find_python(self, name: str, handed: SearchPath) -> tuple[str, ...]:
        """Return Python's own directory if it has a DLL with this name.

        Return () in a process of the package's own program, where that directory is not searched.
        """
        python = self.target.interpreter
        known = python.libraries if python else ()
        has = name in known if known else re.fullmatch(_ANY_PYTHONS, name) is not None
        return (self.layout.prefix.python,) if has and _is_of_python(handed) else ()

    def _ask_system(self, name: str, handed: SearchPath) -> SearchResult[PeFile]:
        own = handed.without(self.layout.prefix.python)
        if name in self.target.libraries:
            return SearchResult(resolved=f"system:{name}", rule=Rule.SYSTEM, searched=own)
        if name in self.target.partly:
            return SearchResult(searched=own, partly=self.target.partly[name])
        if self._deciding and _is_of_python(handed) and self.layout.has(name):
            decides = self.layout.prefix.shorten(self._deciding[0])
            code = f"{decides} decides at run time where DLLs are looked for"
            return SearchResult(searched=own, unknown=code)
        return SearchResult(searched=own)

    def _ask_schema(self, name: str) -> SearchResult[PeFile]:
        """Return the result for an API set, which is resolved before files are searched.

        The last number of the name is ignored.
        """
        if name.removesuffix(".dll").rpartition("-")[0] in self.target.libraries:
            return SearchResult(resolved=f"system:{name}", rule=Rule.API_SET)
        return SearchResult(unknown="no list of Windows's API sets has it")


def _is_of_python(places: SearchPath) -> bool:
    """Return whether a process of Python searches the directories, not a program of the package."""
    return any(each.rule is Rule.APPLICATION for each in places.own[:2])


def normalise_dll_name(name: str) -> str:
    """Return a DLL's base name as the loader compares it: lower case, with a suffix."""
    lowered = name.lower()
    return lowered if "." in lowered or not lowered else f"{lowered}.dll"


def fits(item: PeFile, architecture: str) -> bool:
    """Return whether an image may be loaded into a process of this architecture."""
    hybrid = item.architecture == "arm64x" and architecture in {"aarch64", "arm64ec"}
    return not item.managed and (item.architecture == architecture or hybrid)
