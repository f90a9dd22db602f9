"""Extension modules by their file names, results of examining Python sources, and entry points."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.tags import Tag

from binary_checks.model.objects import Kind, ObjectFile
from binary_checks.model.packages import SCRIPT_GROUPS, Distribution
from binary_checks.model.probes import ProbeReport, Step

# The signs of an extension module: its name and its PyInit function.

_SUFFIXES = (
    ("cpython", r"\.cpython-(?P<digits>\d{2,3})(?P<flags>[a-z]*)-(?P<platform>[\w-]+)\.so", ""),
    ("cpython", r"\.cp(?P<digits>\d{2,3})(?P<flags>[a-z]*)-(?P<platform>\w+)\.pyd", ""),
    (
        "pypy",
        r"\.pypy(?P<digits>\d{2,3})-(?P<release>pp\d+)-(?P<platform>[\w-]+)\.(?:so|pyd)",
        "pypy{digits}_{release}",
    ),
    (
        "graalpy",
        r"\.graalpy(?P<release>\d+)-(?P<digits>\d{2,3})-native-(?P<platform>[\w-]+)\.(?:so|pyd)",
        "graalpy{release}_{digits}_native",
    ),
    # 3.15 and later add the platform: gh-122931
    ("cpython", r"\.(?P<stable>abi3t?)(?:-(?P<platform>[\w-]+))?\.(?:so|pyd)", ""),
    ("", r"\.(?:so|pyd)", ""),
)
"""Implementation, regular expression of its suffixes, and ABI of others than CPython in tags."""
# Processors with different names in multiarch triplets and in platform tags.
_PROCESSORS = {"i686": "i386", "armv7l": "arm", "ppc64le": "powerpc64le", "ppc64": "powerpc64"}
_NAMES_ON_PYPY = {
    "i686": ("i686", "x86"),
    "ppc64": ("powerpc64", "ppc_64"),
    "ppc64le": ("powerpc64le", "ppc_64"),
}
"""PyPy's names: ``.pypy37-pp73-i686-linux-gnu.so`` (gemmi 0.5.0, kiwisolver 1.4.4), and later
``.pypy39-pp73-x86-linux-gnu.so`` (asv, lameenc; maturin's tests). For ppc64le PyPy looks for two
names (arro3-io 0.9.1; github.com/pypy/pypy/issues/4878).
"""
_LINUX = r"(?:(?P<libc>many|musl)linux(?:\d+|_\d+_\d+)?|linux)_(?P<processor>\w+)"
_INTERPRETER = r"(?P<name>[a-z]+)(?P<major>\d)(?P<minor>\d*)"
_KNOWN_PROCESSORS = frozenset(
    {"x86_64", "i686", "aarch64", "armv7l", "ppc64le", "ppc64", "s390x", "riscv64", "loongarch64"}
)
_IOS = r"ios_\d+_\d+_\w+?_(iphoneos|iphonesimulator)"
_ANDROID = r"android_\d+_(\w+)"
_ON_ANDROID = {
    "arm64_v8a": "aarch64-linux-android",
    "armeabi_v7a": "arm-linux-androideabi",
    "x86_64": "x86_64-linux-android",
    "x86": "i686-linux-android",
}
"""ABIs in platform tags -> triplets in suffixes (PEP 738)."""
_ON_EMSCRIPTEN = ("pyemscripten_", "pyodide_", "emscripten_")
_ON_GRAALPY = {"macosx": "darwin", "win": "win32"}
# The releases whose suffixes are known for all platforms.
_KNOWN_RELEASES = r"pypy\d+_pp7[0-3]|graalpy2[0-5]\d_\d+_native"
_ABI_OF_OTHERS = r"pypy\d+_pp\d+|graalpy\d+_\d+_native"
_IMPLEMENTATIONS = {"cp": "cpython", "pp": "pypy", "graalpy": "graalpy", "py": ""}
_FIRST_WITH_MUSL = (3, 11)  # an older CPython uses -linux-gnu on musl, too
_FIRST_WITH_ABI3T = (3, 15)
_FIRST_WITH_STABLE_PLATFORM = (3, 15)  # _a.abi3-x86_64-linux-gnu.so


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtensionName:
    """A file name that Python's import system accepts for an extension module."""

    # dotted, "demo.core._native"; only the stem if a folder's name is not an identifier
    module: str
    stem: str  # "_native"
    suffix: str  # ".cpython-311-x86_64-linux-gnu.so"
    implementation: str = ""  # "cpython", "pypy", "graalpy"; "" for a bare ".so" or ".pyd"
    version: tuple[int, int] | None = None  # None: for any version
    free_threaded: bool = False  # the "t" of "cpython-313t"
    stable: str = ""  # "abi3" or "abi3t"
    platform: str = ""  # "x86_64-linux-gnu", "darwin", "win_amd64"; "" if the suffix has none
    abi: str = ""  # of PyPy and GraalPy, as in tags: "pypy311_pp73", "graalpy250_312_native"

    @property
    def tagged(self) -> bool:
        """Whether the suffix names an ABI: such a file is meant to be imported."""
        return bool(self.implementation)


@functools.lru_cache(maxsize=4096)  # a dozen checks call it for every object
def parse_extension_name(path: str) -> ExtensionName | None:
    """Parse a path; return None if no module has that file name (``libx.so.1``, ``a-b.so``)."""
    directory, _, file_name = path.rpartition("/")
    stem, dot, rest = file_name.partition(".")
    suffix = dot + rest
    matches = (
        (name, re.fullmatch(pattern, suffix, re.ASCII), abi) for name, pattern, abi in _SUFFIXES
    )
    implementation, match, abi = next((each for each in matches if each[1]), ("", None, ""))
    if match is None or not stem.isidentifier():
        return None
    parts = {"digits": "", "flags": "", "stable": "", "platform": "", **match.groupdict("")}
    folders = directory.split("/") if directory else []
    if stem == "__init__" and folders:
        # apsw/__init__.cpython-313-....so is the package itself, and exports PyInit_apsw
        stem = folders.pop()
    return ExtensionName(
        module=".".join([*folders, stem]) if all(map(str.isidentifier, folders)) else stem,
        stem=stem,
        suffix=suffix,
        implementation=implementation,
        version=(int(parts["digits"][0]), int(parts["digits"][1:])) if parts["digits"] else None,
        free_threaded="t" in parts["flags"],
        stable=parts["stable"],
        platform=parts["platform"],
        abi=abi.format_map(parts),
    )


def init_function(stem: str) -> str:
    """Return the name of the init function of a module of that name (PEP 489)."""
    return _name_function("PyInit", stem)


def export_hook(stem: str) -> str:
    """Return the name of the function that Python 3.15 and later call instead (PEP 793)."""
    return _name_function("PyModExport", stem)


_HPY = re.compile(r"(?:.*/)?(?P<stem>[^./]+)\.hpy\d+(?:-[\w-]+)?\.(?:so|pyd)", re.ASCII)
_HPY_FUNCTIONS = ("HPyInit", "HPyInitGlobalContext", "get_required_hpy_major_version")


def hpy_functions(path: str) -> tuple[str, ...]:
    """Return the functions that hpy.universal looks up in a file; () if it is no module of HPy.

    A module of HPy's universal ABI is named ``_demo.hpy0.so``, of its hybrid ABI
    ``_demo.hpy0-cp311.so``. No import system looks for these names: a Python file next to it loads
    the module.
    """
    match = _HPY.fullmatch(path)
    return tuple(f"{prefix}_{match['stem']}" for prefix in _HPY_FUNCTIONS) if match else ()


def _name_function(prefix: str, stem: str) -> str:
    if stem.isascii():
        return f"{prefix}_{stem}"
    return f"{prefix}U_{stem.encode('punycode').decode('ascii').replace('-', '_')}"


def is_extension(library: ObjectFile) -> bool:
    """Return whether Python can import the library, which must export its init function.

    That is ``PyInit_<stem>``, or ``PyModExport_<stem>`` for Python 3.15 and later.
    """
    name = parse_extension_name(library.path)
    if library.kind is not Kind.SHARED or name is None:
        return False
    return bool(library.exports.among((init_function(name.stem), export_hook(name.stem))))


def is_for_free_threads(path: str, *, promised: bool = True) -> bool:
    """Return whether a free-threaded Python imports files of this name.

    A name without an ABI (``a.so``, ``a.pyd``) counts if the package ``promised`` such a Python.
    """
    name = parse_extension_name(path)
    return name is not None and (
        name.free_threaded
        or name.stable == "abi3t"
        or (promised and not name.version and not name.stable)
    )


def are_suffixes_known(platform: str) -> bool:
    """Return whether the suffixes that Pythons import on a platform tag are known.

    They are unknown for AIX and the BSDs, and for Linux on armv5 or MIPS.
    """
    linux = re.fullmatch(_LINUX, platform)
    if linux is not None:
        return linux["processor"] in _KNOWN_PROCESSORS
    if re.fullmatch(_ANDROID, platform) or re.fullmatch(_IOS, platform):
        return True
    if platform.endswith("_wasm32"):
        return platform.startswith(_ON_EMSCRIPTEN)
    return platform.startswith("macosx_") or platform in {"any", "win32", "win_amd64", "win_arm64"}


def importable_by(name: ExtensionName, tag: Tag) -> bool:
    """Return whether at least one interpreter of the tag imports files with that suffix.

    No Python looks for ``.abi3.pyd``: on Windows a module for the stable ABI ends in ``.pyd`` alone
    (``_PyImport_DynLoadFiletab`` in CPython's dynload_win.c).
    """
    if name.stable and name.suffix.endswith(".pyd"):
        return False
    return _runs_on(name, tag.platform) and _is_looked_for(name, tag)


def may_be_importable_by(name: ExtensionName, tag: Tag) -> bool:
    """Return whether a newer PyPy or GraalPy may import files with that suffix.

    Only the platform in the suffix of its ABI is unknown: PyPy named 32-bit x86 in several ways.
    """
    return name.abi == tag.abi and not re.fullmatch(_KNOWN_RELEASES, name.abi)


def _runs_on(name: ExtensionName, platform: str) -> bool:
    if platform == "any":
        return True
    is_of_system = platform.startswith("win") == name.suffix.endswith(".pyd")
    if not is_of_system or not name.platform:
        return is_of_system
    if name.implementation == "graalpy":
        return _is_graalpys(name.platform, platform)
    linux = re.fullmatch(_LINUX, platform)
    if linux is None:
        return name.platform == _find_platform_of_suffixes(platform)
    processor = linux["processor"]
    spelled: tuple[str, ...] = (_PROCESSORS.get(processor, processor),)
    if name.implementation == "pypy":
        spelled = _NAMES_ON_PYPY.get(processor, spelled)
    # Nobody publishes a PyPy for musl; modules for one have either suffix (rpds-py 2026.9.1).
    older = name.implementation == "pypy" or ((name.version or _FIRST_WITH_MUSL) < _FIRST_WITH_MUSL)
    libcs = {"many": ("gnu",), "musl": ("musl", "gnu") if older else ("musl",)}
    return any(
        name.platform.startswith(tuple(f"{each}-linux-{libc}" for each in spelled))
        for libc in libcs.get(linux["libc"] or "", ("gnu", "musl"))
    )


def _is_graalpys(platform: str, tag: str) -> bool:
    """Compare the platform in a suffix, ``x86_64-linux``, with a platform tag.

    GraalPy looks for the suffix of its own processor and system, and for ``.so`` and ``.pyd``
    (``extension_suffixes`` in its ImpModuleBuiltins.java).
    """
    processor, _, system = platform.partition("-")
    words = (word for start, word in _ON_GRAALPY.items() if tag.startswith(start))
    if system != next(words, "linux"):
        return False
    tagged = tag.replace("arm64", "aarch64")
    known = ("x86_64", "aarch64") if system != "win32" else ()
    return not tagged.endswith(known) or tagged.endswith(processor)


def _find_platform_of_suffixes(platform: str) -> str:
    """Return the platform in the suffixes that Pythons of a platform tag import."""
    if platform.startswith("macosx"):
        return "darwin"
    if android := re.fullmatch(_ANDROID, platform):
        return _ON_ANDROID.get(android[1], "")
    if ios := re.fullmatch(_IOS, platform):
        return ios[1]
    return "wasm32-emscripten" if platform.startswith(_ON_EMSCRIPTEN) else platform


def _is_looked_for(name: ExtensionName, tag: Tag) -> bool:
    """Compare implementation, version and ABI; return True for an unknown tag."""
    parsed = re.fullmatch(_INTERPRETER, tag.interpreter)
    if parsed is None or not name.implementation or parsed["name"] not in _IMPLEMENTATIONS:
        return True
    if _IMPLEMENTATIONS[parsed["name"]] not in {"", name.implementation}:
        return False
    if name.abi and re.fullmatch(_ABI_OF_OTHERS, tag.abi):
        return name.abi == tag.abi
    lowest = (int(parsed["major"]), int(parsed["minor"] or 0))
    return _is_of_version(name, tag, lowest)


def _is_of_version(name: ExtensionName, tag: Tag, lowest: Minor) -> bool:
    """Compare version and ABI."""
    # The "t" of cp313t: such an interpreter does not look for .abi3.so.
    free_threaded = tag.abi.startswith("cp") and tag.abi.endswith("t")
    if name.stable == "abi3" or (name.stable and name.platform):
        newer = bool(name.platform) and lowest < _FIRST_WITH_STABLE_PLATFORM
        return not (newer or (free_threaded and name.stable == "abi3"))
    if tag.abi in {"abi3", "abi3t"} or tag.interpreter.startswith("py"):
        return name.version is None or (name.version[0] == lowest[0] and name.version >= lowest)
    if name.stable == "abi3t":
        return lowest >= _FIRST_WITH_ABI3T
    return name.version == lowest and (tag.abi == "none" or name.free_threaded == free_threaded)


Minor = tuple[int, int]
"""A minor version of Python: (3, 11)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenSource:
    """A Python file that does not compile."""

    path: str  # of the member
    line: int  # 0: unknown
    reason: str  # "invalid syntax"
    text: str = ""  # the line, or its beginning
    newer_than: Minor | None = None
    """The oldest promised Python, if the file compiles only on newer Pythons; None: it compiles on
    no Python.
    """
    reached_from: str = ""
    """The module of the package that always imports the file, directly or through others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnparsedSource:
    """A Python file that was not parsed, and why."""

    path: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LackingImport:
    """An import that always runs, of an own module that the package does not have."""

    path: str  # of the source
    line: int
    module: str  # "demo.parts"
    others: int  # how many other modules it imports that are absent, too
    fails: str  # the module whose import fails
    reached: bool  # whether users import that module, or it is a command; else nothing names it
    doubt: str = ""  # what may provide the module: "an extension module makes it"


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnImports:
    """The imports of a package's own modules that it does not have."""

    lacking: tuple[LackingImport, ...] = ()
    unread: tuple[UnparsedSource, ...] = ()
    # Syntax of a module that is always imported: 6, "an f-string", line and path, if it needs
    # Python 3.6. Looked for in a package for every system that has no Requires-Python.
    newest: tuple[int, str, int, str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleNames:
    """The names that one module binds.

    Needed for modules of entry points and for modules in shared namespaces.
    """

    path: str
    bound: frozenset[str]  # at top level, in any branch, and by ``global``
    opaque: str = ""
    """The construct by which the module may define further names: "__getattr__", "globals()"; else
    "".
    """
    # other packages' modules from which it imports all names (``import *``)
    stars: tuple[str, ...] = ()
    # other distributions may add to it: pkgutil, pkg_resources, or ``__path__``
    extends_path: bool
    # puts modules of other names into sys.modules, as tensorflow 2.1 puts tensorflow.python
    fills_modules: bool
    has_code: bool  # contains more than comments and a docstring


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledModules(ProbeReport):
    """All importable Python files of a package, compiled where it is installed."""

    version: Minor  # of the Python that compiled them
    broken: tuple[BrokenSource, ...]
    more_broken: int  # number of further files that do not compile
    uncompiled: tuple[UnparsedSource, ...]
    unfollowed: str  # why a module may import more of the broken files; "" if no module may


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonModules:
    """Modules that entry points name, or that other distributions may contribute to."""

    names: tuple[ModuleNames, ...] = ()
    unparsed: tuple[UnparsedSource, ...] = ()
    top_level: tuple[str, ...] | None = None  # contents of top_level.txt; None without that file
    advised: str | None = None
    """What METADATA's description says to import, if the package has no files but its metadata:
    "import demo", of the project's own name; "" if it says nothing.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class PathFile:
    """A ``.pth`` file, whose lines Python's module ``site`` follows at every start."""

    path: str
    folders: tuple[str, ...] = ()  # lines that are added to sys.path
    modules: tuple[str, ...] = ()  # modules that lines of code import whatever happens
    chosen: tuple[str, ...] = ()  # modules that they import under a condition
    is_utf_8: bool = True  # if not, nothing else is known
    fault: str = ""  # "line 1 ends Python: sys.exit()"; "" if no line is certain to fail
    unfollowed: str = ""  # the first code that may fail: "line 1: demo.start()"


@dataclass(frozen=True, kw_only=True, slots=True)
class PathFiles:
    """The ``.pth`` files at the top level of site-packages."""

    files: tuple[PathFile, ...] = ()
    unread: tuple[UnparsedSource, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptHead:
    """A script that installers put on PATH, and its interpreter as the first line names it."""

    path: str
    interpreter: str  # the text after "#!": "python", "/usr/bin/env python3"; "" without "#!"


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallFiles:
    """Small files of a distribution that the shell, a library or a scanner reads."""

    scripts: tuple[ScriptHead, ...] = ()
    stub_readers: tuple[str, ...] = ()  # modules that read the ``.pyi`` file next to them
    # SBOMs (PEP 770) that are named ``.json``, with the parser's error; "" for JSON
    sboms: tuple[tuple[str, str], ...] = ()
    unread: tuple[UnparsedSource, ...] = ()


# Uses of a package's object files by its own Python code, which is read and not run.


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeNames:
    """Paths of a package's objects, grouped by how its Python code uses their names."""

    named: frozenset[str] = frozenset()
    """Objects whose name is a literal in the code: ``"libdemo.so"``, ``"libdemo"``, ``"_demo"``;
    for a program ``"node"``. The literal's purpose is unknown, so it excuses no fault.
    """
    completed: frozenset[str] = frozenset()
    """Objects whose name the code assembles when it opens libraries: ``f"libdemo_{x}.so"``."""
    assembled: frozenset[str] = frozenset()
    """Objects whose name the code assembles anywhere: memray lets a debugger open the library
    ``f"_inject.{abi}.so"``."""
    guided: frozenset[str] = frozenset()
    """Programs that the code names where it sets LD_LIBRARY_PATH or DYLD_LIBRARY_PATH."""
    modules: frozenset[str] = frozenset()
    """Module names under which the code imports files by path: the first argument of
    ``spec_from_file_location("_demo", path)``. Such a file may have any name."""
    changes_modes: bool = False  # whether the code contains the word chmod
    unread: str = ""  # why some of the code was not read; "" if all was read


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOpenings:
    """The objects that the package's own code opens by path."""

    demanded: frozenset[str] = frozenset()  # the import fails without them
    tried: frozenset[str] = frozenset()  # the import continues without them
    # opened only by functions that no import calls, judging by the functions' names
    later: frozenset[str] = frozenset()
    unfollowed: frozenset[str] = frozenset()
    """Objects named in code that opens libraries but could not be followed to its end."""


# The entry points of a distribution, and the results of loading them.

_REFERENCE = re.compile(
    r"\s*(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*"
    r"(?::\s*(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*)?(?:\[(?P<extras>[^\]]*)\]\s*)?"
)
"""An object reference (entry points specification, "Data model")."""
HOST_OF = {"pytest11": "pytest"}
"""Entry point group -> the program that loads the group's entry points whenever it runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPoint:
    """An entry point whose value is an object reference."""

    group: str
    name: str
    module: str
    attribute: str = ""  # dotted; "" for the module itself
    extras: str = ""  # the text in brackets after the object reference

    @property
    def is_script(self) -> bool:
        """Whether installers create a command for the entry point."""
        return self.group in SCRIPT_GROUPS

    @property
    def is_always_loaded(self) -> bool:
        """Whether users run the entry point, directly or by running the program of its group."""
        return self.is_script or self.group in HOST_OF

    def describe(self) -> str:
        """Return a name for the entry point that can begin a sentence."""
        target = f"{self.module}:{self.attribute}" if self.attribute else self.module
        what = "the command" if self.is_script else f"the entry point {self.group!r}"
        return f"{what} {self.name} = {target}"


@dataclass(frozen=True, kw_only=True, slots=True)
class BadReference:
    """A command whose value does not name a function: installers refuse the package."""

    name: str
    value: str


def read_entry_points(package: Distribution) -> Iterator[EntryPoint | BadReference]:
    """Yield entry points that are object references, and commands that are not.

    Entry points of other groups may have another syntax; those that are not object references are
    skipped.
    """
    for group, name, value in package.entry_points:
        match = _REFERENCE.fullmatch(value)
        if match is not None and (match["attribute"] or group not in SCRIPT_GROUPS):
            yield EntryPoint(
                group=group,
                name=name,
                module=match["module"],
                attribute=match["attribute"] or "",
                extras=(match["extras"] or "").strip(),
            )
        elif group in SCRIPT_GROUPS:
            yield BadReference(name=name, value=value)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedEntryPoint:
    """The result of loading one entry point."""

    point: EntryPoint
    step: Step  # named after the module
    exception: str = ""  # class of the exception: "AttributeError"
    imported: bool = False  # whether the module was imported, even if its attribute failed
    callable: bool = True  # for a command: whether the loaded object is callable


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedEntryPoints(ProbeReport):
    """All entry points that are object references, loaded where the package is installed.

    Each command's module is imported in a separate process, as when a user runs the command; the
    same holds for entry points of a group that is always loaded. All entry points of any other
    group are loaded in one process, as the program that uses the group does. An entry point that
    fails there is loaded again in a separate process.
    """

    points: tuple[LoadedEntryPoint, ...] = ()
    version: tuple[int, int] = (0, 0)  # version of the Python that loaded them
    # whether an installer installed the package's requirements
    requirements_installed: bool = False
    # required distributions that are missing, if no installer installed requirements
    lacking: tuple[str, ...] = ()
    untried: tuple[EntryPoint, ...] = ()  # not loaded because the time was used up
    limit: str = ""  # the time limit, as the end of a sentence
