"""Which of libstdc++'s two std::string types the C++ interfaces of a package use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import find_unread
from binary_checks.model import Finding, Format, Kind, NotInspected, ObjectFile, Package, Problem
from binary_checks.wording.problem_lines import OF_CXX_ABI
from binary_checks.wording.sentences import name_first

_NAMESPACE = r"_Z(?:T[VTISC]|GV|GR)?N[VKRO]*(\d{1,9})(?!\d)"
_NOBODYS = frozenset({"std", "__gnu_cxx", "__cxxabiv1", "__gnu_debug", "__gnu_parallel"})
_OTHER_LIBRARIES = ("libc++.", "msvcp1", "vcruntime1")
_NEW, _OLD = "new (std::__cxx11::string)", "old (std::string as Ss)"


class _Evidence:
    """The symbols of one namespace that show an ABI, by object."""

    def __init__(self) -> None:
        self.new: dict[str, list[str]] = {}
        self.old: dict[str, list[str]] = {}

    def count(self, new: bool) -> int:
        return sum(map(len, (self.new if new else self.old).values()))


@check
def mixed_cxx_abi(
    package: Package, *, namespaces: tuple[str, ...] = (), minimum: int = 2
) -> Iterator[Finding]:
    """Objects of a package use two different std::string types in one C++ namespace.

    libstdc++ has an old and a new std::string and std::list (_GLIBCXX_USE_CXX11_ABI). Each
    namespace is judged separately, by the symbols that the package's own objects export and import;
    with the option ``namespaces`` only the listed ones are judged, together. At least ``minimum``
    symbols of each kind must occur. Bundled libraries, std itself, and objects that need libc++ or
    the Visual C++ runtime do not count: these have only one std::string.

    Why: a function compiled for one std::string is not found by a caller compiled for the other, or
    gets an object of another layout.
    Fix: compile everything with one ``-D_GLIBCXX_USE_CXX11_ABI``.
    Level: a call across the two does not link, or corrupts memory.
    """
    yield from _find_unread(package)
    # decoding names is useless if no symbol may have the new ABI
    if not any(
        item.exports.may_mention("cxx11") or item.imports.may_mention("cxx11")
        for item in _own_objects(package)
        if not _has_one_string(item)
    ):
        return
    found = _gather(package, namespaces)
    groups = {", ".join(namespaces): _merge(found.values())} if namespaces else found
    for name, evidence in sorted(groups.items()):
        if min(evidence.count(True), evidence.count(False)) >= minimum:
            yield Problem(
                sentence=f"namespace {name} has both C++ ABIs: "
                f"{_describe(evidence.new, _NEW)}; {_describe(evidence.old, _OLD)}",
                facts=(name,),
                cause=OF_CXX_ABI,
            )


@check(enabled=False)
def unexpected_cxx_abi(
    package: Package,
    *,
    expected: bool | None = None,
    namespaces: tuple[str, ...] = (),
    minimum: int = 2,
    at_least: int = 0,
) -> Iterator[Finding]:
    """A package's C++ interfaces do not have the ABI that the profile expects.

    ``expected`` is the value of _GLIBCXX_USE_CXX11_ABI: true for the new std::string. Without
    ``namespaces`` all namespaces of the package count. An object with ``minimum`` wrong symbols is
    a problem; if fewer than ``at_least`` symbols of the package depend on the ABI, the result is
    "not inspected".

    Why: code compiled against the package links with the wrong functions, or with none.
    Fix: compile with ``-D_GLIBCXX_USE_CXX11_ABI=1`` or ``=0``, as documented for users.
    Level: what users compile against the package does not link.
    """
    if expected is None:
        raise NotApplicable("the profile does not say which ABI is expected")
    evidence = _merge(_gather(package, namespaces).values())
    relevant = evidence.count(True) + evidence.count(False)
    formats = {item.format for item in _own_objects(package)}
    formats |= {item.format for item in package.malformed}
    formats |= {item.format for item in package.unread}
    if not relevant and formats and Format.ELF not in formats:
        raise NotApplicable("no ELF object: libc++ and Visual C++ have only one std::string")
    yield from _find_unread(package)
    wrong, name = (evidence.old, _OLD) if expected else (evidence.new, _NEW)
    for path, symbols in sorted(wrong.items()):
        if len(symbols) >= minimum:
            yield Problem(path=path, sentence=f"has the {name} ABI: {name_first(symbols)}")
    if relevant < (enough := max(minimum, at_least)):
        where = ", ".join(namespaces) or "the package's own namespaces"
        yield NotInspected(
            sentence=f"fewer than {enough} symbols in {where} show the C++ ABI: {relevant}"
        )


def _own_objects(package: Package) -> tuple[ObjectFile, ...]:
    """Return the loadable objects that no repair tool added; all formats share one mangling."""
    loaded = (i for i in package.objects if i.kind in (Kind.SHARED, Kind.EXECUTABLE))
    return tuple(item for item in loaded if _is_own(package.layout.shorten(item.path)))


def _is_own(path: str) -> bool:
    """Whether the path lies outside of the folders into which repair tools put libraries."""
    top, slash, _ = path.partition("/")
    return not ((slash and top[1:].endswith(".libs")) or "/.libs/" in path or "/.dylibs/" in path)


def _find_unread(package: Package) -> Iterator[NotInspected]:
    return find_unread(
        package,
        found=bool(_own_objects(package)),
        absent="no loadable object of the package's own",
        concerns=lambda path: _is_own(package.layout.shorten(path)),
    )


def _has_one_string(item: ObjectFile) -> bool:
    """Whether an object's C++ library is not libstdc++, so that it has only one std::string.

    The object's needed libraries show that. macOS has no libstdc++ of its own: an object that does
    not need GNU's has libc++, or no C++ at all (shellcheck, whose 160,000 symbols are Haskell's).
    """
    names = [need.name.rpartition("/")[2].lower() for need in item.needed]
    if any(name.startswith("libstdc++") for name in names):
        return False
    return item.format is Format.MACHO or any(name.startswith(_OTHER_LIBRARIES) for name in names)


def _names_by_path(package: Package) -> dict[str, set[str]]:
    """Map each object's shown path to its symbols; the symbols of all slices are joined."""
    names: dict[str, set[str]] = {}
    for item in _own_objects(package):
        if _has_one_string(item):
            continue
        # Filter early: hardly any symbol shows the ABI.
        every = chain(item.exports.each_name(), item.imports.each_name())
        mangled = (name for name in every if name[:2] == "_Z")
        relevant = [n for n in mangled if "cxx11" in n or "Ss" in n or "Sb" in n or "St4list" in n]
        names.setdefault(package.layout.shorten(item.path), set()).update(relevant)
    return names


def _gather(package: Package, namespaces: Collection[str]) -> dict[str, _Evidence]:
    """Return the evidence for each namespace, or for the given namespaces if there are any."""
    found: dict[str, _Evidence] = {}
    for path, names in _names_by_path(package).items():
        for name in sorted(names):
            new = "St7__cxx11" in name or "B5cxx11" in name
            namespace = _namespace_of(name)
            if not namespace or (namespaces and namespace not in namespaces):
                continue
            if new or _names_old_abi(name):
                evidence = found.setdefault(namespace, _Evidence())
                (evidence.new if new else evidence.old).setdefault(path, []).append(name)
    return found


def _names_old_abi(mangled: str) -> bool:
    # imported late: only in few packages does a name show it
    from binary_checks.model import names_old_abi

    return names_old_abi(mangled)


def _namespace_of(mangled: str) -> str:
    """Return the outermost namespace or class; "" for a name in none, in std or in the runtime."""
    match = re.match(_NAMESPACE, mangled)
    if match is None:
        return ""
    name = mangled[match.end() : match.end() + int(match[1])]
    return "" if name in _NOBODYS else name


def _merge(parts: Iterable[_Evidence]) -> _Evidence:
    whole = _Evidence()
    for part in parts:
        for path, symbols in part.new.items():
            whole.new.setdefault(path, []).extend(symbols)
        for path, symbols in part.old.items():
            whole.old.setdefault(path, []).extend(symbols)
    return whole


def _describe(by_path: dict[str, list[str]], name: str) -> str:
    paths = sorted(by_path, key=lambda path: (-len(by_path[path]), path))
    total = sum(map(len, by_path.values()))
    return f"{name} in {total} symbols of {name_first(paths)} ({name_first(by_path[paths[0]], 1)})"
