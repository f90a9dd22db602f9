"""Which distribution a library belongs to, by its name alone, as long as nobody has given it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from binary_checks.knowledge.grafted_names import is_grafted_name
from binary_checks.knowledge.nvidia_names import is_cuda_library
from binary_checks.knowledge.visual_cpp import is_beside_python, is_redistributable
from binary_checks.profile.toml_values import read_toml

_TABLES = Path(__file__).with_suffix(".toml")
_FIRST_WORD = re.compile(r"(?:lib)?([A-Z]*[a-z]*[0-9]*)")
_SHORTEST = 3  # letters of a word that tells of anything
_DRIVERS_OWN = "cuda"  # libcuda.so.1 comes with the driver, and in none of nvidia's wheels
_NOT_A_NAME = frozenset({"python", "the", "lib"})

_QT = re.compile(r"(?:lib)?Qt[56]?(?P<part>(?:3D|[A-Z])\w*)")


_Tells = Callable[[str], bool]


class Framework(NamedTuple):
    """Libraries that one distribution has alone, by what their names begin with."""

    libraries: re.Pattern[str]
    core: re.Pattern[str]  # of those, what no user of it does without


class _Tables(NamedTuple):
    """What shipped_names.toml says, each as a question to a name."""

    has: tuple[tuple[_Tells, re.Pattern[str]], ...]
    has_nothing_else: _Tells
    of_nvidia: _Tells
    fills_prefix: _Tells
    of_nobody: _Tells
    frameworks: Mapping[str, Framework]


@lru_cache(maxsize=1)
def _read_tables() -> _Tables:
    tables = read_toml(_TABLES, _TABLES.name)

    def tell(table: str, key: str = "distributions") -> _Tells:
        known = [re.compile(row[key]) for row in tables[table]]
        return lambda name: any(each.fullmatch(name) for each in known)

    def match(expression: str) -> _Tells:
        known = re.compile(expression)
        return lambda name: known.fullmatch(name) is not None

    return _Tables(
        has=tuple(
            (match(row["distributions"]), re.compile(row["libraries"])) for row in tables["has"]
        ),
        has_nothing_else=tell("has_nothing_else"),
        of_nvidia=tell("of_nvidia"),
        fills_prefix=tell("fills_prefix"),
        of_nobody=tell("of_nobody", "libraries"),
        frameworks={
            row["distributions"]: Framework(re.compile(row["libraries"]), re.compile(row["core"]))
            for row in tables["framework"]
        },
    )


def list_frameworks() -> Mapping[str, Framework]:
    """The frameworks by the names of their distributions."""
    return _read_tables().frameworks


def find_shippers(needed: str, requirements: Iterable[str]) -> tuple[str, ...]:
    """The requirements that are known to have a library, or that it is called after.

    libQt6Core.so.6 may be of pyqt6-qt6, libcudnn_ops.so.9 of nvidia-cudnn-cu13, torch_cpu.dll and
    libc10.so of torch, glew32.dll of kivy-deps-glew. A word that several have tells of none.
    """
    requirements, name = _list(requirements), needed.rpartition("/")[2]
    if is_grafted_name(name):
        return ()
    if known := find_known_shippers(needed, requirements):
        return known
    word, stem = first_word(name), find_stem(name)
    if word == _DRIVERS_OWN:
        return ()
    if whole := requirements.named_as(stem):
        return whole
    if not word and re.fullmatch(r"[a-z]\d", stem):
        word = stem  # libz3 of z3-solver: two letters tell of nothing, a number beside one does
    for spelled in dict.fromkeys((word, _without_number(word), f"lib{word}" if word else "")):
        named = list(requirements.by_word.get(spelled, ())) if spelled else []
        if len(named) > 1:
            named = [each for each in named if each == spelled]
        if len(named) == 1:
            return tuple(named)
    return ()


def find_known_shippers(needed: str, requirements: Iterable[str]) -> tuple[str, ...]:
    """Those of the requirements whose wheels are known to have a library of that name."""
    requirements, name = _list(requirements), needed.rpartition("/")[2]
    if is_grafted_name(name):
        return ()
    plain = name.removeprefix("lib")
    has = (each for each, patterns in requirements.known if any(p.match(plain) for p in patterns))
    return tuple(has) or _of_cuda(name, requirements)


def _of_cuda(name: str, requirements: RequiredNames) -> tuple[str, ...]:
    """Of those that bring CUDA all may have a library of it; torch requires them in its turn.

    cuda-pathfinder has none, but finds and loads what others have.
    """
    if not is_cuda_library(name):
        return ()
    word = first_word(name)
    if word == _DRIVERS_OWN:
        return ()
    named = tuple(filter(_read_tables().of_nvidia, requirements.by_word.get(word, ())))
    return named or requirements.of_nvidia or requirements.torch


def fills_prefix(requirement: str) -> bool:
    """Whether it puts libraries into the environment's own ``lib``, as Intel's wheels do."""
    return _read_tables().fills_prefix(requirement)


def may_have(requirement: str, needed: str) -> bool:
    """Whether nothing speaks against its having a library of that name."""
    if not may_be_required(needed):
        return False
    if _read_tables().of_nvidia(requirement):
        return is_nvidias(needed)
    return not _read_tables().has_nothing_else(requirement)


def may_be_required(needed: str) -> bool:
    """Whether any requirement may have a library of that name, rather than a driver or a system."""
    return not _read_tables().of_nobody(needed.rpartition("/")[2])


def is_nvidias(needed: str) -> bool:
    """Whether a library is called as those of NVIDIA's wheels are."""
    return first_word(needed).startswith(("cu", "nv", "npp", "nccl"))


def first_word(name: str) -> str:
    """What a library's name begins with, ``qt6`` of libQt6Core.so.6; "" where that is too short."""
    match = _FIRST_WORD.match(name.rpartition("/")[2])
    word = match[1].lower() if match else ""
    return word if len(word) >= _SHORTEST else ""


def find_stem(name: str) -> str:
    """A library's name as a distribution of that name spells it: openvino of libopenvino.so.2."""
    plain = name.rpartition("/")[2].removeprefix("lib")
    return re.sub(r"[-_.]+", "-", re.split(r"\.(?:so|dylib|dll)\b|\.\d", plain)[0]).lower()


def _strip_name(requirement: str) -> str:
    return re.sub(r"^lib|-cu1\d$", "", requirement)


def find_qt_sibling(distribution: str, needed: str) -> str:
    """The wheel with Qt itself that a wheel with a part of it is installed beside; "" for others.

    PyQt6-WebEngine-Qt6 requires nothing: PyQt6-WebEngine requires it, and PyQt6 in its turn
    pyqt6-qt6, which has libQt6Core.so.6 in the same folder and, on Windows, Microsoft's runtime.
    """
    match = re.fullmatch(
        r"pyqt(?:webengine|(?P<of>[56])-(?P<part>.+))-qt(?P<qt>[56])", distribution
    )
    if not match:
        return ""
    part = (match["part"] or "webengine").replace("-", "")
    library = _QT.match(needed.rpartition("/")[2])
    theirs = library is not None and not library["part"].lower().startswith(part)
    runtime = is_redistributable(needed) or is_beside_python(needed)
    return f"pyqt{match['qt']}-qt{match['qt']}" if theirs or runtime else ""


def are_of_one_name(one: str, other: str) -> bool:
    """Whether two distributions are called alike: pyside6-addons and pyside6-essentials."""
    first = one.partition("-")[0]
    return len(first) >= _SHORTEST and first not in _NOT_A_NAME and first == other.partition("-")[0]


class RequiredNames:
    """The names of requirements, by what is asked of them for each of thousands of libraries."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.known: list[tuple[str, list[re.Pattern[str]]]] = []
        """Those of which libraries are known, with what these are called."""
        self.by_word: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for name in self.names:
            theirs = [its for whose, its in _read_tables().has if whose(name)]
            if theirs:
                self.known.append((name, theirs))
            for word in dict.fromkeys(name.split("-")):
                self.by_word.setdefault(word, []).append(name)
            self._by_stem.setdefault(_strip_name(name), []).append(name)
        self.of_nvidia = tuple(filter(_read_tables().of_nvidia, self.names))
        self.torch = tuple(name for name in self.names if name == "torch")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def named_as(self, stem: str) -> tuple[str, ...]:
        """Those that are a library's own, by its name."""
        spelled = (stem, f"lib{stem}") if stem else ()
        return tuple(name for each in spelled for name in self._by_stem.get(each, ()))


def _list(requirements: Iterable[str]) -> RequiredNames:
    return requirements if isinstance(requirements, RequiredNames) else RequiredNames(requirements)


def _without_number(word: str) -> str:
    bare = word.rstrip("0123456789")
    return bare if len(bare) >= _SHORTEST else ""
