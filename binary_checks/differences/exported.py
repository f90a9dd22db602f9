"""Functions and variables that the old build's libraries export and the new build's do not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.knowledge.library_names import strip_graft
from binary_checks.knowledge.linked_libraries import is_grafted, is_module, pair_objects
from binary_checks.model import Change, ElfFile, Kind, ObjectFile, Package, Severity, readable_name
from binary_checks.wording.sentences import format_symbols

_NAMED = 3
_LINKERS = re.compile(
    r"_init|_fini|_edata|edata|_end|end|_etext|etext|__bss_start(?:__)?|__bss_end__|_bss_end__|"
    r"__end__|__data_start|_DYNAMIC|_GLOBAL_OFFSET_TABLE_|_PROCEDURE_LINKAGE_TABLE_|"
    r"__(?:init|fini|preinit)_array_(?:start|end)|__dso_handle|_IO_stdin_used|"
    r"__x86\.get_pc_thunk\.\w+|__cudaRegisterLinkedBinary_.*|__fatbinwrap_.*|__device_stub__.*|__gmon_start__|_mh_\w+|dyld_stub_binder|__odr_asan.*"
)
"""Symbols that linkers add by themselves (GNU ld's scripts, LLD, ld64, nvcc's device linker)."""
_STANDARD = re.compile(
    r"_Z(?:GV|GR|GTt|T[VTIScvh])?(?:\d+_)*"
    r"(?:N[rVK]*[RO]?)?(?:S[tabsiod]|10__cxxabiv1|9__gnu_cxx|6__pstl)"
)
"""Names of the C++ standard library in the Itanium mangling (section 5.1 of the C++ ABI)."""
_TEMPLATES = re.compile(
    r"_ZN[rVK]*[RO]?(?:6thrust|3cub|4cuda3std|4cuda3__4|14at_cuda_detail|5nvtx3|7cutlass|4cute)"
)
"""Templates of CUDA's header-only libraries: each library has its own copies."""
_NOBODYS = re.compile(
    r"_ZGV|_ZZ|_ZTS|^_Z(?:nw|na|dl|da)|\?\$TSS\d|@\?\d+\?\?|^\?\?_C@|_GLOBAL__(?:N_|sub_I_)|\?A0x[0-9a-f]{8}@|Ul\w*E\d*_|\.(?:part|cold|constprop|isra|llvm)\b"
)
"""Anonymous namespaces, variables of functions and their guards, lambdas, names of types, operators
new and delete, and pieces that compilers split off: no other library's code can refer to them.
"""


@difference
def exports(old: ObjectFile, new: ObjectFile) -> Iterator[Change]:
    """Symbols that a library no longer exports: whatever was linked with it fails to load.

    An extension module is called through its PyInit function alone. Nobody links with a grafted
    library, or with instances of the standard library's templates. Weak symbols are not compared:
    they come from inline functions and templates, and each object that uses these has a copy.
    """
    if not _is_library(old):
        return
    if _is_renamed(old, new):
        yield Change(
            severity=Severity.BREAK,
            sentence=f"goes by the name {new.name}, previously {old.name}: programs linked with it "
            "look for the old name",
            together="go by other names: programs linked with them look for the old names",
            detail=f"previously {old.name.rpartition('/')[2]}",
            noun="libraries",
        )
        return
    strong, weak = _find_gone(old, new)
    if strong or weak:
        yield _describe(strong, weak)
    if isinstance(old, ElfFile) and isinstance(new, ElfFile):
        for version in sorted({*old.defined_versions} - {*new.defined_versions}):
            yield Change(
                severity=Severity.BREAK, sentence=f"no longer defines the version {version}"
            )


@difference
def imported_exports(old: Package, new: Package) -> Iterator[Change]:
    """Weak exports of ELF libraries that are gone although objects of the old build import them.

    Code that includes an inline function or a template has its own weak symbol of it, and does not
    need the symbol of a library. A weak symbol that objects import comes from an explicit
    instantiation, which users' code imports, too.
    """
    for pair in pair_objects(old, new).pairs:
        if not (isinstance(pair.old, ElfFile) and _is_library(pair.old)):
            continue
        if _is_renamed(pair.old, pair.new):
            continue
        weak = _find_gone(pair.old, pair.new)[1]
        others = (item for item in old.objects_of(ElfFile) if item.path != pair.old.path)
        wanted = weak and {name for item in others for name in item.imports.among(weak)}
        if wanted:
            plural = "" if len(wanted) == 1 else "s"
            text = f"lost {len(wanted):,} export{plural} that other objects"
            shown = format_symbols(list(dict.fromkeys(map(readable_name, sorted(wanted)))))
            yield Change(
                severity=Severity.BREAK,
                subject=pair.subject,
                sentence=f"{text} of the old build imported ({shown})",
                noun="libraries",
            )


def _find_gone(old: ObjectFile, new: ObjectFile) -> tuple[frozenset[str], frozenset[str]]:
    """Return the exports that are gone: the strong ones, and the weak ones."""
    gone = frozenset(filter(_counts, old.exports.names - new.exports.names))
    weak = frozenset(name for name in gone if all(e.weak for e in old.exports.find(name)))
    return gone - weak, weak


def _is_library(item: ObjectFile) -> bool:
    """Whether other code may be linked with the object."""
    return item.kind is Kind.SHARED and not is_grafted(item) and not is_module(item)


def _is_renamed(old: ObjectFile, new: ObjectFile) -> bool:
    """Whether the soname or install name has changed, so that loaders look for another file."""
    one, other = (strip_graft(item.name.rpartition("/")[2]) for item in (old, new))
    return bool(one and other) and one.lower() != other.lower()


def _counts(name: str) -> bool:
    """Whether somebody may have linked with a symbol of that name."""
    if name.startswith("?") and "@std@@" in f"{name.partition('@@')[0]}@@":
        return False  # Microsoft's mangling: ?what@std@@...
    if _STANDARD.match(name) or _TEMPLATES.match(name):
        return False
    return not (_LINKERS.fullmatch(name) or _NOBODYS.search(name))


def _describe(strong: frozenset[str], weak: frozenset[str]) -> Change:
    names = list(dict.fromkeys(map(readable_name, sorted(strong) or sorted(weak))))
    count = len(strong) or len(weak)
    shown = [*names[:_NAMED], *names[:1] * (count - len(names[:_NAMED]))]  # overloads count
    what = f"export{'' if count == 1 else 's'}"
    further = f", and {len(weak):,} weak" if strong and weak else ""
    kind = "" if strong else "weak "
    listed = format_symbols(shown, min(_NAMED, len(names)))
    return Change(
        severity=Severity.BREAK if strong else Severity.INFO,
        sentence=f"lost {count:,} {kind}{what}{further} ({listed})",
    )
