"""Libraries by name: marks of repair tools, Visual C++, NVIDIA, and projects that ship them."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from binary_checks.model import (
    ObjectFile,
    Package,
    PeFile,
    PythonClaim,
    namespace_of,
    parse_extension_name,
)
from binary_checks.profile import read_toml

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# Marks that repair tools add to the names of libraries that they bundle.
#
# auditwheel renames libcudart.so.12 to libcudart-c64a25f3.so.12, delvewheel cudart64_12.dll to
# cudart64_12-<md5>.dll; torchvision's build has libcudart.faf08d9a.so.13. delocate keeps the names.

_HASH = re.compile(r"[-.](?:[0-9a-f]{8}|[0-9a-f]{32})(?=[-.])")
_GRAFTED = re.compile(r"[-.](?:[0-9a-f]{8}(?:[-.].*)?\.so(?:\.|$)|[0-9a-f]{32}\.(?i:dll)$)")
"""Marks at positions where no other library has them. Before other suffixes, eight digits may be a
date.
"""


@lru_cache(maxsize=4096)
def is_grafted_name(name: str) -> bool:
    """Return whether a repair tool chose the name, so that only the wheel itself has the file."""
    return _GRAFTED.search(name) is not None


def is_grafted_path(path: str) -> bool:
    """Return whether a repair tool added the library, judging by its folder or its name."""
    *folders, name = path.split("/")
    return is_grafted_name(name) or any(each.endswith((".libs", ".dylibs")) for each in folders)


@lru_cache(maxsize=4096)
def strip_graft(name: str) -> str:
    """Return the name without the repair tool's mark, as the library is known elsewhere."""
    return _HASH.sub("", name)


# DLLs of the Visual C++ runtime: their packages, and the toolset they belong to.

_DEBUG = (
    r"ucrtbased\.dll|msvcrtd\.dll|vcruntime\d+(?:_1|_threads)?d\.dll|libomp140d\.\w+\.dll|"
    r"(?:msvc[pr]|vcomp|concrt|vccorlib|vcamp|mfcm?)\d+(?:_[12])?u?d(?:_[a-z_]+)?\.dll"
)
# Only these numbers of older DLLs: msvcp60.dll, mfc42u.dll and similar DLLs are part of Windows.
_REDISTRIBUTABLE = (
    r"msvcp140(?:_1|_2|_atomic_wait|_codecvt_ids)?\.dll|vcruntime140_threads\.dll|"
    r"(?:concrt|vccorlib|vcamp|vcomp)140\.dll|libomp140\.\w+\.dll|"
    r"(?:msvc[pr]|vcomp|mfcm?)(?:80|90|100|110|120)u?\.dll|mfcm?140u?\.dll"
)
_RUNTIMES = (((3, 3), "msvcr90.dll"), ((3, 5), "msvcr100.dll"))
"""(version, C runtime of all CPythons before that version, from 2.6 on)."""
_DLL_HASH = r"-[0-9a-f]{32}(?=\.dll$)"
_MICROSOFT = 14
"""Major version of Microsoft's linkers since 2015; MinGW's have 2."""


@functools.lru_cache(maxsize=4096)  # the objects of a package need the same few libraries
def is_debug_runtime(name: str) -> bool:
    """Return whether a DLL comes only with Visual Studio."""
    return re.fullmatch(_DEBUG, name.lower()) is not None


@functools.lru_cache(maxsize=4096)
def is_redistributable(name: str) -> bool:
    """Return whether a DLL belongs to the runtime, but is not part of CPython.

    CPython for Windows has vcruntime140.dll and vcruntime140_1.dll next to python.exe.
    """
    return re.fullmatch(_REDISTRIBUTABLE, name.lower()) is not None


def is_next_to_python_exe(name: str) -> bool:
    """Return whether a DLL belongs to the runtime, and CPython contains it for its own process."""
    return name.lower() in {"vcruntime140.dll", "vcruntime140_1.dll"}


def comes_with_python(name: str, path: str, pythons: Iterable[PythonClaim]) -> bool:
    """Return whether a CPython that an object is for installs the C runtime of that name.

    Before 3.5 this was the runtime of the compiler used for that version, and extension modules
    needed the same runtime (https://wiki.python.org/moin/WindowsCompilers). The version in the
    object's own file name (``_a.cp34-win32.pyd``) takes precedence over the claims.
    """
    own = parse_extension_name(path)
    versions = (
        {own.version}
        if own is not None and own.version
        else {
            each.version
            for each in pythons
            if each.implementation in {"", "cpython"} and not each.abi.startswith("abi3")
        }
    )
    shipped = (
        next((runtime for before, runtime in _RUNTIMES if version < before), "")
        for version in versions
        if version is not None
    )
    return name.lower() in shipped


def may_be_third_party(name: str) -> bool:
    """Return whether a DLL may belong to any project, but not to Microsoft's runtime or Windows."""
    systems = ("api-ms-", "ext-ms-", "vcruntime140")
    return not (is_debug_runtime(name) or is_redistributable(name)) and not (
        name.lower().startswith(systems)
    )


def original_name(name: str) -> str:
    """Return the name without the hash added by delvewheel, in lower case."""
    return re.sub(_DLL_HASH, "", name.lower())


def toolset_of(library: PeFile) -> tuple[int, int] | None:
    """Return the version of Microsoft's toolset that linked a library; None for other linkers.

    The linker of the runtime itself is sometimes one version behind: toolset 14.50 linked
    msvcp140.dll 14.51.36247. LLD reports 14.0.
    """
    major, _, minor = library.linker_version.partition(".")
    if major != str(_MICROSOFT) or not minor.isdecimal() or minor == "0":
        return None
    return _MICROSOFT, int(minor)


# NVIDIA's libraries: those that come with the driver, and the CUDA version of all others.

DRIVER_LIBRARIES = (
    "libcuda.so.1",
    "libcuda.so",
    "libnvidia-ml.so.1",
    "libnvidia-ml.so",
    "libnvcuvid.so.1",
    "libnvidia-encode.so.1",
    "nvcuda.dll",
    "nvml.dll",
    "nvcuvid.dll",
    "nvencodeapi64.dll",
)
"""Libraries that no package contains: each fits only the kernel module it was installed with."""

# The prefixes of each library's API, as declared in its headers (cuda.h, nvml.h, cuviddec.h,
# nvEncodeAPI.h). libcufile's cuFile functions are not the driver's.
_APIS = {
    "libcuda.so": re.compile(r"cu(?:dbg|(?!File)[A-Z])\w*"),
    "libnvidia-ml.so": re.compile(r"nvml[A-Z]\w*"),
    "libnvcuvid.so": re.compile(r"cuvid[A-Z]\w*"),
    "libnvidia-encode.so": re.compile(r"NvEnc\w*"),
}

# The toolkit's libraries and libraries built on them, but not libcurl, which only has a similar
# name.
_CUDA = (
    r"(?i)lib(?:cuda\w*|cublas\w*|cufft\w*|cufile\w*|curand|cusolver\w*|cusparse\w*|cudnn\w*|"
    r"cupti|cutensor\w*|nccl|nvrtc[\w-]*|nvJitLink|nvjpeg\w*|nvToolsExt|nvtx3\w*|nvblas|nvfatbin|"
    r"nvshmem\w*|nvinfer\w*|nvonnxparser|npp\w+|cusparseLt|nvcomp\w*|torch_cuda\w*|c10_cuda)"
    r"[.-].*\bso\b.*|"
    r"(?:cudart|cublas|cublaslt|cufft|cufftw|curand|cusolver|cusolvermg|cusparse|cudnn|nvrtc|"
    r"nvjitlink|nvjpeg|nvblas|npp\w+|cupti|nvtoolsext|nccl|nvinfer|nvonnxparser|nvfatbin|nvcomp|"
    r"nvrtc-builtins)\w*[_-]\d[\w.]*\.dll|"
    r"(?:torch_cuda\w*|c10_cuda|cutensor(?:mg)?)\.dll"
)
_BEGINNINGS = ("cu", "nv", "npp", "nccl", "torch_cuda", "c10_cuda")
"""The beginnings of all these names, after ``lib``."""

# Libraries whose own number is CUDA's major version.
_NUMBERED = (
    r"(?i)lib(?:cudart|cublas|cublasLt|nvblas|nvrtc(?:-builtins)?(?:\.alt)?|nvJitLink|nvjpeg|cupti|"
    r"nvfatbin|npp[a-z]+)\.so\.(?P<elf>\d{1,4})(?:\..*)?|"
    r"(?:(?:cudart|cublas|cublaslt|nvblas|nvjpeg|npp[a-z]+|nvrtc(?:-builtins)?)64|nvjitlink|"
    r"nvfatbin)_(?P<pe>\d{2})\d?(?:_\d+)?(?:\.alt)?\.dll"
)
# Libraries with version numbers of their own, if the number occurs with only one CUDA version.
_COUNTED = {
    "libcufft.so.10": 11,
    "libcufft.so.11": 12,
    "libcufft.so.12": 13,
    "libcusolver.so.12": 13,
    "libcusparse.so.11": 11,
    "cufft64_10.dll": 11,
    "cufft64_11.dll": 12,
    "cufft64_12.dll": 13,
    "cusolver64_12.dll": 13,
    "cusparse64_11.dll": 11,
}
_DISTRIBUTION = r"(?i)(?:^|[-_.])cu(?:da)?-?(?P<major>1[0-9])\d?x?(?=[-_.]|$)"
_LABEL = r"(?:^|[.])cu(?P<major>1\d)(?P<minor>\d?)(?=[.]|$)"
_OF_THE_TOOLKIT = frozenset(
    {"cuda-toolkit", "nvidia-cuda-runtime", "nvidia-cuda-nvrtc", "nvidia-nvjitlink"}
)
"""Distributions without a number in their names whose version is that of CUDA."""
EXACT = ("==", "~=", "===")


def is_driver_library(name: str) -> bool:
    """Return whether a library comes only with NVIDIA's driver, even if a package bundles it."""
    return strip_graft(name).lower() in DRIVER_LIBRARIES


def is_cuda_library(name: str) -> bool:
    """Return whether a library is part of CUDA, NVIDIA's add-ons for it, or torch for CUDA."""
    if not name.lower().removeprefix("lib").startswith(_BEGINNINGS):
        return False
    plain = strip_graft(name)
    return re.fullmatch(_CUDA, plain) is not None and not is_driver_library(plain)


def is_nvidia_library(name: str) -> bool:
    """Return whether NVIDIA builds a library; torch builds its own part for CUDA."""
    return is_cuda_library(name) and re.match(r"(?:lib)?(?:torch|c10)_", name) is None


def cuda_of_library(name: str) -> int | None:
    """Return CUDA's major version in a library's name, or None."""
    plain = strip_graft(name)
    match = re.fullmatch(_NUMBERED, plain)
    if match:
        return int(match["elf"] or match["pe"])
    return _COUNTED.get(re.sub(r"(?<=\.so\.)(\d+)\..*", r"\1", plain.lower()))


def cuda_of_name(distribution: str) -> int | None:
    """Return CUDA's major version in a distribution's name: 12 for ``nvidia-cublas-cu12``."""
    match = re.search(_DISTRIBUTION, distribution)
    return int(match["major"]) if match else None


def cuda_of_label(label: str) -> str:
    """Return the CUDA version in a local version label or variant, "12.6" for ``cu126``, or ""."""
    match = re.search(_LABEL, label)
    return ".".join(filter(None, match.groups())) if match else ""


def cuda_of_requirement(requirement: Requirement) -> str:
    """Return the CUDA version that a requirement asks for: "13.2", "12" or ""."""
    name = requirement.name.lower().replace("_", "-")
    major = cuda_of_name(name)
    bare = re.sub(r"-cu1\d$", "", name)
    if bare in _OF_THE_TOOLKIT:
        for each in requirement.specifier:
            if each.operator in EXACT and re.match(r"1\d\.\d{1,4}\b", each.version):
                return ".".join(each.version.split(".")[:2])
            if each.operator in EXACT and each.version[:2].isdecimal():
                return each.version[:2]
    return str(major or "")


def is_for_cpu(package: Package) -> bool:
    """Return whether the package's name or variant states a build for the CPU."""
    label, name = package.claims.variant, package.name.lower().replace("_", "-")
    return "cpu" in label.split(".") or name.endswith("-cpu")


def is_driver_soname(soname: str) -> bool:
    """Return whether a soname is that of a driver library on Linux."""
    return soname.removesuffix(".1") in _APIS


def is_driver_function(name: str) -> bool:
    """Return whether a symbol can only belong to a driver library, by its name."""
    return any(api.fullmatch(name) for api in _APIS.values())


def find_driver_symbols(soname: str, names: frozenset[str]) -> frozenset[str]:
    """Return the names that a driver library may define.

    Only the user's driver has the complete list.
    """
    api = _APIS[soname.removesuffix(".1")]
    return frozenset(name for name in names if api.fullmatch(name))


# The distribution that a library belongs to, by name, if the distribution was not given.

_TABLES = Path(__file__).with_name("shipped_names.toml")
_FIRST_WORD = re.compile(r"(?:lib)?([A-Z]*[a-z]*[0-9]*)")
_SHORTEST = 3  # letters of a word that is significant
_DRIVERS_OWN = "cuda"  # libcuda.so.1 comes with the driver, not with wheels of NVIDIA
_NOT_A_NAME = frozenset({"python", "the", "lib"})

_QT = re.compile(r"(?:lib)?Qt[56]?(?P<part>(?:3D|[A-Z])\w*)")


class Framework(NamedTuple):
    """Libraries that only one distribution has, and symbols that only these define."""

    libraries: re.Pattern[str]  # the beginnings of their names
    core: re.Pattern[str]  # of which at least one is loaded if any other library is
    namespaces: frozenset[str]  # of C++
    functions: re.Pattern[str]  # of C


class _Toolkit(NamedTuple):
    """Libraries of software that users install themselves, as expressions for whole names."""

    name: str
    libraries: re.Pattern[str]
    together: re.Pattern[str]  # names that are its own only if one of ``libraries`` is needed, too


_Pairs = tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]
"""Expressions for whole names of distributions, and for names of their libraries."""


class _Tables(NamedTuple):
    """The contents of shipped_names.toml, as expressions for whole names."""

    has: _Pairs
    # a distribution, its libraries, and other requirements that lead to it
    only_one: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...]
    has_nothing_else: re.Pattern[str]
    leads_nowhere: re.Pattern[str]  # requirements without further ones, except those in only_one
    of_nvidia: re.Pattern[str]
    fills_prefix: re.Pattern[str]
    of_nobody: re.Pattern[str]
    of_user: tuple[tuple[re.Pattern[str], str], ...]
    toolkits: tuple[_Toolkit, ...]
    frameworks: Mapping[str, Framework]


@lru_cache(maxsize=1)
def _read_tables() -> _Tables:
    tables = read_toml(_TABLES, _TABLES.name)
    compiled = re.compile

    def join(table: str, key: str = "distributions") -> re.Pattern[str]:
        return compiled("|".join(f"(?:{row[key]})" for row in tables[table]))

    def pair(table: str) -> _Pairs:
        return tuple(
            (compiled(row["distributions"]), compiled(row["libraries"])) for row in tables[table]
        )

    return _Tables(
        has=pair("has"),
        only_one=tuple(
            (row["distributions"], *map(compiled, (row["libraries"], row.get("through", "(?!)"))))
            for row in tables["only_one"]
        ),
        has_nothing_else=join("has_nothing_else"),
        leads_nowhere=compiled(
            "|".join(
                row["distributions"]
                for row in (*tables["has_nothing_else"], *tables["only_one"])
                if "leads" not in row
            )
        ),
        of_nvidia=join("of_nvidia"),
        fills_prefix=join("fills_prefix"),
        of_nobody=join("of_nobody", "libraries"),
        of_user=tuple((compiled(row["libraries"]), row["kind"]) for row in tables["of_user"]),
        toolkits=tuple(
            _Toolkit(row["name"], compiled(row["libraries"]), compiled(row.get("together", "(?!)")))
            for row in tables["toolkit"]
        ),
        frameworks={
            row["distributions"]: Framework(
                libraries=compiled(row["libraries"]),
                core=compiled(row["core"]),
                namespaces=frozenset(row.get("namespaces", ())),
                functions=compiled(row.get("functions", "(?!)")),
            )
            for row in tables["framework"]
        },
    )


def list_frameworks() -> Mapping[str, Framework]:
    """Return the frameworks by the names of their distributions."""
    return _read_tables().frameworks


def find_shippers(needed: str, requirements: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements that are known to contain a library, or are named like it.

    libQt6Core.so.6 may come from pyqt6-qt6, libcudnn_ops.so.9 from nvidia-cudnn-cu13, torch_cpu.dll
    and libc10.so from torch, glew32.dll from kivy-deps-glew. A word that occurs in several names
    identifies none of them.
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
        # libz3 of z3-solver: two letters are not significant, but letters with a number are
        word = stem
    around = (f"lib{word}", f"{word}lib") if word else ()  # libeckit.so of eckitlib
    bare = word.rstrip("0123456789")
    for spelled in dict.fromkeys((word, bare if len(bare) >= _SHORTEST else "", *around)):
        named = list(requirements.by_word.get(spelled, ())) if spelled else []
        if len(named) > 1:
            named = [each for each in named if each == spelled]
        if len(named) == 1:
            return tuple(named)
    return ()


def find_known_shippers(needed: str, requirements: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements whose wheels are known to contain a library of that name."""
    requirements, name = _list(requirements), needed.rpartition("/")[2]
    if is_grafted_name(name):
        return ()
    plain = name.removeprefix("lib")
    has = (each for each, patterns in requirements.known if any(p.match(plain) for p in patterns))
    return tuple(has) or _of_cuda(name, requirements)


def find_owner(name: str, requirements: Iterable[str]) -> str:
    """Return the requirement whose wheel has the vendor's library of exactly that name, or ""."""
    names = frozenset(requirements)
    return next(
        (o for o, its, _ in _read_tables().only_one if o in names and its.fullmatch(name)), ""
    )


@lru_cache(maxsize=4096)  # many objects need the same few libraries
def find_left_out(needed: str, requirements: frozenset[str]) -> str:
    """Return the distribution with that library if its family is required, but not it; else "".

    ``requirements`` are names with their extras, ``cuda-toolkit[cublas,cudart]``. None of them may
    lead to the library through its own requirements, which are known of few distributions. The
    distributions for one CUDA version are a family; from CUDA 13 on, their names lack its number.
    """
    tables, name = _read_tables(), needed.rpartition("/")[2]
    rows = [row for row in tables.only_one if row[1].fullmatch(name)]
    for each in requirements:
        leads = any(own == each or through.fullmatch(each) for own, _, through in rows)
        if leads or not tables.leads_nowhere.fullmatch(each):
            return ""
    families = {cuda_of_name(own) or 13 for own, _, _ in tables.only_one if own in requirements}
    return next((own for own, _, _ in rows if (cuda_of_name(own) or 13) in families), "")


def _of_cuda(name: str, requirements: RequiredNames) -> tuple[str, ...]:
    """Return the requirements that may provide a library of CUDA: parts of CUDA, or torch.

    cuda-pathfinder contains no such library, but finds and loads those in other packages; torch
    requires these other packages.
    """
    if not is_cuda_library(name):
        return ()
    word = first_word(name)
    if word == _DRIVERS_OWN:
        return ()
    named = tuple(filter(_read_tables().of_nvidia.fullmatch, requirements.by_word.get(word, ())))
    return named or requirements.of_nvidia or requirements.torch


def fills_prefix(requirement: str) -> bool:
    """Return whether a requirement installs to the environment's ``lib``, as Intel's wheels do."""
    return _read_tables().fills_prefix.fullmatch(requirement) is not None


def may_have(requirement: str, needed: str) -> bool:
    """Return whether nothing excludes that the requirement contains a library of that name."""
    if not may_be_required(needed):
        return False
    if _read_tables().of_nvidia.fullmatch(requirement):
        return is_named_like_nvidia(needed)
    return _read_tables().has_nothing_else.fullmatch(requirement) is None


def may_be_required(needed: str) -> bool:
    """Return whether a requirement may contain the library, rather than a driver or the system."""
    return _read_tables().of_nobody.fullmatch(needed.rpartition("/")[2]) is None


def find_users_own(needed: str) -> str:
    """Return the kind of software with that library that users choose and install, or ""."""
    known = (needed, needed.rpartition("/")[2])
    return next(
        (kind for names, kind in _read_tables().of_user if any(map(names.fullmatch, known))), ""
    )


def find_toolkit(needed: str, others: Iterable[str] = ()) -> str:
    """Return the vendor's software that users install and that has the library, or "".

    ``others`` are the names of libraries that the same object needs: CANN has a libgraph.so, but
    other projects have one, too.
    """
    name = needed.rpartition("/")[2]
    for each in _read_tables().toolkits:
        with_others = each.together.fullmatch(name) and any(map(each.libraries.fullmatch, others))
        if each.libraries.fullmatch(name) or with_others:
            return each.name
    return ""


def is_named_like_nvidia(needed: str) -> bool:
    """Return whether a library is named like the libraries in NVIDIA's wheels."""
    return first_word(needed).startswith(("cu", "nv", "npp", "nccl"))


def first_word(name: str) -> str:
    """Return the first word of a library's name, ``qt6`` for libQt6Core.so.6; "" if too short."""
    match = _FIRST_WORD.match(name.rpartition("/")[2])
    word = match[1].lower() if match else ""
    return word if len(word) >= _SHORTEST else ""


def find_stem(name: str) -> str:
    """Return a library's name in a distribution's spelling: openvino for libopenvino.so.2."""
    plain = name.rpartition("/")[2].removeprefix("lib")
    return re.sub(r"[-_.]+", "-", re.split(r"\.(?:so|dylib|dll)\b|\.\d", plain)[0]).lower()


def find_qt_sibling(distribution: str, needed: str) -> str:
    """Return the wheel with Qt itself for a wheel with a part of Qt; "" for any other.

    The metadata of PyQt6-WebEngine-Qt6 does not lead to Qt, because it has no requirements.
    PyQt6-WebEngine requires both it and PyQt6; PyQt6 requires pyqt6-qt6. The wheel pyqt6-qt6 has
    libQt6Core.so.6 in the same folder and, on Windows, Microsoft's runtime.
    """
    match = re.fullmatch(
        r"pyqt(?:webengine|(?P<of>[56])-(?P<part>.+))-qt(?P<qt>[56])", distribution
    )
    if not match:
        return ""
    part = (match["part"] or "webengine").replace("-", "")
    library = _QT.match(needed.rpartition("/")[2])
    theirs = library is not None and not library["part"].lower().startswith(part)
    runtime = is_redistributable(needed) or is_next_to_python_exe(needed)
    return f"pyqt{match['qt']}-qt{match['qt']}" if theirs or runtime else ""


def share_first_word(one: str, other: str) -> bool:
    """Return whether two distributions share a first word: pyside6-addons, pyside6-essentials."""
    first = one.partition("-")[0]
    return len(first) >= _SHORTEST and first not in _NOT_A_NAME and first == other.partition("-")[0]


class RequiredNames:
    """Names of requirements, indexed for queries about thousands of libraries."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.known: list[tuple[str, list[re.Pattern[str]]]] = []
        """Requirements with known libraries, and patterns for the names of these libraries."""
        self.by_word: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for name in self.names:
            theirs = [its for whose, its in _read_tables().has if whose.fullmatch(name)]
            if theirs:
                self.known.append((name, theirs))
            for word in dict.fromkeys(name.split("-")):
                self.by_word.setdefault(word, []).append(name)
            stem = re.sub(r"^lib|-cu1\d$", "", name)
            self._by_stem.setdefault(stem, []).append(name)
        self.of_nvidia = tuple(filter(_read_tables().of_nvidia.fullmatch, self.names))
        self.torch = tuple(name for name in self.names if name == "torch")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def named_as(self, stem: str) -> tuple[str, ...]:
        """Return the requirements that are named exactly like a library."""
        spelled = (stem, f"lib{stem}") if stem else ()
        return tuple(name for each in spelled for name in self._by_stem.get(each, ()))


def _list(requirements: Iterable[str]) -> RequiredNames:
    return requirements if isinstance(requirements, RequiredNames) else RequiredNames(requirements)


# Symbols that only a framework's own libraries define, whatever else is loaded.

_WITHOUT = re.compile(
    r"lib(?:avcodec|avdevice|avfilter|avformat|avutil|swresample|swscale)\.so\b.*"
)
"""C libraries, apart from NVIDIA's, that extensions of frameworks need: FFmpeg's."""


def framework_of(symbol: str) -> str:
    """Return the framework that a symbol belongs to, by namespace or C interface; "" if none."""
    space = namespace_of(symbol)
    for name, its in list_frameworks().items():
        if space in its.namespaces or its.functions.fullmatch(symbol):
            return name
    return ""


def find_own_symbols(
    names: frozenset[str], loaded: Iterable[str], unseen: Iterable[str]
) -> frozenset[str]:
    """Return the names that no library of ``unseen`` can define.

    These are symbols of a framework whose libraries are all ``loaded``, if the unseen libraries are
    NVIDIA's or plain C.
    """
    unseen, loaded = tuple(unseen), tuple(loaded)
    if not all(is_cuda_library(name) or _WITHOUT.fullmatch(name) for name in unseen):
        return frozenset()
    whole = {
        framework
        for framework, its in list_frameworks().items()
        if any(map(its.core.match, loaded)) and not any(map(its.libraries.match, unseen))
    }
    return frozenset(name for name in names if whole and framework_of(name) in whole)


# Libraries of a vendor's family that open others of the family at run time.

_FAMILIES = Path(__file__).with_name("library_families.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedMember:
    """A library that another library of its family opens, as library_families.toml states it."""

    name: str  # expression for the library's stem, without "lib" and suffixes
    without: str  # consequence for users without the library
    # whether calls that every user makes fail; else only rarely used functions do
    fatal: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenerRow:
    """A library that opens others of its family."""

    name: str  # expression for the library's stem
    members: tuple[OpenedMember, ...]
    entrance: bool = False
    """Whether the library does nothing itself: a package may contain only this one and rely on the
    user's other libraries.
    """
    whole: frozenset[str] = frozenset()
    """Stems of members that every version needs, for a file whose strings were not all read."""


_ROOTS: Final = ("cudnn", "nvrtc", "nvjitlink", "cublas")
"""Words in the names of wheels that contain members of these families."""
_REDUCED: Final = frozenset({"cudnn_graph", "cudnn_engines_runtime_compiled"})
"""The members in NVIDIA's cuDNN for compilation at run time (nvidia-cudnn-jit-cu13)."""
_REQUIRE_ALL: Final = frozenset({"torch", "cuda-toolkit"})  # together with their own requirements
_NUMBERS = re.compile(r"_\d+(?:_\d+)*(?=\.|$)|(?:\.\d+)+$")


@lru_cache(maxsize=1 << 14)  # each library is compared with the names of all
def stem_of(name: str) -> str:
    """Return a library's name without version, suffix and marks of repair tools, in lower case.

    libnvrtc.alt.so.12 becomes ``nvrtc.alt``, and nvrtc64_120_0.alt.dll ``nvrtc64.alt``.
    """
    plain = strip_graft(name).lower()
    plain = re.sub(r"\.so(?:\.\d+)*$|\.dll$", "", plain).removeprefix("lib")
    return _NUMBERS.sub("", plain)


@lru_cache(maxsize=1)
def _read_families() -> tuple[tuple[OpenerRow, ...], tuple[tuple[re.Pattern[str], str], ...]]:
    """Return the libraries that open others, and plugins with the reason for their unmet needs."""
    tables = read_toml(_FAMILIES, _FAMILIES.name)
    openers = (
        OpenerRow(
            name=row["name"],
            members=tuple(OpenedMember(**member) for member in row["members"]),
            entrance=row.get("entrance", False),
            whole=frozenset(row.get("whole", ())),
        )
        for row in tables["opener"]
    )
    plugins = ((re.compile(row["files"]), row["why"]) for row in tables["plugin"])
    return tuple(openers), tuple(plugins)


@lru_cache(maxsize=1 << 14)
def find_opener(name: str) -> OpenerRow | None:
    """Return the row of a library of that name; None if it opens no library of its family."""
    if ".so" in name and not name.startswith("lib"):
        return None  # cupy's extension module nvrtc.abi3.so
    stem = stem_of(name)
    return next((row for row in _read_families()[0] if re.fullmatch(row.name, stem)), None)


def find_members(row: OpenerRow, opener: ObjectFile) -> Iterator[tuple[OpenedMember, list[str]]]:
    """Yield the members that this version of a library opens, with the names that it may try.

    It may extend a name by its own version.
    """
    for name in opener.opened.names if opener.opened else ():
        versions = (own.partition(".so.")[2] for own in (opener.name, opener.file_name))
        longer = [f"{name}.{each}" for each in versions if each and name.endswith(".so")]
        for member in row.members:
            if re.fullmatch(member.name, stem_of(name)):
                yield member, [name, *longer]


def is_reduced(names: Collection[str]) -> bool:
    """Return whether these are libraries of cuDNN without its precompiled part."""
    return {stem for stem in _list_stems(names) if stem.startswith("cudnn_")} == _REDUCED


def _list_stems(names: Iterable[str]) -> set[str]:
    return {stem_of(name).removesuffix("64") for name in names}


def must_be_whole(name: str) -> bool:
    """Return whether a library of that name opens another one without which it fails."""
    row = find_opener(name)
    return row is not None and any(member.fatal for member in row.members)


def is_of_family(name: str, opener: str) -> bool:
    """Return whether both libraries are of one family with a common version, such as cuDNN.

    The result is False for cuSPARSE and nvJitLink.
    """
    return _root_of(name) == _root_of(opener) != ""


def is_whole(row: OpenerRow, names: Collection[str]) -> bool:
    """Return whether the names include each library that all versions of the opener need."""
    return bool(row.whole) and row.whole <= _list_stems(names)


def may_have_family(requirement: str, name: str) -> bool:
    """Return whether a requirement may contain a member of that name.

    nvidia-cublas contains no library of cuDNN.
    """
    root = _root_of(name)
    return bool(root) and (root in requirement or requirement in _REQUIRE_ALL)


def _root_of(name: str) -> str:
    return next((each for each in _ROOTS if stem_of(name).startswith(each)), "")


def explain_plugin(file_name: str) -> str:
    """Return why unmet needs of a vendor's plugin are not a fault; "" for other libraries."""
    return next((why for files, why in _read_families()[1] if files.fullmatch(file_name)), "")
