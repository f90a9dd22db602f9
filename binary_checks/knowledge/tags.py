"""Tags and other claims: their meaning, the objects they accept, and the lowest true tags."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag

from binary_checks.model import (
    ANY_SYSTEM,
    GLIBC_PRIVATE,
    Claims,
    Distribution,
    ElfFile,
    Format,
    Kind,
    Linkage,
    MachOFile,
    NeededVersion,
    ObjectFile,
    Package,
    PeFile,
    Policy,
    PythonClaim,
    SystemClaim,
    SystemLibrary,
    is_extension,
    object_kinds,
    parse_extension_name,
    read_numbers,
)
from binary_checks.systems import policies
from binary_checks.systems.libraries import macos_exports, macos_library_versions
from binary_checks.wording.sentences import format_symbols

# The claims in the tags, the version and the METADATA of a wheel.

_LINUX = re.compile(
    r"(?:(?P<libc>many|musl)linux(?:(?P<year>\d+)|_(?P<major>\d+)_(?P<minor>\d+))|linux)"
    r"_(?P<architecture>\w+)"
)
_MOBILE = re.compile(  # PEP 738 and PEP 730
    r"android_(?P<level>\d{1,4})_(?P<abi>arm64_v8a|armeabi_v7a|x86_64|x86)"
    r"|ios_(?P<major>\d{1,3})_(?P<minor>\d{1,3})_(?P<architecture>arm64|x86_64)"
    r"_(?:iphoneos|iphonesimulator)"
)
_BY_YEAR = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
"""The glibc of manylinux1, manylinux2010 and manylinux2014 (PEP 513, 571, 599)."""
_LIBCS = {"many": "glibc", "musl": "musl", None: ""}
_WINDOWS = {"win_amd64": "x86_64", "win32": "i686", "win_arm64": "aarch64"}
_OTHERS = {
    **{name: name for name in ("ios", "android", "wasi", "emscripten")},
    "pyodide": "emscripten",
    "pyemscripten": "emscripten",  # PEP 783
}
"""Beginnings of platform tags -> systems."""
_ENDINGS = {
    **{name: name for name in ("x86_64", "aarch64", "i686", "armv7l", "ppc64le", "ppc64")},
    "wasm32": "wasm32",
    "s390x": "s390x",
    "riscv64": "riscv64",
    "loongarch64": "loongarch64",
    "i386": "i686",
    "amd64": "x86_64",
    "arm64": "aarch64",
    "arm64_v8a": "aarch64",
    "armeabi_v7a": "armv7l",
    "x86": "i686",
}
"""Endings of other systems' tags -> architectures."""
_INTERPRETER = re.compile(r"(?P<name>[a-z]+)(?P<major>\d)_?(?P<minor>\d*)")
_IMPLEMENTATIONS = {"cp": "cpython", "pp": "pypy", "py": ""}


def read_claims(
    tags: Iterable[Tag], *, version: str = "", metadata: Iterable[tuple[str, str]] = ()
) -> Claims:
    """Return the claims of a wheel or its installed copy; each tag of a compressed set is a claim.

    ``metadata`` are the headers of METADATA. The variant is the local label of the version,
    ``2.9.0+cu126``.
    """
    tags = tuple(tags)
    return Claims(
        systems=tuple(read_system(name) for name in sorted({tag.platform for tag in tags})),
        pythons=tuple(dict.fromkeys(read_python(tag) for tag in sorted(tags, key=str))),
        requirements=tuple(value for key, value in metadata if key.lower() == "requires-dist"),
        variant=version.partition("+")[2],
    )


def read_system(platform: str) -> SystemClaim:
    """Return the claim of one platform tag; for an undefined tag only the name is set."""
    if platform == "any":
        return SystemClaim(name=platform, system=ANY_SYSTEM)
    if match := _LINUX.fullmatch(platform):
        by_year = _BY_YEAR.get(match["year"]) if match["libc"] == "many" else None
        numbers = (int(match["major"]), int(match["minor"])) if match["major"] else None
        return SystemClaim(
            name=platform,
            system="linux",
            libc=_LIBCS[match["libc"]],
            minimum=numbers or by_year,
            architectures=(match["architecture"],),
        )
    if platform.startswith("macosx_"):
        tag = parse_mac_tag(platform)
        return SystemClaim(
            name=platform,
            system="macos",
            minimum=tag.version if tag else None,
            architectures=tag.architectures if tag else (),
        )
    if platform.startswith("win"):
        known = _WINDOWS.get(platform)
        return SystemClaim(name=platform, system="windows", architectures=(known,) if known else ())
    if match := _MOBILE.fullmatch(platform):
        major, minor = match["level"] or match["major"], match["minor"] or "0"
        return SystemClaim(
            name=platform,
            system=platform.partition("_")[0],
            minimum=(int(major), int(minor)),
            architectures=(_ENDINGS[match["abi"] or match["architecture"]],),
        )
    ending = max((e for e in _ENDINGS if platform.endswith(f"_{e}")), key=len, default="")
    return SystemClaim(
        name=platform,
        system=_OTHERS.get(platform.partition("_")[0], ""),
        architectures=(_ENDINGS[ending],) if ending else (),
    )


def read_python(tag: Tag) -> PythonClaim:
    """Return the claim of the interpreter and ABI of one tag."""
    match = _INTERPRETER.fullmatch(tag.interpreter)
    name = match["name"] if match else tag.interpreter
    version = (int(match["major"]), int(match["minor"])) if match and match["minor"] else None
    return PythonClaim(
        name=f"{tag.interpreter}-{tag.abi}",
        implementation=_IMPLEMENTATIONS.get(name, name),
        version=version,
        abi="" if tag.abi == "none" else tag.abi,
        free_threaded=tag.abi.startswith("cp") and tag.abi.endswith("t"),
    )


# The oldest macOS claimed for each architecture, and the meaning of its platform tags.

_ARCHITECTURES = {
    "x86_64": ("x86_64",),
    "arm64": ("aarch64",),
    "universal2": ("x86_64", "aarch64"),
    "i386": ("i686",),
    "ppc": ("ppc",),
    "ppc64": ("ppc64",),
    "intel": ("i686", "x86_64"),
    "fat": ("i686", "ppc"),
    "fat3": ("i686", "x86_64", "ppc"),
    "fat32": ("i686", "x86_64", "ppc"),
    "fat64": ("x86_64", "ppc64"),
    "universal": ("i686", "x86_64", "ppc", "ppc64"),
}
_VARIANTS = {"x86_64h": "x86_64", "arm64e": "aarch64"}
FIRST_BY_YEARS = 11
"""From this macOS on, only the first number distinguishes systems and appears in tags."""
_FIRST_WITH_ARM64 = (11, 0)
_LAST_BEFORE = (10, 16)  # the version that macOS 11 reports to older programs


@dataclass(frozen=True, kw_only=True, slots=True)
class MacTag:
    """A parsed platform tag of macOS."""

    platform: str
    version: tuple[int, int]
    architectures: tuple[str, ...]

    @property
    def is_looked_for(self) -> bool:
        """Whether installers look for the tag on any system, as listed by ``packaging.tags``."""
        major, minor = self.version
        if major >= FIRST_BY_YEARS:
            return minor == 0
        return self.version <= _LAST_BEFORE and self.architectures != ("aarch64",)


def parse_mac_tag(platform: str) -> MacTag | None:
    """Parse a platform tag; return None if it is not a defined tag of macOS."""
    system, _, rest = platform.partition("_")
    major, _, rest = rest.partition("_")
    minor, _, processor = rest.partition("_")
    numbers = (major, minor)
    if system != "macosx" or not all(n.isascii() and n.isdecimal() for n in numbers):
        return None
    if processor not in _ARCHITECTURES:
        return None
    return MacTag(
        platform=platform,
        version=(int(major), int(minor)),
        architectures=_ARCHITECTURES[processor],
    )


def round_up(macos: tuple[int, ...]) -> tuple[int, int]:
    """Return the lowest version that tags can name and that is not older: (14, 0) for macOS 13.3.

    The system after macOS 15 is macOS 26.
    """
    major, minor, *_ = macos
    if major < FIRST_BY_YEARS or minor == 0:
        return major, minor
    return (26 if major == 15 else major + 1), 0


def lowest_claims(systems: Iterable[SystemClaim]) -> dict[str, tuple[tuple[int, int], str]]:
    """Return the oldest claimed macOS of each architecture, and the claim's name.

    Every tag of a compressed set is a claim. No macOS for arm64 is older than 11.
    """
    claims: dict[str, tuple[tuple[int, int], str]] = {}
    for system in systems:
        if system.system != "macos" or system.minimum is None:
            continue
        for architecture in system.architectures:
            floor = _FIRST_WITH_ARM64 if architecture == "aarch64" else (0, 0)
            claim = max(_modern(system.minimum), floor), system.name
            claims[architecture] = min(claim, claims.get(architecture, claim))
    return claims


def read_version(version: str) -> tuple[int, int]:
    """Read "10.9" or "11.0.1"; the third number is dropped, because tags have none."""
    major, _, rest = version.partition(".")
    return _modern((int(major), int(rest.partition(".")[0] or 0)))


def _modern(version: tuple[int, int]) -> tuple[int, int]:
    return _FIRST_WITH_ARM64 if version == _LAST_BEFORE else version


def plain_architecture(architecture: str) -> str:
    """Return the architecture in tags, also for variants that only newer CPUs run."""
    return _VARIANTS.get(architecture, architecture)


def format_architecture(architecture: str) -> str:
    """Return the name of an architecture in macOS, its tools and platform tags."""
    return {"aarch64": "arm64", "i686": "i386"}.get(architecture, architecture)


# Objects that a claimed system accepts: their format and architecture.

_OBJECTS = frozenset(
    {"x86_64", "aarch64", "i686", "armv7l", "ppc64le", "ppc64", "ppc"}
    | {"s390x", "riscv64", "loongarch64", "wasm32", "wasm64"}
)
"""Architectures that readers of objects distinguish."""
_FORMATS = {
    "linux": Format.ELF,
    "android": Format.ELF,
    "macos": Format.MACHO,
    "ios": Format.MACHO,
    "windows": Format.PE,
    "emscripten": Format.WASM,
}
_FORMATS_OF_SUFFIXES = {
    **dict.fromkeys(("darwin", "iphoneos", "iphonesimulator"), Format.MACHO),
    "wasm32-emscripten": Format.WASM,
}
_WORDS = {
    "i686": r"x86|i386|i686|ia32|win32|32",
    "x86_64": r"x64|amd64|x86_64|win64|64",
    "aarch64": r"arm64|aarch64",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Misfit:
    """An object that no claimed system accepts, or a claim that no object supports."""

    item: ObjectFile | None = None  # None for a claim
    sentence: str
    claim: str = ""  # the claimed platform without an object; "" for an object
    of_other_format: bool = False

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts of the problem that reports the misfit."""
        return (self.item.architecture,) if self.item else (self.claim,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The result of comparing the objects of a package with the systems that it claims."""

    judged: int = 0  # number of objects
    fitting: int = 0  # number of judged objects that fit
    # claims of unknown architecture; if there are any, no object is judged
    unknown: tuple[str, ...] = ()
    misfits: tuple[Misfit, ...] = ()
    strangers: tuple[Format, ...] = ()
    """The formats of all loadable objects, if no claimed system loads any of these."""


def compare_architectures(
    systems: Sequence[SystemClaim], objects: Sequence[ObjectFile]
) -> Comparison | None:
    """Compare objects with claims; return None if every system is claimed, or none.

    Every claim counts: a claim without an object for its architecture is wrong, too.
    """
    claims = {claim.name: architectures_of(claim) for claim in systems}
    if not claims or any(claim.system == ANY_SYSTEM for claim in systems):
        return None
    # A wheel for macOS may also contain DLLs for other systems, as sounddevice's does.
    formats = frozenset[Format]().union(*map(formats_of, systems))
    loaded = [item for item in objects if is_loaded(item)]
    judged = [item for item in loaded if item.format in formats]
    foreign = [item for item in loaded if _is_of_other_format(item, formats)]
    misfits = [
        Misfit(
            item=item,
            sentence=f"is an object of format {item.format}, which {', '.join(claims)} cannot load",
            of_other_format=True,
        )
        for item in foreign
    ]
    unknown = tuple(name for name, architectures in claims.items() if not architectures)
    claimed = frozenset[str]().union(*claims.values())
    strangers = {item.format for item in loaded} - formats
    fitting = {item.path for item in judged if item.architecture in claimed}
    judged = [item for item in judged if not _is_left_over(item, fitting)]
    if not unknown:
        misfits += _find_misfits(claims, judged, fitting)
    return Comparison(
        judged=len(judged) + len(foreign),
        fitting=len(fitting),
        unknown=unknown,
        misfits=tuple(misfits),
        strangers=() if judged or foreign else tuple(sorted(strangers)),
    )


def _find_misfits(
    claims: Mapping[str, frozenset[str]], judged: Sequence[ObjectFile], fitting: Collection[str]
) -> Iterator[Misfit]:
    claimed = frozenset[str]().union(*claims.values())
    present = {item.architecture for item in judged}
    for item in judged:
        # One fitting slice of a universal binary is enough: the other slices are never loaded.
        if item.path not in fitting and not may_be_foreign(item, claimed):
            sentence = f"is for {item.architecture}, but the tags claim {', '.join(claims)}"
            yield Misfit(item=item, sentence=sentence)
    for platform, architectures in claims.items():
        if architectures.isdisjoint(present) and not claimed.isdisjoint(present):
            sentence = f"claims {platform}, but has no object for that architecture"
            yield Misfit(sentence=sentence, claim=platform)


def _is_left_over(item: ObjectFile, fitting: Collection[str]) -> bool:
    """Return whether a module's name is for another platform, next to a module that fits.

    No interpreter of the tags looks for ``_a.cp36-win32.pyd`` next to ``_a.cp36-win_amd64.pyd``
    (ptvsd); foreign-extension-suffix reports it.
    """
    name = parse_extension_name(item.path)
    if item.path in fitting or name is None or not name.platform:
        return False
    stem = item.path.removesuffix(name.suffix)
    others = (path for path in fitting if path.startswith(f"{stem}."))
    platforms = {found.platform for found in map(parse_extension_name, others) if found}
    return bool(platforms - {name.platform})


def _is_of_other_format(item: ObjectFile, formats: Collection[Format]) -> bool:
    """Return whether interpreters of the system would load this module of another format."""
    name = parse_extension_name(item.path)
    if name is None or not name.tagged or item.format in formats:
        return False
    if name.suffix.endswith(".pyd"):
        return Format.PE in formats
    if name.platform:
        return _FORMATS_OF_SUFFIXES.get(name.platform, Format.ELF) in formats
    return Format.PE not in formats


def architectures_of(claim: SystemClaim) -> frozenset[str]:
    """Return the architectures of objects that a claimed system accepts; empty if unknown."""
    # ELF headers do not distinguish ARM's version 6 from version 7.
    architectures = {"armv7l" if name == "armv6l" else name for name in claim.architectures}
    if claim.system == "android" and "armv7l" in architectures:
        return frozenset({"armel"})  # armeabi-v7a passes floating point in integer registers
    if claim.system == "windows" and "aarch64" in architectures:
        return frozenset({"aarch64", "arm64x"})  # Microsoft's own msvcp140.dll is ARM64X
    return _OBJECTS & architectures


def formats_of(claim: SystemClaim) -> frozenset[Format]:
    """Return the formats that a claimed system's loader accepts; all formats if unknown."""
    known = _FORMATS.get(claim.system)
    return frozenset([known] if known else (kind.format for kind in object_kinds().values()))


def may_load(systems: Collection[SystemClaim], found: Format) -> bool:
    """Return whether a claimed system loads objects of the format; without claims, any may.

    Objects of other formats are data: pydevd's wheel for Linux has DLLs that attach to processes on
    Windows.
    """
    if not systems or found not in _FORMATS.values():
        return True
    return any(found in formats_of(claim) for claim in systems)


_CONVENTIONS = {"ppc64le": ("elfv1",), "riscv64": ("lp64", "lp64f", "lp64q")}
_CONVENTIONS["loongarch64"] = ("lp64s", "lp64f")
_OF_CONVENTIONS = {f"{name}_{each}": name for name in _CONVENTIONS for each in _CONVENTIONS[name]}
_OF_CONVENTIONS["armel"] = "armv7l"  # other calling conventions than those of the platform tags


def may_be_foreign(item: ObjectFile, claimed: Collection[str]) -> bool:
    """Return whether a claimed system accepts an object in spite of its architecture.

    Pure .NET code has no architecture, and a program on Windows runs in its own process. A library
    for Windows or macOS, except an extension module, is for such a process if its name contains its
    architecture: debugpy's win_amd64 wheel attaches to 32-bit processes with ``attach_x86.dll``,
    viztracer's arm64 wheel to Intel processes with ``attach_x86_64.dylib``. A program that loads no
    library may have another calling convention (ziglang's ``zig``).
    """
    if isinstance(item, ElfFile):
        is_alone = not item.interpreter and not item.needed and item.kind is Kind.EXECUTABLE
        return is_alone and _OF_CONVENTIONS.get(item.architecture) in claimed
    if isinstance(item, PeFile) and (item.managed or item.kind is Kind.EXECUTABLE):
        return True
    words = _WORDS.get(item.architecture)
    if words is None or is_extension(item):
        return False
    name = item.file_name.lower()
    unmistakable = {"i686": "32bit", "x86_64": "64bit", "aarch64": "arm64"}[item.architecture]
    return unmistakable in name or bool(re.search(rf"(?<![^\W_])(?:{words})(?![^\W_])", name))


# The Pythons that a wheel can be installed on, by tags and Requires-Python.

_MINORS = range(40)  # minor versions of Python 3; far beyond released versions
_MICROS = (0, 1, 99, *range(2, 40))  # micro versions to try; the first three decide most specifiers
LONGEST_SPECIFIER = 200  # characters; each of a thousand clauses would have to be evaluated


def read_specifier(text: str) -> SpecifierSet | None:
    """Parse a Requires-Python; return None if it is invalid."""
    try:
        return SpecifierSet(text)
    except (InvalidSpecifier, ValueError):  # ValueError: a number of thousands of digits
        return None


def allows_any(wanted: str, claim: PythonClaim) -> bool:
    """Return whether a Requires-Python allows a Python of a claim; True for an unknown claim."""
    major = re.match(r"[a-z]+(\d)", claim.name)
    return major is None or any(_allows(wanted, int(major[1]), minor) for minor in minors_of(claim))


def minors_of(claim: PythonClaim) -> tuple[int, ...]:
    """Return the minor versions of a claim: a single version, all from a version on, or all."""
    if not claim.version:
        return tuple(_MINORS)
    return (claim.version[1],) if claim.is_for_one_version else tuple(_MINORS[claim.version[1] :])


def find_promised(package: Distribution) -> frozenset[int]:
    """Return the minor versions of Python 3 that a package installs on; empty if unknown."""
    wanted = package.header("Requires-Python")
    if len(wanted) > LONGEST_SPECIFIER:
        return frozenset()
    tagged = {
        minor
        for claim in package.claims.pythons
        if not re.match(r"[a-z]+2", claim.name)
        for minor in minors_of(claim)
    }
    return frozenset(minor for minor in tagged if _allows(wanted, 3, minor))


def states_lowest(package: Distribution) -> bool:
    """Return whether a package states its oldest Python, which ``py3-none`` alone does not."""
    pythons = package.claims.pythons
    return bool(package.header("Requires-Python") or (pythons and all(p.version for p in pythons)))


@lru_cache(maxsize=1024)
def _allows(wanted: str, major: int, minor: int) -> bool:
    allowed = read_specifier(wanted)
    return allowed is None or any(
        allowed.contains(f"{major}.{minor}.{micro}", prereleases=True) for micro in _MICROS
    )


# The lowest platform tag that is true for a package, by the needs of its objects.

_GLIBCS_OWN = re.compile(r"lib(?:c\.so\.6|m\.so\.6|pthread\.so\.0|dl\.so\.2|rt\.so\.1)|ld-linux.*")
# all these names are names of musl's loader
_FIRST_WITH_MUSL = (3, 11)
_MUSLS_OWN = re.compile(r"libc\.so|libc\.musl-.*|ld-musl-.*")
_LIBPYTHON = re.compile(r"libpython\d.*")
_TIME64 = re.compile(r"__\w*time64")
"""musl's names of functions with 64-bit time on 32-bit systems, since version 1.2."""
_FIRST_WITH_TIME64 = (1, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagReason:
    """The reason why a lower tag would not be true."""

    path: str  # the object with the need
    need: str  # "GLIBC_2.28 of libc.so.6", "libcuda.so.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class LowestTag:
    """The lowest tag for one architecture and libc, or macOS."""

    family: str  # "manylinux", "musllinux" or "macosx"
    architecture: str  # as in tags
    version: tuple[int, int] | None  # None: no tag of the family allows what is needed
    reasons: tuple[
        TagReason, ...
    ] = ()  # reasons against the next lower tag; without a version, against all tags
    otherwise: tuple[int, int] | None = None
    """Without a version: the lowest version, ignoring the libraries that no tag allows."""

    @property
    def tag(self) -> str:
        """The platform tag, or ""."""
        return self._format(self.version)

    @property
    def otherwise_tag(self) -> str:
        """The platform tag, ignoring the libraries that no tag allows; "" if there is none."""
        return self._format(self.otherwise)

    def _format(self, version: tuple[int, int] | None) -> str:
        if version is None:
            return ""
        return "{}_{}_{}_{}".format(self.family, *version, self.architecture)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Needs:
    """The needs of one ELF object from the system."""

    item: ElfFile
    libraries: tuple[str, ...]
    versions: tuple[NeededVersion, ...]


def find_lowest_tags(package: Package, linkage: Linkage | None) -> tuple[LowestTag, ...]:
    """Return the lowest true tags: for Linux by libc and architecture, for macOS by architecture.

    Libraries in the package, in Python, or possibly in a required distribution are not needed from
    the system. Without a linkage, only the libraries' names show whether they are in the package.
    Raises Unavailable if symbols are unknown.
    """
    return (*_lowest_linux(package, linkage), *_lowest_macos(package))


def _lowest_linux(package: Package, linkage: Linkage | None) -> Iterator[LowestTag]:
    own = {name for item in package.objects for name in (item.file_name, item.name)}
    loaded = [item for item in package.objects_of(ElfFile) if is_loaded(item)]
    for architecture in sorted({item.architecture for item in loaded}):
        ours = [item for item in loaded if item.architecture == architecture]
        needs = [_find_needs(item, linkage, own) for item in ours]
        for libc, family in _find_libcs(needs):
            if known := policies(libc, architecture):
                yield _lowest_of(family, architecture, known, needs)


def _find_needs(item: ElfFile, linkage: Linkage | None, own: set[str]) -> _Needs:
    edges = linkage.edges_of(item.path, item.architecture) if linkage else ()
    if edges:
        libraries = tuple(
            edge.needed
            for edge in edges
            if (edge.resolved or "system:").startswith("system:")
            and not (edge.may_come_with or edge.elsewhere)
        )
    else:  # not loaded by anything, or no loader was simulated
        names = (need.name for need in item.needed)
        libraries = tuple(n for n in names if n not in own and not _LIBPYTHON.fullmatch(n))
    return _Needs(
        item=item,
        libraries=libraries,
        versions=tuple(
            each for each in item.symbol_versions if each.library in libraries and not each.weak
        ),
    )


def _find_libcs(needs: Iterable[_Needs]) -> Iterator[tuple[str, str]]:
    """Yield the libcs that the objects need; both if they need none and no suffix names one."""
    needs = tuple(needs)
    names = {name for each in needs for name in each.libraries}
    glibc = any(map(_GLIBCS_OWN.fullmatch, names))
    musl = any(map(_MUSLS_OWN.fullmatch, names))
    if not glibc and not musl:
        # Pythons before 3.11 give modules for both libcs the suffix -linux-gnu.
        modules = filter(None, (parse_extension_name(each.item.path) for each in needs))
        ours = [each for each in modules if each.version and each.version >= _FIRST_WITH_MUSL]
        glibc = any("-linux-gnu" in each.platform for each in ours)
        musl = any("-linux-musl" in each.platform for each in ours)
    if glibc or not musl:
        yield "glibc", "manylinux"
    if musl or not glibc:
        yield "musl", "musllinux"


def _lowest_of(
    family: str, architecture: str, known: tuple[Policy, ...], needs: list[_Needs]
) -> LowestTag:
    """Return the lowest policy that allows all needs; the policies are sorted."""
    against: tuple[TagReason, ...] = ()
    for policy in known:
        found = tuple(_object_to(policy, needs))
        if not found:
            return LowestTag(
                family=family, architecture=architecture, version=policy.minimum, reasons=against
            )
        against = found
    outside = {name for each in needs for name in each.libraries} - known[-1].libraries
    others = [
        _Needs(
            item=each.item,
            libraries=tuple(name for name in each.libraries if name not in outside),
            versions=tuple(need for need in each.versions if need.library not in outside),
        )
        for each in needs
    ]
    fitting = (policy.minimum for policy in known if not any(_object_to(policy, others)))
    return LowestTag(
        family=family,
        architecture=architecture,
        version=None,
        reasons=against,
        otherwise=next(fitting, None),
    )


def _object_to(policy: Policy, needs: Collection[_Needs]) -> Iterator[TagReason]:
    """Yield what a policy does not allow; of version nodes the newest, which imply older ones."""
    for ours in needs:
        item, path = ours.item, ours.item.path
        for name in ours.libraries:
            if policy.libc == "musl" and _MUSLS_OWN.fullmatch(name):
                continue
            if name not in policy.libraries:
                yield TagReason(path=path, need=name)
            elif forbidden := policy.forbidden_symbols.get(name):
                for symbol in sorted(item.imports.among(forbidden)):
                    if any(not each.weak for each in item.imports.find(symbol)):
                        yield TagReason(path=path, need=f"{symbol} of {name}")
        if policy.libc == "musl" and policy.minimum < _FIRST_WITH_TIME64:
            for symbol in sorted(filter(_TIME64.fullmatch, item.imports.names))[:1]:
                yield TagReason(path=path, need=f"{symbol} of musl 1.2")
    refused = [n for each in needs for n in each.versions if policy.allows(n.version) is False]
    newest = [
        need
        for library in {need.library for need in refused}
        for need in find_newest_nodes(each for each in refused if each.library == library)
    ]
    for ours in needs:
        for need in filter(newest.__contains__, ours.versions):
            yield TagReason(path=ours.item.path, need=f"{need.version} of {need.library}")


def _lowest_macos(package: Package) -> Iterator[LowestTag]:
    """Yield tags from each slice's stated minimum and the age of needed libraries and symbols."""
    by_architecture: dict[str, list[tuple[tuple[int, int], TagReason]]] = {}
    for item in package.objects_of(MachOFile):
        if is_loaded(item) and "macos" in (item.platforms or ("macos",)):
            architecture = plain_architecture(item.architecture)
            by_architecture.setdefault(architecture, []).extend(_date(item))
    for architecture, found in sorted(by_architecture.items()):
        floor = _FIRST_WITH_ARM64 if architecture == "aarch64" else (10, 0)
        newest = max([floor, *(version for version, _ in found)])
        reasons = tuple(dict.fromkeys(reason for version, reason in found if version == newest))
        yield LowestTag(
            family="macosx",
            architecture=format_architecture(architecture),
            version=(newest[0], 0) if newest[0] >= FIRST_BY_YEARS else newest,
            reasons=reasons if newest > floor else (),
        )


def _date(item: MachOFile) -> Iterator[tuple[tuple[int, int], TagReason]]:
    yield (
        read_version(item.minimum_os or "0.0"),
        TagReason(path=item.path, need=f"minos {item.minimum_os}"),
    )
    for need in item.needed:
        history = macos_library_versions(need.name)
        if history is not None and not need.weak:
            yield round_up(history[0]), TagReason(path=item.path, need=need.name)
    for library, names in item.imports.strong.items():
        for version, symbols in _newer_exports(library):
            if found := sorted(symbols.intersection(names)):
                reason = TagReason(path=item.path, need=f"{found[0]} of {library}")
                yield round_up(version), reason


@functools.lru_cache(maxsize=256)  # the objects of a package need the same few libraries
def _newer_exports(library: str) -> tuple[tuple[tuple[int, int], frozenset[str]], ...]:
    return tuple(
        (first, frozenset(names))
        for first, names in (macos_exports(library, (10, 0)) or {}).items()
        if first
    )


def is_loaded(item: ObjectFile) -> bool:
    """Return whether a loader of the host loads the object."""
    return item.kind in (Kind.SHARED, Kind.EXECUTABLE)


# The system version that an object needs, by version nodes or by the age of its symbols.


def needed_of_system(library: ElfFile, linkage: Linkage) -> list[NeededVersion]:
    """Return the version nodes that system libraries must define."""
    edges = linkage.edges_of(library.path, library.architecture)
    system = {e.needed for e in edges if e.resolved and e.resolved.startswith("system:")}
    return [n for n in library.symbol_versions if n.library in system and not n.weak]


def lowest_policy(needs: Iterable[NeededVersion], policies: Iterable[Policy]) -> Policy | None:
    """Return the first policy that allows all of these version nodes, or None.

    ``GLIBC_PRIVATE``, which none allows, is left out.
    """
    versions = {need.version for need in needs} - {GLIBC_PRIVATE}
    return next(
        (p for p in policies if all(p.allows(version) is not False for version in versions)), None
    )


def find_newest_nodes(needs: Iterable[NeededVersion]) -> list[NeededVersion]:
    """Return the newest node of each prefix, in the order of the prefixes."""
    newest: dict[str, NeededVersion] = {}
    for need in sorted(needs, key=lambda need: read_numbers(need.version.partition("_")[2])):
        newest[need.version.partition("_")[0]] = need
    return [need for _, need in sorted(newest.items())]


def describe_nodes(library: ElfFile, newer: Iterable[NeededVersion]) -> str:
    """Format the newest node of each prefix, with symbols that need it."""
    described = []
    for need in find_newest_nodes(newer):
        names = sorted(symbol.name for symbol in library.imports if symbol.version == need.version)
        needed_by = f" ({format_symbols(names)})" if names else ""
        described.append(f"{need.version} of {need.library}{needed_by}")
    return " and ".join(described)


def find_newer(
    system: SystemLibrary, names: Collection[str], macos: tuple[int, int]
) -> dict[str, tuple[int, ...]]:
    """Map names that a library defines only since a later macOS to the first macOS with them."""
    known = system.symbols
    newer = {each: _latest(each) for each in set(map(known.get, names)) if each}
    newer = {each: first for each, first in newer.items() if first > macos}
    if not newer:  # the usual case
        return {}
    return {name: newer[known[name]] for name in names if known.get(name) in newer}


def _latest(versions: Collection[str]) -> tuple[int, ...]:
    return max((tuple(map(int, each.split("."))) for each in versions if each), default=())


# The parts of conda's match specifications: ``conda-forge::numpy >=1.23,<3 *_cuda``.

_OF_CUDA = re.compile(r"(?i)cu(?:da|dnn|blas|fft|rand|solver|sparse|tensor|dss)|nvidia|\bnccl\b")


def is_of_cuda(match_spec: str) -> bool:
    """Return whether a specification requires a part of CUDA, or the CUDA build of a package."""
    return _OF_CUDA.search(match_spec) is not None


def name_of(match_spec: str) -> str:
    """Return the package's name in lower case; "" for an invalid specification."""
    found = re.match(r"(?:[^\s:]+::)?([\w.-]+)", match_spec.strip())
    return found[1].lower() if found else ""


def find_minimum(name: str, match_specs: Iterable[str]) -> tuple[int, int] | None:
    """Return the oldest version that all specifications of a package allow, or None."""
    found = [
        (int(match[1]), int(match[2] or 0))
        for each in match_specs
        if name and name_of(each) == name
        for match in re.finditer(r">=\s*(\d{1,4})(?:\.(\d{1,4}))?", each)
    ]
    return max(found) if found else None
