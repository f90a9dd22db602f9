"""The DLLs that a package's Python code may make Windows load, by the words in the code.

No code is interpreted: if it mentions the loading of DLLs, it may reach every DLL of the package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from binary_checks.model import Member

_ADDING = re.compile(rb"(?:add_dll_directory|AddDllDirectory)(?!\(os\.(?:environ|getenv)\b)")
"""A call that adds a folder; a folder that the user's environment names is not the package's."""
_OPENING = re.compile(rb"(?:LoadLibrary|(?:C|Win|Ole|Py)DLL|dlopen|load_library)")
_COMPUTED = re.compile(_OPENING.pattern + rb"\w{0,3}\(\s{0,8}[^\s\"')]")
"""A call that opens a file whose name the code computes: not ``WinDLL("kernel32")``."""
_PATCH = re.compile(rb"_delvewheel_patch")
"""A function that delvewheel writes into packages; it adds the folder of the bundled DLLs."""
_HINTS = (b"add_dll_", b"AddDll", b"LoadLib", b"DLL", b"dlopen", b"load_lib", b"_delvewheel_")
"""Parts of all these words, by which most code is skipped at once."""
_LONGEST = 32  # bytes of a word
_SUFFIXES = (".py", ".pth")
_TESTS = frozenset({"test", "tests", "testing", "conftest.py"})  # files that users never import


def is_source(path: str) -> bool:
    """Return whether a file is Python code that users' processes may run."""
    return path.endswith(_SUFFIXES) and _TESTS.isdisjoint(path.split("/"))


class DllLoading(NamedTuple):
    """The folders and code by which a package's DLLs are found on Windows; see ``Package``."""

    dll_directories: tuple[str, ...] = ()
    loading_code: tuple[str, ...] = ()


class LoadingSearch:
    """Searches sources for words about the loading of DLLs while they are streamed."""

    def __init__(self, is_searched: Callable[[str], bool] = is_source) -> None:
        """Search the members that ``is_searched`` chooses by name."""
        self._is_searched = is_searched
        self._found: dict[str, set[re.Pattern[bytes]]] = {}

    def watch(self, name: str) -> Callable[[bytes], object] | None:
        """Return a callback for the content of the named member, or None to skip the member."""
        if not self._is_searched(name):
            return None
        found = self._found[name] = set()
        tail = b""

        def see(piece: bytes) -> None:
            nonlocal tail
            code = tail + piece
            if any(hint in code for hint in _HINTS):
                words = (_ADDING, _OPENING, _COMPUTED, _PATCH)
                found.update(each for each in words if each.search(code))
            tail = code[-_LONGEST:]

        return see

    def conclude(self, members: Iterable[Member]) -> DllLoading:
        """Return every folder that holds a DLL, if code of the package mentions loading.

        Code that adds folders, or opens files under computed names, may also load DLLs of the user
        or of other packages. In a package without DLLs, only code that adds folders counts.
        """
        paths = {member.archive_name: member.path for member in members}
        dlls = (path for path in paths.values() if path.lower().endswith(".dll"))
        folders = {path.rpartition("/")[0] for path in dlls}
        ways = {_ADDING, _OPENING} if folders else {_ADDING}
        loading = {paths[name]: found for name, found in self._found.items() if found & ways}
        deciding = (
            path
            for path, found in loading.items()
            if found & {_ADDING, _COMPUTED} and _PATCH not in found
        )
        return DllLoading(tuple(sorted(folders)) if loading else (), tuple(sorted(deciding)))
