"""Object files as their headers describe them: one class for each format; no verdicts, no I/O."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import ClassVar, NoReturn, TypeVar

from binary_checks.errors import Unavailable
from binary_checks.model.device import (
    DeviceCode,
    DeviceContainers,
    DeviceFault,
    ObjectDetails,
)

# The symbols of an object file: what it imports and what it exports.


@dataclass(frozen=True, kw_only=True, slots=True)
class Symbol:
    """One dynamic symbol, imported or exported."""

    name: str
    # the library an import is bound to: vn_file (ELF), two-level ordinal (Mach-O), DLL (PE)
    library: str = ""
    version: str = ""  # ELF symbol version node such as "GLIBC_2.17"; "" if unversioned
    weak: bool = False
    hidden: bool = False  # an exported non-default version (name@VERSION, not name@@VERSION)
    ordinal: int | None = None  # PE: the number of an export, or of an import by number
    # PE: the target of an export that forwards to another library, "NTDLL.RtlAllocateHeap"
    forwarder: str = ""


class SymbolTable(Collection[Symbol]):
    """The symbols of one object in compact storage: a Symbol is created only on demand."""

    __slots__ = ()

    @property
    @abstractmethod
    def names(self) -> frozenset[str]:
        """Every name, without versions and duplicates."""

    def each_name(self) -> Iterator[str]:
        """Yield every name, possibly with duplicates; faster than `names`."""
        return iter(self.names)

    def may_mention(self, piece: str) -> bool:
        """Return False if a quick test shows that no name contains the text, else True."""
        del piece
        return True

    @property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """The imported names that must not be missing, grouped by the library they are bound to."""
        grouped: dict[str, set[str]] = {}
        for symbol in self:
            if not symbol.weak:
                grouped.setdefault(symbol.library, set()).add(symbol.name)
        return {library: frozenset(names) for library, names in grouped.items()}

    @abstractmethod
    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols of that name, one for each version; empty if there is none."""

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Return the given names that the table contains."""
        return self.names.intersection(names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __eq__(self, other: object) -> bool:
        """Return whether the other table, of any class, has the same symbols."""
        return isinstance(other, SymbolTable) and sorted(self, key=repr) == sorted(other, key=repr)

    def __hash__(self) -> int:
        return hash(tuple(self))


class Symbols(SymbolTable):
    """A symbol table of given symbols, in the order given."""

    def __init__(self, symbols: Iterable[Symbol] = ()) -> None:
        self._symbols = tuple(symbols)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name, without versions and duplicates."""
        return frozenset(symbol.name for symbol in self._symbols)

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[Symbol, ...]]:
        found: dict[str, list[Symbol]] = {}
        for symbol in self._symbols:
            found.setdefault(symbol.name, []).append(symbol)
        return {name: tuple(symbols) for name, symbols in found.items()}

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols of that name, one for each version."""
        return self._by_name.get(name, ())

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._symbols)

    def __len__(self) -> int:
        return len(self._symbols)

    def __repr__(self) -> str:
        return f"<{len(self)} symbols>"


class UnknownSymbols(SymbolTable):
    """The table of an object whose symbols were not kept: each access raises Unavailable."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self) -> NoReturn:
        raise Unavailable(self._reason)

    @property
    def names(self) -> frozenset[str]:
        """Raises Unavailable, because the symbols were not kept."""
        self._refuse()

    def find(self, name: str) -> tuple[Symbol, ...]:  # noqa: ARG002 - the others' signature
        """Raise Unavailable, because the symbols were not kept."""
        self._refuse()

    def __iter__(self) -> Iterator[Symbol]:
        self._refuse()

    def __len__(self) -> int:  # noqa: PLE0303 - nobody knows how many there are
        self._refuse()


NO_SYMBOLS = Symbols()


class Format(str):
    """The name of a container format of native code; a reader's module may define further ones."""

    __slots__ = ()
    ELF: ClassVar[Format]
    MACHO: ClassVar[Format]
    PE: ClassVar[Format]
    WASM: ClassVar[Format]
    ARCHIVE: ClassVar[Format]
    DEVICE: ClassVar[Format]  # device code in a file of its own


Format.ELF, Format.MACHO, Format.PE = Format("ELF"), Format("Mach-O"), Format("PE")
Format.WASM = Format("WebAssembly")
Format.ARCHIVE, Format.DEVICE = Format("static archive"), Format("device code")


_LIBRARY = re.compile(
    r"(?:(-wasm(?:32|64)-\w+\.so)|\.(?:(pyd|dll)|(dylib)|so(?:\.\d+)*))\Z", re.IGNORECASE
)


def format_of_name(path: str) -> Format | None:
    """Return the format that a library of that file name should have; None for other files."""
    match = _LIBRARY.search(path)
    if match is None:
        return None
    if match[1]:
        return Format.WASM
    return Format.PE if match[2] else Format.MACHO if match[3] else Format.ELF


class Kind(str, Enum):
    """How an object file is used."""

    SHARED = "shared library"  # ET_DYN without PT_INTERP, MH_DYLIB, MH_BUNDLE, IMAGE_FILE_DLL
    EXECUTABLE = (
        "executable"  # ET_EXEC, ET_DYN with PT_INTERP, MH_EXECUTE, PE without IMAGE_FILE_DLL
    )
    RELOCATABLE = "relocatable"  # ET_REL, MH_OBJECT, COFF: input for a linker, never loaded
    DEVICE = "device code"  # EM_CUDA, EM_AMDGPU, EM_BPF and other machines that are not CPUs
    DEBUG = "debug information"  # a .debug companion or dSYM: has headers, but no contents
    OTHER = "another kind"  # a core dump, a kernel extension: never loaded as a library


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependency:
    """One needed library: DT_NEEDED, LC_LOAD_DYLIB or a PE import descriptor."""

    name: str
    weak: bool = False  # may be missing (LC_LOAD_WEAK_DYLIB)
    # resolved at first use instead of at load (PE delay import, LC_LAZY_LOAD_DYLIB)
    delayed: bool = False
    reexported: bool = False  # its symbols count as the object's own (LC_REEXPORT_DYLIB)
    upward: bool = False  # part of a cycle: initialised later (LC_LOAD_UPWARD_DYLIB)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedNames:
    """File names of shared libraries among the strings of an object's read-only data.

    A name may serve another purpose than opening the library, such as a comparison.
    """

    # sorted, without the object's own name and the libraries that it needs
    names: tuple[str, ...] = ()
    unread: str = ""  # why some of the data were not searched; "" if all were
    too_large: bool = False  # not searched because a limit was exceeded


@dataclass(frozen=True, kw_only=True, slots=True)
class NumpyBuild:
    """The version of NumPy's C API that an object was compiled for, from NumPy's constants."""

    api: int  # 1: NumPy 1.x, which NumPy 2 refuses; 2: NumPy 2, which NumPy 1.x accepts, too
    oldest: str = ""  # the oldest NumPy that the object runs with, "1.25"; "" if not stated


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectFile:
    """One object file of a package (one slice of a fat Mach-O), as described by its own headers."""

    format: ClassVar[Format]  # the container format, one for each class

    path: str  # path once installed, relative to the prefix, with "/"
    kind: Kind = Kind.SHARED
    # the same names for all formats: x86_64, aarch64, i686, armv7l, ppc64le, ...
    architecture: str = "x86_64"
    name: str = ""  # DT_SONAME, LC_ID_DYLIB or the export directory's name; "" if it has none
    needed: tuple[Dependency, ...] = ()
    imports: SymbolTable = NO_SYMBOLS
    exports: SymbolTable = NO_SYMBOLS
    size: int = 0  # bytes
    opened: OpenedNames | None = None  # None: the object imports neither dlopen nor LoadLibrary*
    refusals: tuple[str, ...] = ()
    """Why the loader of the object's own system refuses it, or crashes, before any of its code
    runs. Each reason continues a sentence that begins with the path: "has SectionAlignment 0x3,
    which is not a power of 2".
    """
    texts: tuple[str, ...] = ()
    """Strings that identify libraries and compilers: "OPENSSLDIR: …", "GCC: (GNU) 14.2.1"; sorted.
    Only read-only data are searched, if the headers show where they are.
    """
    # None: the object does not call ``import_array()`` of NumPy's headers
    numpy: NumpyBuild | None = None
    native_cpu: str = ""
    """The CPU of the build machine if GCC recorded ``-march=native``: "znver3 with AVX-512"."""
    gil_not_used: bool | None = None
    """Whether the module slots in the data of an extension module for free-threaded Pythons say
    ``Py_MOD_GIL_NOT_USED``; None: the data have no array of module slots.
    """

    @property
    def file_name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]

    @property
    def directory(self) -> str:
        """The path without its last component; "" for a file directly in the prefix."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCodeCarrier(ObjectFile):
    """The base class of object files that may contain device code."""

    device_code: tuple[DeviceCode, ...] = ()  # by target, sorted; of all members of an archive
    device_containers: tuple[DeviceContainers, ...] = ()  # by set of targets, in file order
    device_faults: tuple[DeviceFault, ...] = ()
    device_sample: ObjectDetails | None = None  # None: no sample was taken


@dataclass(frozen=True, kw_only=True, slots=True)
class NeededVersion:
    """A version that a needed library must have, even if no symbol uses it.

    One Vernaux entry of ELF, or the compatibility version in a load command of Mach-O.
    """

    library: str  # vn_file; the name in the load command
    version: str
    weak: bool = False  # VER_FLG_WEAK: the loader does not require it


@dataclass(frozen=True, kw_only=True, slots=True)
class ElfFile(DeviceCodeCarrier):
    """An ELF object, read from its program headers and its dynamic segment."""

    format: ClassVar[Format] = Format.ELF

    rpath: tuple[str, ...] = ()  # DT_RPATH split at ":"; () if absent, ("",) if present and empty
    runpath: tuple[str, ...] = ()  # DT_RUNPATH split at ":"; () and ("",) as for rpath
    symbol_versions: tuple[NeededVersion, ...] = ()  # DT_VERNEED
    defined_versions: tuple[str, ...] = ()  # DT_VERDEF without the base node
    interpreter: str = ""  # PT_INTERP
    opens: bool = True  # whether dlopen accepts the object: neither ET_EXEC nor DF_1_PIE
    # PT_GNU_STACK with PF_X, or no PT_GNU_STACK on an architecture with an executable default
    executable_stack: bool = False
    stack_header: bool = True  # has a PT_GNU_STACK header
    relro: bool = True  # has a PT_GNU_RELRO header
    bind_now: bool = False  # DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW
    text_relocations: bool = False  # DT_TEXTREL or DF_TEXTREL
    code_relocations: int | None = None
    """Number of relocations in segments that are not writable, counted only if the object announces
    text relocations; None: not counted.
    """
    writable_executable: bool = False  # a PT_LOAD with PF_W and PF_X
    static_tls: bool = False  # DF_STATIC_TLS
    initial_exec: tuple[str, ...] | None = ()
    """Thread-local variables that relocations of the initial-exec model (R_*_TPOFF) refer to; ""
    for the object's own without a name. Read only with DF_STATIC_TLS, which linkers then set. None:
    the relocations could not be read.
    """
    tls_size: int = 0  # p_memsz of PT_TLS rounded up to its alignment, bytes
    relative_relocations: bool = False  # DT_RELR
    android_relocations: tuple[str, ...] = ()
    """Formats of Android's own: ``packed`` (DT_ANDROID_REL and RELA), ``relative``
    (DT_ANDROID_RELR).
    """
    sysv_hash: bool = True  # DT_HASH; without it, symbols are found by DT_GNU_HASH alone
    section_headers: bool = True  # which only Android's loader wants
    no_default_libraries: bool = False  # DF_1_NODEFLIB
    build_id: str = ""  # NT_GNU_BUILD_ID, hexadecimal
    alignment: int = 0x1000  # the smallest p_align of its PT_LOAD segments, bytes; 0 without any
    # GNU_PROPERTY_X86_ISA_1_NEEDED: "x86-64-v2" ...; "" for the baseline or if not stated
    isa_level: str = ""
    guards: tuple[str, ...] = ()
    """Control-flow protections that all of the object's code supports: IBT, SHSTK
    (GNU_PROPERTY_X86_FEATURE_1_AND), BTI, PAC, GCS (GNU_PROPERTY_AARCH64_FEATURE_1_AND).
    """
    fixed_address: bool = False  # ET_EXEC: the program is not position-independent
    debug_information: bool = False  # a .debug_info or .zdebug_info section with contents
    debug_bytes: int = 0  # size in the file of all sections named .debug_* or .zdebug_*


@dataclass(frozen=True, kw_only=True, slots=True)
class MachOFile(ObjectFile):
    """One slice of a Mach-O object; symbol names have no leading underscore.

    The library of an import is the install name that its two-level ordinal refers to, "@executable"
    for the program, or "" if the import is looked up in all images. The library of an export is the
    library that it is re-exported from.
    """

    format: ClassVar[Format] = Format.MACHO

    bundle: bool = False  # MH_BUNDLE: loaded by dlopen only, cannot be linked with
    current_version: str = ""  # of LC_ID_DYLIB
    compatibility_version: str = ""  # of LC_ID_DYLIB
    # the oldest compatibility versions of needed libraries that are not of macOS
    required_versions: tuple[NeededVersion, ...] = ()
    rpaths: tuple[str, ...] = ()  # LC_RPATH in order
    platforms: tuple[str, ...] = ()  # "macos", "ios", ...; () if not stated, which means macOS
    minimum_os: str = ""  # LC_BUILD_VERSION minos or LC_VERSION_MIN_MACOSX, "11.0"
    sdk: str = ""
    uuid: str = ""  # as dwarfdump prints it
    signed: bool = False  # has LC_CODE_SIGNATURE
    signature_faults: tuple[str, ...] = ()  # such as pages whose hash differs
    two_level_namespace: bool = True  # MH_TWOLEVEL
    chained_fixups: bool = False  # every import is resolved at load: none is bound lazily


@dataclass(frozen=True, kw_only=True, slots=True)
class PeFile(DeviceCodeCarrier):
    """A PE image; the name of a symbol without a name is its ordinal: ``#5``."""

    format: ClassVar[Format] = Format.PE

    characteristics: int = 0  # IMAGE_FILE_HEADER.Characteristics
    dll_characteristics: int = 0  # IMAGE_OPTIONAL_HEADER.DllCharacteristics
    subsystem: int = 0  # IMAGE_SUBSYSTEM_*: 2 windowed, 3 console
    subsystem_version: str = ""  # the oldest Windows that the image requires, "6.0"
    linker_version: str = ""  # "14.44": Microsoft's linkers use the version of the toolset
    managed: bool = False  # .NET code only, regardless of the stated architecture; not C++/CLI
    writable_executable: tuple[str, ...] = ()  # sections with IMAGE_SCN_MEM_WRITE and _EXECUTE
    # names of the side-by-side assemblies that its manifest needs; None if it could not be read
    assemblies: tuple[str, ...] | None = ()
    dependent_load_flags: int = 0  # LOAD_LIBRARY_SEARCH_* flags of its load configuration
    pdb: str = ""  # path of the debug information in the CodeView record
    debug_information: bool = False  # a .debug_info section with contents, as MinGW leaves them
    debug_bytes: int = 0  # size in the file of all sections named .debug_* or .zdebug_*
    # bytes after all parts that the headers describe; launchers append a zip there
    overlay: int = 0
    signed: bool = False  # has an Authenticode signature
    # whether the signature's digest matches the file; None if not computed
    signature_matches: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WasmFile(ObjectFile):
    """A WebAssembly module.

    The library of an import is the module that it is imported from: "env" for functions and for
    Emscripten's own globals, "GOT.func" and "GOT.mem" for addresses.
    """

    format: ClassVar[Format] = Format.WASM

    side_module: bool = False  # has a section dylink.0: can be loaded into a running program
    runtime_path: tuple[str, ...] = ()  # WASM_DYLINK_RUNTIME_PATH
    memory_size: int = 0  # bytes of the memory that it needs
    memory_alignment: int = 1  # bytes
    table_size: int = 0  # entries of the function table that it needs
    # features of the engine that the code uses: "simd128", "atomics"; None if not stated
    features: tuple[str, ...] | None = None
    shared_memory: bool = False  # built for threads
    exceptions: str = ""
    """How it throws C++ exceptions or uses longjmp: by the "engine" (-fwasm-exceptions), or by
    "JavaScript" (-fexceptions); "" if it does neither.
    """
    debug_information: bool = False  # a .debug_info section
    debug_bytes: int = 0  # size of all sections named .debug_*


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveMembers:
    """Members of a static archive with the same format, architecture and note."""

    format: str  # "ELF", "Mach-O", "COFF", "LLVM bitcode", "import"; "" for members without code
    architecture: str = ""  # "" if the member's first bytes do not show it
    count: int = 1
    first: str = ""  # name of the group's first member
    note: str = ""  # "GCC's own code for LTO alone", ...


@dataclass(frozen=True, kw_only=True, slots=True)
class CxxStrings:
    """The std::string types in the function names of an archive."""

    new: int = 0  # names with std::__cxx11
    old: int = 0  # names with the old ABI's std::string, among the examined names
    new_example: str = ""
    old_example: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticArchive(DeviceCodeCarrier):
    """A static archive (``.a``, ``.lib``).

    No loader loads static archives: without device code they matter only in an archive of C++
    libraries, whose users link with them.
    """

    format: ClassVar[Format] = Format.ARCHIVE

    members: tuple[ArchiveMembers, ...] = ()
    indexed: bool = True  # has a symbol index, without which GNU ld does not link it
    # the std::string types of the names in the symbol index
    strings: CxxStrings = field(default_factory=CxxStrings)
    thin: tuple[str, ...] = ()
    """File names, as written, that a thin archive refers to instead of containing them."""
    unread: str = ""  # why the archive was not read completely

    @property
    def is_plain(self) -> bool:
        """Whether the archive contains no device code."""
        return not (self.device_code or self.device_containers or self.device_faults)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFile(DeviceCodeCarrier):
    """A file that contains only device code: ``.fatbin``, a bundle of code objects."""

    format: ClassVar[Format] = Format.DEVICE


_Class = TypeVar("_Class")


def leaf_classes(base: type[_Class]) -> Mapping[str, type[_Class]]:
    """Map names to the classes below the given one, without abstract bases.

    (A dataclass with slots exists twice for a while; the later class is used.)
    """
    found: dict[str, type[_Class]] = {}
    waiting = [base]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update((kind.__name__, kind) for kind in below)
        waiting += below
    return {name: kind for name, kind in found.items() if not kind.__subclasses__()}


def object_kinds() -> Mapping[str, type[ObjectFile]]:
    """Map the names of formats to the classes of object files.

    A reader's module may define another class, which is included once that module is loaded.
    """
    return {kind.format: kind for kind in leaf_classes(ObjectFile).values()}


@dataclass(frozen=True, kw_only=True, slots=True)
class MalformedObject:
    """A file that begins like an object file, but has contradictory contents."""

    path: str
    format: Format
    offset: int  # bytes from the start of the object file
    reason: str
    instead: str = ""
    """The actual contents of the file, if only its name is that of an object: "130 bytes, a git-lfs
    pointer".
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadObject:
    """An object file that this version cannot read, through no fault of the file: never a pass.

    The file is of an unsupported kind, or exceeds a limit.
    """

    path: str
    format: Format
    reason: str
    too_large: bool = False  # a limit was exceeded


# Readings of the package's objects by other libraries.


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """One fact of one object that another library reads differently."""

    path: str  # of the object, with its architecture if the file has several
    library: str  # "LIEF 1.0.0"
    fact: str  # "needed"
    ours: str  # both readings are shortened for messages
    theirs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NoOpinion:
    """One object, or all objects of a format, that another library does not read, and why."""

    path: str = ""  # "" for every object of the format
    library: str
    reason: str
    fact: str = ""  # the only fact that the library does not know; "" for all facts


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondOpinion:
    """The facts of a package's objects as other libraries read them, compared with our readings."""

    libraries: tuple[str, ...] = ()  # libraries that answered, with their versions
    objects: int = 0  # number of objects that at least one library read
    compared: int = 0  # number of compared facts, counted once for each library
    disagreements: tuple[Disagreement, ...] = ()
    missing: tuple[NoOpinion, ...] = ()
