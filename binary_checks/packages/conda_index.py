"""The content of info/index.json of a conda package, and the systems and Pythons that it claims.

Platform, architecture and minimum versions are in ``subdir`` and in the virtual packages among
``depends`` (``__glibc``, ``__osx``), the version of Python in ``python`` and ``python_abi``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from binary_checks.errors import PackageError
from binary_checks.knowledge.tags import find_minimum, name_of
from binary_checks.model import (
    ANY_SYSTEM,
    Claims,
    Layout,
    Member,
    PythonClaim,
    SystemClaim,
    Visited,
)

INDEX = "info/index.json"
_MOST_VALUES = 2_000_000  # values in one file; each takes up to a hundred bytes once it is parsed

_MACHINES = {
    "64": "x86_64",
    "32": "i686",
    "arm64": "aarch64",
    **{
        name: name
        for name in ("aarch64", "armv6l", "armv7l", "ppc64le", "ppc64", "riscv64", "s390x")
    },
}
_SYSTEMS = {"linux": "linux", "osx": "macos", "win": "windows"}
_VIRTUAL = {"linux": "__glibc", "macos": "__osx"}
_OF_GLIBC = (
    *("ld-linux.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-linux-armhf.so.3"),
    *("ld64.so.1", "ld64.so.2", "ld-linux-riscv64-lp64d.so.1", "libc.so.6", "libm.so.6"),
    *("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2"),
    *("libanl.so.1", "libmvec.so.1", "libthread_db.so.1", "libBrokenLocale.so.1"),
)
"""Libraries that ``__glibc`` provides; a conda package may use no other library of the system."""

_GCC = ("libgcc_s.so.1", "libgomp.so.1", "libatomic.so.1", "libgcc_s.1.1.dylib")
_CXX = ("libstdc++.so.6",)
_FORTRAN = ("libgfortran.so.5", "libquadmath.so.0", "@rpath/libgfortran.5.dylib")
_VC = (
    *("vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll", "msvcp140_1.dll"),
    *("msvcp140_2.dll", "msvcp140_atomic_wait.dll", "msvcp140_codecvt_ids.dll", "concrt140.dll"),
    *("vcomp140.dll", "vccorlib140.dll"),
)
_PROVIDED: dict[str, tuple[str, ...]] = {
    "__glibc": (),
    "_libgcc_mutex": (),
    "_openmp_mutex": ("libgomp.so.1",),
    "_python_abi3_support": (),
    "cpython": (),
    "libcxx": ("@rpath/libc++.1.dylib",),
    "libgcc": _GCC,
    "libgcc-ng": _GCC,
    "libgfortran": _FORTRAN,
    "libgfortran-ng": _FORTRAN,
    "libgfortran5": _FORTRAN,
    "libgomp": ("libgomp.so.1",),
    "libstdcxx": _CXX,
    "libstdcxx-ng": _CXX,
    "llvm-openmp": ("libomp.so", "libiomp5.so", "libgomp.so.1", "@rpath/libomp.dylib"),
    "python": ("libz.so.1", "libbz2.so.1.0", "liblzma.so.5", "libexpat.so.1", "libsqlite3.so.0"),
    "python-gil": (),
    "python_abi": (),
    "ucrt": ("ucrtbase.dll",),
    "vc": _VC,
    "vc14_runtime": _VC,
    "vs2015_runtime": _VC,
}
"""Libraries of the packages on which nearly all other packages depend.

libpython is not listed: loaders know it, since packages of every kind find it.
"""


class Index(NamedTuple):
    """The values of info/index.json that are used here."""

    name: str
    version: str
    build: str
    subdir: str
    noarch: str  # "python", "generic", or "" for a package for one platform
    depends: tuple[str, ...]
    constrains: tuple[str, ...]

    @property
    def system(self) -> str:
        """The system as facts name it, or "" for an unknown one."""
        return _SYSTEMS.get(self.subdir.partition("-")[0], "")

    @classmethod
    def read(cls, label: str, text: Visited | None) -> Index:
        """Parse the file. Raises PackageError if it is missing or states no name."""
        if text is None:
            raise PackageError(f"{label}: not a conda package: it has no {INDEX}")
        try:
            return cls.take(parse_json(text))
        except ValueError as error:
            raise PackageError(f"{label}: {INDEX} cannot be read: {error}") from None

    @classmethod
    def take(cls, stated: object) -> Index:
        """Take the values from parsed JSON. Raises ValueError if they are invalid."""
        if not isinstance(stated, dict):
            raise ValueError("it is not an object")
        name, version, build = (_text(stated, key) for key in ("name", "version", "build"))
        subdir = _text(stated, "subdir", _old_subdir(stated))
        noarch = _read_noarch(stated, subdir)
        lists = (_texts(stated, key) for key in ("depends", "constrains"))
        return cls(name, version, build, subdir, noarch, *lists)


def _read_noarch(stated: Mapping[str, Any], subdir: str) -> str:
    """Return "python", "generic" or "". Files are installed at other paths only for "python"."""
    noarch = stated.get("noarch")
    if noarch == "python" or (noarch is True and stated.get("noarch_python")):
        return "python"
    return "generic" if noarch or subdir == "noarch" else ""


def _old_subdir(stated: Mapping[str, Any]) -> str:
    """Return the subdir of an old package, which states platform and architecture instead."""
    platform, arch = stated.get("platform"), stated.get("arch")
    machine = {"x86_64": "64", "x86": "32"}.get(str(arch), arch)
    return f"{platform}-{machine}" if platform and machine else "noarch"


def _text(stated: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = stated.get(key, default)
    if not isinstance(value, str) or not value:
        raise ValueError(f"its {key} is not a string")
    return value


def _texts(stated: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = stated.get(key, [])
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ValueError(f"its {key} is not a list of strings")
    return tuple(values)


def parse_json(text: Visited) -> Any:
    """Parse a member as JSON. Raises ValueError, with one line, if it is invalid."""
    content = text.content
    if content is None:
        raise ValueError(text.member.faults[-1] if text.member.faults else "it is empty")
    if sum(map(content.count, (b",", b"{", b"["))) > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES} values")
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not valid UTF-8 (at byte {error.start:#x})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON (line {error.lineno})") from None
    except (ValueError, RecursionError):  # numbers of thousands of digits, nested lists
        raise ValueError("too deeply nested, or a number is too long") from None


def read_claims(index: Index) -> Claims:
    """Return the claims in a package's subdir, dependencies and build string."""
    names = [name_of(each) for each in index.depends]
    known = [name for name in names if name in _PROVIDED or name.startswith("__")]
    return Claims(
        systems=(_read_system(index),),
        pythons=tuple(_read_python(index)),
        requirements=tuple(
            dict.fromkeys(filter(None, (_format_requirement(e) for e in index.depends)))
        ),
        provided=tuple(sorted({item for name in known for item in _PROVIDED.get(name, ())})),
        variant=_read_variant(index.build),
    )


def _read_system(index: Index) -> SystemClaim:
    if index.noarch:
        return SystemClaim(name="noarch", system=ANY_SYSTEM)
    platform, _, machine = index.subdir.partition("-")
    system = _SYSTEMS.get(platform, platform)
    virtual = _VIRTUAL.get(system, "")
    minimum = find_minimum(virtual, (*index.depends, *index.constrains))
    stated = "{} >={}.{}".format(virtual, *minimum) if minimum else ""
    return SystemClaim(
        name=f"{index.subdir} with {stated}" if stated else index.subdir,
        system=system,
        libc="glibc" if system == "linux" else "",
        minimum=minimum,
        architectures=(_MACHINES[machine],) if machine in _MACHINES else (),
        libraries=_OF_GLIBC if system == "linux" else None,
    )


def _read_python(index: Index) -> Iterator[PythonClaim]:
    """Yield the Python version, or the oldest one if the package uses a stable ABI or no ABI."""
    specs = {name_of(each): each for each in index.depends}
    oldest = re.search(r">=\s*3\.(\d{1,3})", specs.get("python", ""))
    if match := re.search(r"_cp3(\d{1,3})(t?)\b", specs.get("python_abi", "")):
        version, threaded = (3, int(match[1])), match[2]
        abi = f"cp3{match[1]}{threaded}"
        yield _name_python(version, abi, free_threaded=bool(threaded))
    elif "_python_abi3_support" in specs:
        oldest = re.search(r">=\s*3\.(\d{1,3})", specs.get("cpython", "")) or oldest
        yield _name_python((3, int(oldest[1])) if oldest else None, "abi3")
    elif "python" in specs and (only := _find_only_python(specs["python"])):
        yield _name_python(only, f"cp3{only[1]}")
    elif "python" in specs:
        yield _name_python((3, int(oldest[1])) if oldest else None, "")


def _find_only_python(match_spec: str) -> tuple[int, int] | None:
    """Return the single version that ``>=3.11,<3.12.0a0`` or ``3.11.*`` allows, or None."""
    if match := re.search(r"(?:^\S+\s+|(?<![<>!~])==?\s*)3\.(\d{1,3})\b", match_spec):
        return 3, int(match[1])
    bounds = re.search(r">=\s*3\.(\d{1,3})\b.*<\s*3\.(\d{1,3})\b", match_spec)
    if bounds and int(bounds[2]) == int(bounds[1]) + 1:
        return 3, int(bounds[1])
    return None


def _name_python(
    version: tuple[int, int] | None, abi: str, *, free_threaded: bool = False
) -> PythonClaim:
    number = "{}.{}".format(*version) if version else "of any version"
    bound = abi.startswith("cp")
    return PythonClaim(
        name=f"python {number}" if bound or not version else f"python >={number}",
        implementation="cpython" if abi else "",
        version=version,
        abi=abi,
        free_threaded=free_threaded,
    )


_VERSION = r"(?:[<>]=?|[=!]=)\d+(?:\.\d+)*"
_VERSIONS = rf"{_VERSION}(?:,{_VERSION})*"


def _format_requirement(match_spec: str) -> str:
    """Return the requirement as in PEP 508; "" if the required package's libraries are known."""
    name = name_of(match_spec)
    if not name or name in _PROVIDED or name.startswith("__"):
        return ""
    spelled = name.strip("_.-")
    version = match_spec.partition(" ")[2].strip()
    return f"{spelled} {version}" if re.fullmatch(_VERSIONS, version) else spelled


def _read_variant(build: str) -> str:
    """Return the variant that a build string names: ``cu126`` for ``cuda126_py311h0123abc_0``."""
    if match := re.search(r"(?:^|_)cuda_?(\d{2,3})(?:_|py|h|$)", build):
        return f"cu{match[1]}"
    return "cpu" if re.search(r"(?:^|_)cpu(?:_|py|$)", build) else ""


def find_layout(index: Index, claims: Claims, members: Iterable[Member]) -> Layout:
    """Return the layout of conda's prefixes.

    ``noarch: python`` packages have a different layout.
    """
    if index.noarch:
        return Layout(site_packages="site-packages", scripts="python-scripts", climbs=False)
    if index.system == "windows":
        return Layout(
            site_packages="Lib/site-packages",
            scripts="Scripts",
            python="",
            libraries="Library/bin",
            headers="Library/include",
            climbs=False,
        )
    found = Counter(
        match[0] for each in members if (match := re.match(_SITE_PACKAGES, each.archive_name))
    )
    site_packages = found.most_common(1)[0][0] if found else _guess_site_packages(claims)
    return Layout(site_packages=site_packages, climbs=False)


_NO_PYTHON = "site-packages"
"""Layout of a package without Python code: no file is there, and paths start at the prefix."""
_SITE_PACKAGES = r"lib/python3\.\d{1,3}t?/site-packages(?=/)"


def _guess_site_packages(claims: Claims) -> str:
    for python in claims.pythons:
        if python.version:
            threaded = "t" if python.free_threaded else ""
            return "lib/python{}.{}{}/site-packages".format(*python.version, threaded)
    return _NO_PYTHON
