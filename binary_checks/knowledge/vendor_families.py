"""Knows which libraries of a vendor's family open others of it at run time.

No header of a file names them. A row says which strings of which library are names that it opens;
whether a version has a member, its own strings tell: cuDNN 9.1 names no engines_tensor_ir, 9.26
does. Tried on the vendor's wheels of CUDA 11 to 13, on Linux without each of the members.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from binary_checks.knowledge.grafted_names import strip_graft
from binary_checks.model import ObjectFile


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedMember:
    """A library that another one of its family opens."""

    name: str  # expression for its stem, without "lib" and endings
    without: str  # what users meet
    fatal: bool = True  # at calls that every user makes; else it lacks what few call


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenerRow:
    """A library that opens others of its family."""

    name: str  # expression for its stem
    members: tuple[OpenedMember, ...]
    entrance: bool = False
    """It does nothing itself: a package may have this one alone, and count on the user's rest."""
    whole: frozenset[str] = frozenset()
    """Stems of all that every version fails without, for a file whose strings were not all read."""


_64 = "(?:64)?"  # on Windows
_ENGINES = "convolutions and attention fail with CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"
_REFUSED = "its calls fail with CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"
_COMPILED = "what it compiles at run time fails, or runs by slower code"
_FAMILIES: Final = (
    OpenerRow(
        name=rf"cudnn{_64}",
        entrance=True,
        members=(
            OpenedMember(name=rf"cudnn_(?:graph|ops|cnn|adv){_64}", without=_REFUSED),
            OpenedMember(name=rf"cudnn_ext{_64}", without=_REFUSED, fatal=False),
            # cuDNN 8. Those for training have the gradients alone.
            OpenedMember(name=rf"cudnn_(?:ops|cnn)_infer{_64}", without=_REFUSED),
            OpenedMember(
                name=rf"cudnn_(?:adv_infer|\w+_train){_64}", without=_REFUSED, fatal=False
            ),
        ),
    ),
    OpenerRow(
        name=rf"cudnn_graph{_64}",
        whole=frozenset(
            {"cudnn_engines_precompiled", "cudnn_engines_runtime_compiled", "cudnn_heuristic"}
        ),
        members=(
            OpenedMember(
                name=rf"cudnn_(?:engines_(?:precompiled|runtime_compiled)|heuristic){_64}",
                without=_ENGINES,
            ),
            OpenedMember(name=rf"cudnn_engines_tensor_ir{_64}", without=_ENGINES, fatal=False),
        ),
    ),
    OpenerRow(
        name=rf"nvrtc{_64}",
        members=(
            OpenedMember(
                name=rf"nvrtc-builtins{_64}",
                without="each compilation fails with NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
            ),
        ),
    ),
    OpenerRow(
        name=rf"nvrtc{_64}\.alt",  # which only those open who ask for it
        members=(
            OpenedMember(
                name=rf"nvrtc-builtins\.alt{_64}",
                without="each compilation with this one fails",
                fatal=False,
            ),
        ),
    ),
    OpenerRow(
        name=rf"cudnn_(?:adv|engines_precompiled){_64}",
        members=(
            OpenedMember(name=rf"cublaslt{_64}", without=_ENGINES, fatal=False),
            OpenedMember(name=rf"nvrtc{_64}", without=_COMPILED, fatal=False),
        ),
    ),
    OpenerRow(
        name=rf"cublaslt{_64}",
        members=(OpenedMember(name=rf"nvrtc{_64}", without=_COMPILED, fatal=False),),
    ),
    OpenerRow(
        name=rf"(?:cufft|cusparse){_64}",  # of CUDA 12 cuSPARSE needs it by name
        members=(OpenedMember(name="nvjitlink", without=_COMPILED, fatal=False),),
    ),
)
_BEGINNINGS: Final = (
    "cudnn",
    "nvrtc",
    "cublaslt",
    "cufft",
    "cusparse",
)  # of all of them, behind "lib"
_ROOTS: Final = ("cudnn", "nvrtc", "nvjitlink", "cublas")
"""What the wheels with their members have in their names."""
_REDUCED: Final = frozenset({"cudnn_graph", "cudnn_engines_runtime_compiled"})
"""The members that NVIDIA ships as cuDNN for compilation at run time (nvidia-cudnn-jit-cu13)."""
_BRING_ALL: Final = frozenset({"torch", "cuda-toolkit"})  # with what these require in their turn
_NUMBERS = re.compile(r"_\d+(?:_\d+)*(?=\.|$)|(?:\.\d+)+$")
_PLUGINS: Final = (
    (
        re.compile(r"nvshmem_(?:bootstrap|transport)_\w+\.so[.\d]*"),
        "libnvshmem_host opens the one that its users choose",
    ),
    (
        re.compile(r"libcufile_rdma\.so[.\d]*"),
        "libcufile opens it where the machine has network cards for it",
    ),
)


@lru_cache(maxsize=1 << 14)  # each library is held against the names of all
def stem_of(name: str) -> str:
    """A library's name without version, ending, and the mark of a repair tool, in lower case.

    ``nvrtc.alt`` of libnvrtc.alt.so.12 and of nvrtc64_120_0.alt.dll alike but for the ``64``.
    """
    plain = strip_graft(name).lower()
    plain = re.sub(r"\.so(?:\.\d+)*$|\.dll$", "", plain).removeprefix("lib")
    return _NUMBERS.sub("", plain)


def find_opener(name: str) -> OpenerRow | None:
    """The row of a library of that name; None for one that opens none of its family."""
    stem = stem_of(name)
    if not stem.startswith(_BEGINNINGS):
        return None
    if ".so" in name and not name.startswith("lib"):
        return None  # cupy's module nvrtc.abi3.so
    return next((row for row in _FAMILIES if re.fullmatch(row.name, stem)), None)


def find_members(row: OpenerRow, opened: Collection[str]) -> Iterator[tuple[OpenedMember, str]]:
    """The members among the names that this version of it opens."""
    for name in opened:
        stem = stem_of(name)
        for member in row.members:
            if re.fullmatch(member.name, stem):
                yield member, name


def complete_names(names: Collection[str], opener: ObjectFile) -> Iterator[str]:
    """The names, and what becomes of them with the version of the library that has them."""
    yield from names
    for own in (opener.name, opener.file_name):
        version = own.partition(".so.")[2]
        if version:
            yield from (f"{name}.{version}" for name in names if name.endswith(".so"))


def is_reduced(names: Collection[str]) -> bool:
    """Whether the libraries of a layout are those of cuDNN without its precompiled part."""
    present = {stem_of(name).removesuffix("64") for name in names}
    return {stem for stem in present if stem.startswith("cudnn_")} == _REDUCED


def must_be_whole(name: str) -> bool:
    """Whether a library of that name opens one without which it fails."""
    row = find_opener(name)
    return row is not None and any(member.fatal for member in row.members)


def is_of_family(name: str, opener: str) -> bool:
    """Whether both have one version number, as those of cuDNN, and not cuSPARSE and nvJitLink."""
    return _root_of(name) == _root_of(opener) != ""


def is_whole(row: OpenerRow, names: Collection[str]) -> bool:
    """Whether nothing is lacking that it fails without, whatever its strings say."""
    present = {stem_of(name).removesuffix("64") for name in names}
    return bool(row.whole) and row.whole <= present


def may_have_family(requirement: str, name: str) -> bool:
    """Whether a requirement may bring a member of that name: nvidia-cublas brings none of cuDNN."""
    root = _root_of(name)
    return bool(root) and (root in requirement or requirement in _BRING_ALL)


def _root_of(name: str) -> str:
    return next((each for each in _ROOTS if stem_of(name).startswith(each)), "")


def tell_plugin(file_name: str) -> str:
    """Why nothing lacks a library of the vendor's whose own needs are not met; "" for others."""
    return next((why for pattern, why in _PLUGINS if pattern.fullmatch(file_name)), "")
