"""What the functions and constants of Python's library give on Windows, as far as paths go."""

from __future__ import annotations

import ntpath
from collections.abc import Callable
from itertools import takewhile
from pathlib import PureWindowsPath

from binary_checks.packages.python_code.places import PREFIX, SITE, Places, make_absolute, relative
from binary_checks.packages.python_code.values import (
    FOREIGN,
    NONE,
    UNKNOWN,
    Items,
    Mark,
    Values,
    Within,
    combine,
    elements,
    gather,
    known,
    unite,
)

CONSTANTS: dict[str, Values] = {
    "os.name": known("nt"),
    "os.sep": known("\\"),
    "os.altsep": known("/"),
    "os.pardir": known(".."),
    "os.curdir": known("."),
    "os.pathsep": known(";"),
    "os.path.sep": known("\\"),
    "os.path.pardir": known(".."),
    "os.path.curdir": known("."),
    "sys.platform": known("win32"),
    "sys.executable": known(f"{PREFIX}\\python.exe", f"{PREFIX}\\Scripts\\python.exe"),
    "sys.path": known(Items(values=(known(SITE), FOREIGN), exact=False)),
    "site.USER_SITE": FOREIGN,
    "site.USER_BASE": FOREIGN,
    "typing.TYPE_CHECKING": known(False),
    "sys.prefix": known(PREFIX),
    "sys.exec_prefix": known(PREFIX),
    "sys.base_prefix": known(PREFIX, Mark.FOREIGN),  # that of a virtual environment's Python
    "sys.base_exec_prefix": known(PREFIX, Mark.FOREIGN),
}

_SCHEME = {
    **dict.fromkeys(("purelib", "platlib"), SITE),
    "data": PREFIX,
    "scripts": f"{PREFIX}\\Scripts",
    "stdlib": f"{PREFIX}\\Lib",
    "platstdlib": f"{PREFIX}\\Lib",
    "include": f"{PREFIX}\\Include",
}
_SAME = ("sorted", "list", "tuple", "set", "frozenset", "reversed", "iter")
_OTHERS = {
    "os": ("getcwd", "get_exec_path", "path.expanduser", "path.expandvars"),
    "site": ("getusersitepackages", "getuserbase"),
    "pathlib.Path": ("home", "cwd"),
    "ctypes.util": ("find_library",),
    "shutil": ("which",),
    "sysconfig": ("get_config_var",),
    "tempfile": ("gettempdir", "mkdtemp"),
    "winreg": ("OpenKey", "QueryValueEx"),
}


def as_items(values: tuple[object, ...] | list[object]) -> Items:
    """A list of values that are known."""
    return Items(values=tuple(known(value) for value in values))


def _join(*parts: object) -> object:
    if None in parts:
        return Mark.FOREIGN  # the call fails, as where an environment variable is missing
    if len(parts) == 1:
        return parts[0]
    return ntpath.join(*(demand_text(part) for part in parts))


def demand_text(value: object) -> str:
    """The text of a text or a path; TypeError where it is neither."""
    if isinstance(value, (str, PureWindowsPath)):
        return str(value)
    raise TypeError


def join_paths(*parts: Values) -> Values:
    """``os.path.join``; a name that is not known, in a directory that is, leaves the directory."""
    known_parts = tuple(takewhile(lambda part: part != UNKNOWN, parts))
    if known_parts == parts or not known_parts:
        return combine(_join, *parts)
    within = _some_file if len(known_parts) == len(parts) - 1 else _lose
    return combine(
        lambda folder: Mark.FOREIGN if relative(folder) is None else within(demand_text(folder)),
        combine(_join, *known_parts),
    )


def _some_file(directory: str) -> Within:
    return Within(directory=directory)


def _lose(_: str) -> object:
    return Mark.UNKNOWN


def as_path(*parts: Values) -> Values:
    """``pathlib.Path``."""
    return combine(
        lambda text: (
            text if isinstance(text, (Within, Mark)) else PureWindowsPath(demand_text(text))
        ),
        join_paths(*parts),
    )


def _same(values: Values, *_: Values) -> Values:
    return values


def loosen(*values: Values) -> Values:
    """A list of the same elements, in some other order."""
    return gather(elements(values[0])) if values else known(Items())


def _foreign(*_: Values) -> Values:
    return FOREIGN


def _from_environment(*arguments: Values) -> Values:
    return unite((FOREIGN, arguments[1] if len(arguments) > 1 else NONE))


def _text_of(value: object) -> object:
    return value if isinstance(value, Within) else str(value)


def _pure(function: Callable[..., object]) -> Callable[..., Values]:
    return lambda *arguments: combine(function, *arguments)


def _on_text(function: Callable[[str], object]) -> Callable[..., Values]:
    return _pure(lambda place: Mark.FOREIGN if place is None else function(demand_text(place)))


def _find_folder(place: object) -> object:
    if place is None:
        return Mark.FOREIGN
    return place.directory if isinstance(place, Within) else ntpath.dirname(demand_text(place))


_FUNCTIONS: dict[str, Callable[..., Values]] = {
    "os.path.join": join_paths,
    "os.path.dirname": _pure(_find_folder),
    "os.path.basename": _on_text(ntpath.basename),
    "os.path.normpath": _on_text(ntpath.normpath),
    "os.path.normcase": _on_text(ntpath.normcase),
    "os.path.split": _on_text(lambda text: as_items(ntpath.split(text))),
    "os.path.splitext": _on_text(lambda text: as_items(ntpath.splitext(text))),
    "os.path.isabs": _on_text(ntpath.isabs),
    "os.path.abspath": _pure(make_absolute),
    "os.path.realpath": _pure(make_absolute),
    "os.fspath": _pure(_text_of),
    "os.fsdecode": _pure(_text_of),
    "os.fsencode": _pure(_text_of),
    "builtins.str": _pure(_text_of),
    "ctypes.c_wchar_p": _same,
    "ctypes.c_char_p": _same,
    "os.getenv": _from_environment,
    "os.environ.get": _from_environment,
    "platform.system": lambda: known("Windows"),
    "platform.python_implementation": lambda: known("CPython"),
    "site.getsitepackages": lambda: known(as_items((PREFIX, SITE))),
    "sysconfig.get_path": lambda name, *_: combine(lambda key: _SCHEME[key], name),
    "distutils.sysconfig.get_python_lib": lambda *_: known(SITE),
    "importlib.resources.as_file": _same,
    "builtins.range": lambda *_: UNKNOWN,
    **{
        f"pathlib.{name}": as_path
        for name in ("Path", "PurePath", "WindowsPath", "PureWindowsPath")
    },
    **{f"builtins.{name}": loosen for name in _SAME},
    **{f"{module}.{name}": _foreign for module, names in _OTHERS.items() for name in names},
}
_ALIASES = {"ntpath": "os.path", "importlib_resources": "importlib.resources"}


def call_library(name: str, arguments: tuple[Values, ...], places: Places) -> Values | None:
    """Call a function of Python's own library; None where nothing is said of it here."""
    for alias, real in _ALIASES.items():
        if name.startswith(f"{alias}."):
            name = real + name.removeprefix(alias)
    if name in {"os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.lexists"}:
        return ask(places.exists, *arguments)
    if name in {"glob.glob", "glob.iglob"} and arguments:
        return unite(match(value, places) for value in arguments[0])
    if name == "os.listdir" and arguments:
        return combine(lambda place: as_items(places.names(place)), arguments[0])
    if (function := _FUNCTIONS.get(name)) is None:
        return None
    try:
        return function(*arguments)
    except (TypeError, IndexError):
        return UNKNOWN


def ask(exists: Callable[[object], bool | None], *arguments: Values) -> Values:
    """Whether there is such a file: yes, or unknown."""
    answers = combine(lambda place: exists(place) or Mark.UNKNOWN, *arguments[:1])
    return answers if answers == known(True) else UNKNOWN


def match(pattern: object, places: Places) -> Values:
    """What of the wheel fits a pattern."""
    if isinstance(pattern, (str, PureWindowsPath)):
        return places.match(str(pattern))
    return known(pattern) if pattern is Mark.FOREIGN else UNKNOWN
