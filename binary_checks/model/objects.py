"""What an object file says of itself: one class a format, no verdicts and no I/O."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache
from typing import ClassVar, Final, NoReturn

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
    library: str = (
        ""  # whom an import is asked of: vn_file (ELF), two-level ordinal (Mach-O), DLL (PE)
    )
    version: str = ""  # ELF symbol version node such as "GLIBC_2.17"; "" is unversioned
    weak: bool = False
    hidden: bool = False  # an exported non-default version (name@VERSION, not name@@VERSION)
    ordinal: int | None = None  # PE: an export's number; of an import, when it asks by number
    forwarder: str = ""  # PE: an export that stands for another library's, "NTDLL.RtlAllocateHeap"


class SymbolTable(Collection[Symbol]):
    """The symbols of one object, kept compact: a Symbol is made only when somebody asks for it."""

    __slots__ = ()

    @property
    @abstractmethod
    def names(self) -> frozenset[str]:
        """Every name once, without versions."""

    def each_name(self) -> Iterator[str]:
        """Every name, some perhaps more than once; quicker than all of them together."""
        return iter(self.names)

    def may_mention(self, piece: str) -> bool:
        """Whether a name may have that in it: False only where it is quick to say so."""
        del piece
        return True

    @property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, version); the library of an export is ""."""
        grouped: dict[tuple[str, str], set[str]] = {}
        for symbol in self:
            grouped.setdefault((symbol.library, symbol.version), set()).add(symbol.name)
        return {key: frozenset(names) for key, names in grouped.items()}

    @property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """By the library that they are asked of, the imported names that may not be missing."""
        grouped: dict[str, set[str]] = {}
        for symbol in self:
            if not symbol.weak:
                grouped.setdefault(symbol.library, set()).add(symbol.name)
        return {library: frozenset(names) for library, names in grouped.items()}

    @abstractmethod
    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name, one a version; empty when there is none."""

    @property
    def forwarders(self) -> Mapping[str, str]:
        """By name, whose function an export stands for, where it does (PE)."""
        return {symbol.name: symbol.forwarder for symbol in self if symbol.forwarder}

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that it has."""
        return self.names.intersection(names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __eq__(self, other: object) -> bool:
        """Whether the other, of whatever kind, has the same symbols."""
        return isinstance(other, SymbolTable) and sorted(self, key=repr) == sorted(other, key=repr)

    def __hash__(self) -> int:
        return hash(tuple(self))


class Symbols(SymbolTable):
    """A symbol table over ready-made symbols, in the order given."""

    def __init__(self, symbols: Iterable[Symbol] = ()) -> None:
        self._symbols = tuple(symbols)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name once, without versions."""
        return frozenset(symbol.name for symbol in self._symbols)

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[Symbol, ...]]:
        found: dict[str, list[Symbol]] = {}
        for symbol in self._symbols:
            found.setdefault(symbol.name, []).append(symbol)
        return {name: tuple(symbols) for name, symbols in found.items()}

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name, one a version."""
        return self._by_name.get(name, ())

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._symbols)

    def __len__(self) -> int:
        return len(self._symbols)

    def __repr__(self) -> str:
        return f"Symbols({self._symbols!r})"


class UnknownSymbols(SymbolTable):
    """The table of an object whose symbols nobody kept: whoever asks could not look."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self) -> NoReturn:
        raise Unavailable(self._reason)

    @property
    def names(self) -> frozenset[str]:
        """Raises Unavailable, as all that asks for a symbol does."""
        self._refuse()

    def find(self, name: str) -> tuple[Symbol, ...]:  # noqa: ARG002 - the others' signature
        """Raises Unavailable."""
        self._refuse()

    def __iter__(self) -> Iterator[Symbol]:
        self._refuse()

    def __len__(self) -> int:  # noqa: PLE0303 - nobody knows how many there are
        self._refuse()


NO_SYMBOLS = Symbols()


class Format(str):
    """A container format of native code, by its name; a reader's module may name another one."""

    __slots__ = ()
    ELF: ClassVar[Format]
    MACHO: ClassVar[Format]
    PE: ClassVar[Format]
    ARCHIVE: ClassVar[Format]
    DEVICE: ClassVar[Format]  # without a host's object around it


Format.ELF, Format.MACHO, Format.PE = Format("ELF"), Format("Mach-O"), Format("PE")
Format.ARCHIVE, Format.DEVICE = Format("static archive"), Format("device code")


_LIBRARY = re.compile(r"\.(?:(pyd|dll)|(dylib)|so(?:\.\d+)*)\Z", re.IGNORECASE)


def format_of_name(path: str) -> Format | None:
    """The format that a loader expects of a file of that name, which is a library's; else None."""
    match = _LIBRARY.search(path)
    if match is None:
        return None
    return Format.PE if match[1] else Format.MACHO if match[2] else Format.ELF


class Kind(str, Enum):
    """What an object file is for."""

    SHARED = "shared library"  # ET_DYN without PT_INTERP, MH_DYLIB, MH_BUNDLE, IMAGE_FILE_DLL
    EXECUTABLE = (
        "executable"  # ET_EXEC, ET_DYN with PT_INTERP, MH_EXECUTE, PE without IMAGE_FILE_DLL
    )
    RELOCATABLE = "relocatable"  # ET_REL, MH_OBJECT, COFF: input for a linker, never loaded
    DEVICE = "device code"  # EM_CUDA, EM_AMDGPU, EM_BPF and others that no CPU of the tag runs
    DEBUG = "debug information"  # a .debug companion or dSYM: headers kept, contents gone
    OTHER = "another kind"  # a core dump, a kernel's extension: no loader of libraries takes it


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependency:
    """One needed library: DT_NEEDED, LC_LOAD_DYLIB or a PE import descriptor."""

    name: str
    weak: bool = False  # may be missing (LC_LOAD_WEAK_DYLIB)
    delayed: bool = (
        False  # looked for at first use, not at load (PE delay import, LC_LAZY_LOAD_DYLIB)
    )
    reexported: bool = False  # its symbols count as the object's own (LC_REEXPORT_DYLIB)
    upward: bool = False  # of a cycle: initialised later (LC_LOAD_UPWARD_DYLIB)


_LONGEST = 255  # bytes of a name that is kept, as systems allow; others are made to be long
_share: Final = lru_cache(maxsize=4096)(Dependency)


def make_dependency(*, name: str, **how: bool) -> Dependency:
    """A `Dependency` of these fields, made once: a package's objects need the same few.

    In a package of 800 libraries that each need all others there are 640,000.
    """
    return _share(name=name, **how) if len(name) <= _LONGEST else Dependency(name=name, **how)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedNames:
    """File names of shared libraries among the strings of an object's read-only data.

    Whether it opens one, and when, the data do not tell: a name may serve for a comparison too.
    """

    names: tuple[str, ...] = ()  # sorted, without its own and those that it needs
    unread: str = ""  # why not all of the data were searched; "" where they were
    too_large: bool = False  # that is so because there is more of something than is read


@dataclass(frozen=True, kw_only=True, slots=True)
class NumpyBuild:
    """For which C API of NumPy an object was compiled, as what its headers compile in says."""

    api: int  # 1: that of NumPy 1.x, which NumPy 2 refuses; 2: that of NumPy 2, which 1.x has too
    oldest: str = ""  # the oldest NumPy that it runs with, "1.25"; "" where it does not say


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectFile:
    """One object file of a package (one slice of a fat Mach-O), as its own headers describe it."""

    format: ClassVar[Format]  # the container format, one for each class

    path: str  # where it lies once installed, relative to the prefix, with "/"
    kind: Kind = Kind.SHARED
    architecture: str = (
        "x86_64"  # one spelling for all formats: x86_64, aarch64, i686, armv7l, ppc64le, ...
    )
    name: str = ""  # DT_SONAME, LC_ID_DYLIB or the export directory's name; "" when it has none
    needed: tuple[Dependency, ...] = ()
    imports: SymbolTable = NO_SYMBOLS
    exports: SymbolTable = NO_SYMBOLS
    size: int = 0  # bytes
    opened: OpenedNames | None = (
        None  # of one that imports dlopen or LoadLibrary*; None: it has no such function
    )
    refusals: tuple[str, ...] = ()
    """Why the loader of its own system refuses it, or crashes, before any of its code runs: each
    goes on from the path, "has SectionAlignment 0x3, which is no power of 2"."""
    texts: tuple[str, ...] = ()
    """Texts in it that libraries and compilers are known by: "OPENSSLDIR: …", "GCC: (GNU) 14.2.1";
    sorted. Of those in what is only read, as far as its headers tell where that lies."""
    numpy: NumpyBuild | None = None  # None: it calls no ``import_array()`` of NumPy's headers

    @property
    def file_name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]

    @property
    def directory(self) -> str:
        """The path without its last component; "" for a file directly in the prefix."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class NeededVersion:
    """One Vernaux: a version node that must be defined by a needed library, used or not."""

    library: str  # vn_file
    version: str
    weak: bool = False  # VER_FLG_WEAK: the loader does not insist


@dataclass(frozen=True, kw_only=True, slots=True)
class ElfFile(ObjectFile):
    """An ELF object, read from its program headers and its dynamic segment."""

    format: ClassVar[Format] = Format.ELF

    rpath: tuple[str, ...] = ()  # DT_RPATH split at ":"; () is absent, ("",) is present and empty
    runpath: tuple[str, ...] = ()  # DT_RUNPATH, likewise
    symbol_versions: tuple[NeededVersion, ...] = ()  # DT_VERNEED
    defined_versions: tuple[str, ...] = ()  # DT_VERDEF without the base node
    interpreter: str = ""  # PT_INTERP
    opens: bool = True  # with dlopen: it is neither ET_EXEC nor marked with DF_1_PIE
    executable_stack: bool = (
        False  # PT_GNU_STACK with PF_X, or no header where the default is executable
    )
    stack_header: bool = True  # PT_GNU_STACK is there
    relro: bool = True  # PT_GNU_RELRO is there
    bind_now: bool = False  # DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW
    text_relocations: bool = False  # DT_TEXTREL or DF_TEXTREL
    code_relocations: int | None = None
    """Relocations in segments that are not writable, where it announces some; None: not counted."""
    writable_executable: bool = False  # a PT_LOAD with PF_W and PF_X
    static_tls: bool = False  # DF_STATIC_TLS
    tls_size: int = 0  # p_memsz of PT_TLS rounded up to its alignment, bytes
    relative_relocations: bool = False  # DT_RELR
    no_default_libraries: bool = False  # DF_1_NODEFLIB
    build_id: str = ""  # NT_GNU_BUILD_ID, hexadecimal
    alignment: int = 0x1000  # the smallest p_align of its PT_LOAD segments, bytes; 0 without any
    isa_level: str = (
        ""  # GNU_PROPERTY_X86_ISA_1_NEEDED: "x86-64-v2" ...; "" when baseline or not declared
    )
    guards: tuple[str, ...] = ()
    """Of control flow that all its code supports: IBT, SHSTK (GNU_PROPERTY_X86_FEATURE_1_AND), BTI,
    PAC, GCS (GNU_PROPERTY_AARCH64_FEATURE_1_AND)."""
    fixed_address: bool = False  # ET_EXEC: a program that is not position-independent
    debug_information: bool = False  # a .debug_info or .zdebug_info section with contents
    debug_bytes: int = 0  # in the file, of all sections named .debug_* or .zdebug_*
    device_code: tuple[DeviceCode, ...] = ()  # by target, sorted
    device_containers: tuple[DeviceContainers, ...] = ()  # by set of targets, in file order
    device_faults: tuple[DeviceFault, ...] = ()
    device_sample: ObjectDetails | None = None  # None: no sample was taken


@dataclass(frozen=True, kw_only=True, slots=True)
class MachOFile(ObjectFile):
    """One slice of a Mach-O object; names of its symbols are without the leading underscore.

    The library of an import is the install name that its two-level ordinal stands for; "" is
    looked up everywhere, "@executable" in the program itself. That of an export is the one that
    it is re-exported from.
    """

    format: ClassVar[Format] = Format.MACHO

    bundle: bool = False  # MH_BUNDLE: loaded by dlopen alone, and no library to link with
    current_version: str = ""  # of LC_ID_DYLIB
    compatibility_version: str = ""  # likewise
    rpaths: tuple[str, ...] = ()  # LC_RPATH in order
    platforms: tuple[str, ...] = ()  # "macos", "ios", ...; () is not said: macOS
    minimum_os: str = ""  # LC_BUILD_VERSION minos or LC_VERSION_MIN_MACOSX, "11.0"
    sdk: str = ""
    uuid: str = ""  # as dwarfdump prints it
    signed: bool = False  # LC_CODE_SIGNATURE is there
    signature_faults: tuple[str, ...] = ()  # such as pages with another hash
    two_level_namespace: bool = True  # MH_TWOLEVEL
    chained_fixups: bool = False  # every import is looked up at load: nothing is bound lazily


@dataclass(frozen=True, kw_only=True, slots=True)
class PeFile(ObjectFile):
    """A PE image; a symbol without a name is called by its ordinal: ``#5``."""

    format: ClassVar[Format] = Format.PE

    characteristics: int = 0  # IMAGE_FILE_HEADER.Characteristics
    dll_characteristics: int = 0  # IMAGE_OPTIONAL_HEADER.DllCharacteristics
    subsystem: int = 0  # IMAGE_SUBSYSTEM_*: 2 windowed, 3 console
    subsystem_version: str = ""  # the oldest Windows that it asks for, "6.0"
    linker_version: str = ""  # "14.44": Microsoft's linkers count as the toolset does
    managed: bool = False  # .NET code alone, whatever the architecture says; not C++/CLI
    writable_executable: tuple[str, ...] = ()  # sections with IMAGE_SCN_MEM_WRITE and _EXECUTE
    dependent_load_flags: int = 0  # LOAD_LIBRARY_SEARCH_* that its load configuration asks for
    pdb: str = ""  # where the linker put the debug information, as the CodeView record has it
    debug_information: bool = False  # a .debug_info section with contents, as MinGW leaves it
    debug_bytes: int = 0  # in the file, of all sections named .debug_* or .zdebug_*
    overlay: int = 0  # bytes behind all that the headers speak of, as launchers carry a zip there
    signed: bool = False  # an Authenticode signature is there
    signature_matches: bool | None = None  # its digest is the file's; None where not computed
    device_code: tuple[DeviceCode, ...] = ()  # by target, sorted
    device_containers: tuple[DeviceContainers, ...] = ()  # by set of targets, in file order
    device_faults: tuple[DeviceFault, ...] = ()
    device_sample: ObjectDetails | None = None  # None: no sample was taken


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveMembers:
    """The members of a static archive that are alike."""

    format: str  # "ELF", "Mach-O", "COFF", "LLVM bitcode", "import"; "" for what is no code
    architecture: str = ""  # "" where its first bytes do not say
    count: int = 1
    first: str = ""  # the name of the first of them
    note: str = ""  # "GCC's own code for LTO alone", ...


@dataclass(frozen=True, kw_only=True, slots=True)
class CxxStrings:
    """Which std::string the functions that an archive defines have in their names."""

    new: int = 0  # names with std::__cxx11
    old: int = 0  # names with the one before, as far as they were looked at
    new_example: str = ""
    old_example: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticArchive(ObjectFile):
    """A static archive (``.a``, ``.lib``).

    Nothing loads it: one without device code is an object only of what users link with, an
    archive of C++ libraries.
    """

    format: ClassVar[Format] = Format.ARCHIVE

    device_code: tuple[DeviceCode, ...] = ()  # of all members
    device_containers: tuple[DeviceContainers, ...] = ()
    device_faults: tuple[DeviceFault, ...] = ()
    device_sample: ObjectDetails | None = None  # None: no sample was taken
    members: tuple[ArchiveMembers, ...] = ()
    indexed: bool = True  # whether it has an index of symbols, without which GNU ld takes none
    strings: CxxStrings = field(default_factory=CxxStrings)  # by the names in that index
    thin: tuple[str, ...] = ()
    """Of a thin archive the files that it names in place of having them, as they stand."""
    unread: str = ""  # why not all of it was read

    @property
    def is_plain(self) -> bool:
        """Whether there is no device code in it."""
        return not (self.device_code or self.device_containers or self.device_faults)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFile(ObjectFile):
    """A file of nothing but device code in containers: ``.fatbin``, a bundle of code objects."""

    format: ClassVar[Format] = Format.DEVICE

    device_code: tuple[DeviceCode, ...] = ()
    device_containers: tuple[DeviceContainers, ...] = ()
    device_faults: tuple[DeviceFault, ...] = ()
    device_sample: ObjectDetails | None = None  # None: no sample was taken


def object_kinds() -> Mapping[str, type[ObjectFile]]:
    """The classes of object files by the names of their formats.

    A reader's module may have one of its own, which is known once it is loaded. (Of a dataclass
    with slots there are two for a while; the later one is meant.)
    """
    return {kind.format: kind for kind in ObjectFile.__subclasses__()}


@dataclass(frozen=True, kw_only=True, slots=True)
class MalformedObject:
    """A file that begins like an object file and contradicts itself further on."""

    path: str
    format: Format
    offset: int  # bytes from the start of the object file
    reason: str
    instead: str = ""
    """What a file is that is no object at all but named as one: "130 bytes, a git-lfs pointer"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadObject:
    """An object file that this version does not read, through no fault of it: never a pass.

    It is of another kind, or has more of something than is read.
    """

    path: str
    format: Format
    reason: str
    too_large: bool = False  # it has more of something than is read


# What other libraries read in the objects of a package, beside our own readers.


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """One fact of one object that a library reads otherwise than we do."""

    path: str  # of the object, and its architecture where the file has several
    library: str  # "LIEF 1.0.0"
    fact: str  # "needed"
    ours: str  # both as a sentence can hold them
    theirs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NoOpinion:
    """One object, or all of them, of which a library says nothing, and why."""

    path: str = ""  # "" is every object of its format
    library: str
    reason: str
    fact: str = ""  # the only one that it does not know; "" is all


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondOpinion:
    """The facts of a package's objects as other libraries read them, held against ours."""

    libraries: tuple[str, ...] = ()  # those that answered, with their versions
    objects: int = 0  # of which at least one library said something
    compared: int = 0  # facts, counted once for each library
    disagreements: tuple[Disagreement, ...] = ()
    missing: tuple[NoOpinion, ...] = ()
