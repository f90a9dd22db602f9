"""Whether extension modules keep to the Python ABI that their names and tags promise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from binary_checks.check import check
from binary_checks.checks.unloaded_objects import find_unjudged, find_unread
from binary_checks.model import (
    ElfFile,
    Finding,
    Format,
    Kind,
    Linkage,
    NotLooked,
    ObjectFile,
    Problem,
    TargetSystem,
    Wheel,
)
from binary_checks.model.extensions import (
    ExtensionName,
    init_function,
    is_extension,
    parse_extension_name,
)
from binary_checks.systems import stable_abi

_SHOWN = 5
# What Py_DECREF becomes under the headers of either build.
_FREE_THREADED = frozenset({"_Py_MergeZeroLocalRefcount", "_Py_DecRefShared"})
_WITH_GIL = "_Py_Dealloc"


@check
def unstable_symbol(package: Wheel, linkage: Linkage, target: TargetSystem) -> Iterator[Finding]:
    """An abi3 extension uses symbols outside of the stable ABI, or newer than its tag.

    A symbol that a library of the package defines itself is not Python's (PySide6, igraph).

    Why: the wheel installs on every later Python, or on the oldest that the tag names, and the
    import fails there with "undefined symbol", or breaks in silence.
    Fix: define ``Py_LIMITED_API`` as the version of the tag in every source; raise the tag's
    version where the symbol is worth it.
    """
    promising = [item for item in package.objects if _promises_abi3(item.path, package)]
    promising = [item for item in promising if item.kind is Kind.SHARED]
    yield from find_unread(
        package,
        found=bool(promising),
        absent="no object that promises the stable ABI",
        concerns=lambda path: _promises_abi3(path, package),
    )
    yield from _find_unjudged(promising, target)
    baseline = _baseline(package)
    elsewhere = dict(linkage.own_python_symbols)
    incomplete = _incomplete(linkage)
    for library in (item for item in promising if isinstance(item, ElfFile)):
        names = _imported(library) - frozenset(elsewhere.get(library.path, ()))
        unstable = sorted(name for name in names if name not in stable_abi())
        if target.interpreter is not None:
            # What no Python has is some library's, or an undefined symbol: another check tells.
            unstable = [name for name in unstable if name in target.interpreter.exports]
        if unstable and library.path in incomplete:
            yield NotLooked(
                path=library.path,
                sentence=f"uses {_list(unstable)}, not of the stable ABI, unless "
                f"{incomplete[library.path]}, which is not there, defines it",
            )
        elif unstable:
            yield Problem(
                path=library.path,
                sentence=f"uses {_list(unstable)}, which the stable ABI does not have",
            )
        yield from _judge_age(library, names, baseline)


def _find_unjudged(promising: Iterable[ObjectFile], target: TargetSystem) -> Iterator[NotLooked]:
    yield from find_unjudged(target)
    for other in sorted({item.format.value for item in promising} - {Format.ELF.value}):
        yield NotLooked(sentence=f"{other} is not judged by this check yet")


def _judge_age(
    library: ElfFile, names: Iterable[str], baseline: tuple[int, int] | None
) -> Iterator[Problem]:
    added = {name: stable_abi()[name] for name in names if name in stable_abi()}
    newer = sorted(name for name, since in added.items() if baseline and since > baseline)
    if newer and baseline:
        latest = max(added[name] for name in newer)
        yield Problem(
            path=library.path,
            sentence=f"uses {_list(newer)}, in the stable ABI since Python {_spell(latest)} at "
            f"latest, while the tag promises {_spell(baseline)}",
        )


def _baseline(package: Wheel) -> tuple[int, int] | None:
    """The oldest CPython of the tags; None where no tag names one."""
    versions = [
        (int(tag.interpreter[2]), int(tag.interpreter[3:]))
        for tag in package.tags
        if tag.interpreter.startswith("cp")
        and tag.interpreter[2:].isdecimal()
        and len(tag.interpreter) > 3
    ]
    return min(versions, default=None)


def _promises_abi3(path: str, package: Wheel) -> bool:
    if any(tag.abi == "abi3" for tag in package.tags):
        return True
    name = parse_extension_name(path)
    return name is not None and name.stable == "abi3"


def _imported(library: ObjectFile) -> frozenset[str]:
    """The C API symbols that the library cannot do without; init functions are modules' own."""
    return frozenset(
        name
        for name in library.imports.names
        if name.startswith(("Py", "_Py")) and not name.startswith("PyInit")
        if name not in library.exports.names
        if any(not symbol.weak for symbol in library.imports.find(name))
    )


def _incomplete(linkage: Linkage) -> Mapping[str, str]:
    """Objects of which not everything that is loaded with them is known, and what is not."""
    missing: dict[str, str] = {}
    for edge in linkage.edges:
        if edge.resolved is None:
            missing.setdefault(edge.path, edge.needed)
    found: dict[str, str] = {}
    for _, loaded in linkage.closures:
        absent = next((missing[path] for path in loaded if path in missing), "")
        for path in loaded if absent else ():
            found.setdefault(path, absent)
    return found


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _spell(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@check
def free_threading_mixture(package: Wheel) -> Iterator[Finding]:
    """An extension module is compiled for the other kind of CPython than its name or tag says.

    ``Py_DECREF`` calls other functions under the headers of a free-threaded build; that tells.

    Why: the two have different object headers; the import fails, or memory is corrupted.
    Fix: build with the headers of the interpreter of the tag, and clean between builds.
    """
    modules = [item for item in package.objects if _bound_name(item.path) and is_extension(item)]
    yield from find_unread(
        package,
        found=bool(modules),
        absent="no extension module that is bound to one kind of CPython",
        concerns=_bound_name,
    )
    abis = {tag.abi for tag in package.tags}
    for library in modules:
        name = _bound_name(library.path)
        assert name is not None
        free_threaded = name.free_threaded if name.version else all(map(_is_free_threaded, abis))
        used = sorted(_FREE_THREADED & library.imports.names)
        if used and not free_threaded:
            yield Problem(
                path=library.path,
                sentence=f"uses {used[0]}, which only free-threaded Pythons have, under the name "
                f"{name.suffix}",
            )
        elif free_threaded and not used and _WITH_GIL in library.imports.names:
            yield Problem(
                path=library.path,
                sentence=f"uses {_WITH_GIL} and nothing of free-threaded Python's counting, under "
                f"the name {name.suffix}: compiled with the headers of a build with the GIL",
            )


def _bound_name(path: str) -> ExtensionName | None:
    """The name of an extension module that does without the stable ABI; None for all else."""
    name = parse_extension_name(path)
    return None if name is None or name.stable else name


def _is_free_threaded(abi: str) -> bool:
    return abi.startswith("cp") and abi.endswith("t")


@check
def missing_init_function(library: ObjectFile) -> Iterator[Finding]:
    """A file is named as an extension module and cannot be imported.

    A library that uses nothing of Python and is opened through cffi or ctypes is none, whatever
    its name (pycryptodome).

    Why: the import fails with "dynamic module does not define module export function".
    Fix: give the file the name that the module was compiled for, or export ``PyInit_<name>``.
    """
    name = parse_extension_name(library.path)
    if library.kind is not Kind.SHARED or name is None or not name.tagged:
        return
    function = init_function(name.stem)
    exported = library.exports.names
    if function in exported:
        return
    others = sorted(item for item in exported if item.startswith(("PyInit_", "PyInitU_")))
    if others:
        yield f"does not export {function}, but {others[0]}"
    elif _imported(library):
        yield f"does not export {function}"
