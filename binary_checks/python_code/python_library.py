"""What Python's library gives on Windows, as far as paths go."""

from __future__ import annotations

import ntpath
from collections.abc import Callable, Mapping

from binary_checks.python_code.parsing import ParsingBudget
from binary_checks.python_code.possible_texts import (
    NOTHING,
    SOMETHING,
    UNKNOWN,
    Several,
    Texts,
    change,
    combine,
    unite,
)
from binary_checks.python_code.windows_paths import PREFIX, SITE, Places

NAMES: Mapping[str, Texts] = {
    "os.sep": frozenset({"\\"}),
    **dict.fromkeys(("os.pardir", "os.path.pardir"), frozenset({".."})),
    **dict.fromkeys(("sys.prefix", "sys.exec_prefix"), frozenset({PREFIX})),
    **dict.fromkeys(("os.environ", "os.path.expanduser", "os.path.expandvars"), NOTHING),
    **dict.fromkeys(("ctypes.util.find_library", "shutil.which"), NOTHING),
    "site.getsitepackages": Several({PREFIX, SITE}),
    "site.getusersitepackages": NOTHING,
}
"""What stands for these names, also when they are called."""

_LISTS = {f"builtins.{name}" for name in ("list", "tuple", "set", "sorted", "reversed", "filter")}
_PATHS = {"os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PureWindowsPath"}
_CHANGES: Mapping[str, Callable[[str], str]] = {
    **dict.fromkeys(("builtins.str", "os.fspath", "ctypes.c_wchar_p", "ctypes.c_char_p"), str),
    **dict.fromkeys((".absolute", ".as_posix", ".encode"), str),
    **dict.fromkeys(("os.path.abspath", "os.path.realpath", "os.path.normpath"), ntpath.normpath),
    ".resolve": ntpath.normpath,
    "os.path.dirname": ntpath.dirname,
    ".parent": lambda path: ntpath.dirname(path.rstrip("\\/")),
}


class PythonLibrary:
    """The functions, for the files of one package."""

    def __init__(self, places: Places, budget: ParsingBudget) -> None:
        self._places = places
        self._budget = budget

    def change(self, name: str, texts: Texts) -> Texts:
        """A function of one text, or an attribute of a path."""
        return change(self._budget, _CHANGES[name], texts)

    def call(self, name: str, given: list[Texts]) -> Texts:
        """A function by its full name."""
        first = given[0] if given else NOTHING
        found = NAMES.get(name, SOMETHING)
        if name in _LISTS:
            found = Several(given[-1] if given else NOTHING)
        elif name in {"os.environ.get", "os.getenv"}:
            found = unite(self._budget, given[1:2])
        elif name in _PATHS and given:
            found = combine(self._budget, ntpath.join, *given)
        elif name in {"glob.glob", "glob.iglob"}:
            found = self._match(first)
        elif name == "sysconfig.get_path" and first <= {"purelib", "platlib"}:
            found = frozenset({SITE})
        return self.change(name, first) if name in _CHANGES else found

    def call_method(self, name: str, texts: Texts, given: list[Texts]) -> Texts:
        """A method of a path or a text; all that is made of the user's is the user's."""
        if f".{name}" in _CHANGES:
            return self.change(f".{name}", texts)
        if name == "joinpath":
            return combine(self._budget, ntpath.join, texts, *given)
        if name == "with_suffix" and given:
            return combine(self._budget, _change_suffix, texts, given[0])
        if name == "glob" and given:
            return self._match(combine(self._budget, ntpath.join, texts, given[0]))
        return SOMETHING if texts - {""} else NOTHING

    def _match(self, patterns: Texts) -> Texts:
        known = {each for each in patterns if UNKNOWN not in each}
        found = unite(self._budget, (patterns - known, *map(self._places.match, known)))
        return Several(found)


def _change_suffix(path: str, suffix: str) -> str:
    return ntpath.splitext(path)[0] + suffix
