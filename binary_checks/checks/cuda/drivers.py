"""Whether a package can be imported on a machine that has no NVIDIA driver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from binary_checks.declaring import check
from binary_checks.knowledge.cuda_builds import demand_cuda
from binary_checks.knowledge.driver_copies import DriverCopy, find_copies, find_searched
from binary_checks.knowledge.grafted_names import strip_graft
from binary_checks.knowledge.loadings import Loading, find_imported, find_loadings, is_eager
from binary_checks.knowledge.nvidia_names import (
    DRIVER_LIBRARIES,
    find_driver_symbols,
    is_driver_library,
    is_driver_soname,
)
from binary_checks.knowledge.python_dlls import is_python_dll
from binary_checks.knowledge.unloaded_objects import find_unloaded
from binary_checks.knowledge.visual_cpp import is_debug_runtime, is_redistributable
from binary_checks.model import (
    Edge,
    ElfFile,
    Finding,
    Linkage,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Problem,
)
from binary_checks.model.python_modules import ImportOpenings
from binary_checks.wording.causes import of_bundled
from binary_checks.wording.fix_commands import remove_need
from binary_checks.wording.phrases import name_first

_OUTSIDE = ("wheel:", "system:", "python:")


@check
def driver_library_needed(
    linkage: Linkage,
    package: Package,
    openings: ImportOpenings,
    *,
    opened_at_import: tuple[str, ...] = ("torch/lib/libtorch_global_deps.so",),
    drivers: tuple[str, ...] = DRIVER_LIBRARIES,
) -> Iterator[Finding]:
    """Importing the package loads a library of the NVIDIA driver.

    Every extension module may be imported, and libraries that the package's own code opens by path
    count too (ctypes, ``torch.ops.load_library``, ``spec_from_file_location``), outside of
    functions and in those that are called there by their names; ``opened_at_import`` lists, as
    globs, those that it opens in ways that are not recognised. Libraries that it opens later, under
    a condition, or catching the failure, and libraries that nothing needs by name, may need the
    driver: this is noted. What is named by code that is too large to follow is not inspected.

    Why: without a driver, as on CPU-only machines, on build hosts and in containers started without
    ``--gpus``, the loader refuses the module, and the import fails before any code can check.
    Fix: leave out ``-lcuda`` and ``-lnvidia-ml``: get the entry points with
    ``cudaGetDriverEntryPoint`` or ``dlopen``; on Windows link with ``/DELAYLOAD:nvcuda.dll``; or
    move the code that needs them into a library that is opened when a device is requested. Where
    the object uses no function of the library, which the line says, link with ``-Wl,--as-needed``
    before ``-lcuda``.
    Level: users without an NVIDIA driver cannot import the package.
    """
    demand_cuda(package, linkage)
    yield from find_unloaded(linkage, package)
    opened = openings.demanded
    imported = (find_imported(package, opened_at_import) - openings.tried) | opened
    loadings = find_loadings(linkage)
    imports = [loading for loading in loadings if loading.root in imported]
    fatal = _by_need(imports, drivers)
    for (needer, name), through in fatal.items():
        found = _accuse(needer, name, through, linkage.show, opened)
        yield _tell_unused(found, needer, name, package)
    later = (loading for loading in loadings if loading.root not in imported)
    for (needer, name), through in _by_need(later, drivers).items():
        if (needer, name) not in fatal and not needer.startswith(_OUTSIDE):
            yield _tell_later(needer, name, through, openings)
    yield from _tell_gaps(imports, drivers)


def _tell_later(
    needer: str, name: str, through: list[Loading], openings: ImportOpenings
) -> Note | NotInspected:
    if any(loading.root in openings.unfollowed for loading in through):
        how = "the package's own code names it, and was not followed to where it opens it"
        return NotInspected(path=needer, sentence=f"needs {name}: {how}")
    how = "no import loads it; opening it requires a driver"
    if needer in openings.tried:
        how = "the package's own code opens it, and goes on where there is no driver"
    return Note(path=needer, sentence=f"needs {name}: {how}")


def _by_need(
    loadings: Iterable[Loading], drivers: tuple[str, ...]
) -> dict[tuple[str, str], list[Loading]]:
    """By object and library of the driver: the processes in which that need is met."""
    found: dict[tuple[str, str], list[Loading]] = {}
    for loading in loadings:
        for edge in loading.edges():
            if edge.needed.lower() in drivers and not _is_in_layout(edge):
                found.setdefault((edge.path, edge.needed), []).append(loading)
    return found


def _is_in_layout(edge: Edge) -> bool:
    """Whether a package brings it, which driver-library-in-layout tells of."""
    return edge.resolved is not None and not edge.resolved.startswith(_OUTSIDE[1:])


def _accuse(
    needer: str,
    name: str,
    through: list[Loading],
    show: Callable[[str], str],
    opened: Collection[str],
) -> Problem:
    first = min(through, key=lambda loading: (len(loading.chain(needer)), loading.root))
    way = first.chain(needer)
    steps = f", through {' -> '.join(map(show, way))}" if len(way) > 1 else ""
    others = f" (so does that of {len(through) - 1} more)" if len(through) > 1 else ""
    doing = "opening" if first.root in opened else "importing"
    which = f"{doing} it" if len(way) == 1 else f"{doing} {show(first.root)}"
    if first.root in opened:
        which = f"the package's own code, {which} while it is imported,"
    return Problem(
        path=first.root if needer.startswith(_OUTSIDE) else needer,
        sentence=f"needs {name}, which only the NVIDIA driver provides, and {which} loads "
        f"it{steps}{others}: without a driver the import fails",
    )


def _tell_unused(found: Problem, needer: str, name: str, package: Package) -> Problem:
    """Add that the object needs the library for nothing, and how that is mended."""
    tables = [item.imports for item in package.objects_of(ElfFile) if item.path == needer]
    if not (tables and is_driver_soname(name)):
        return found
    if any(find_driver_symbols(name, table.names) for table in tables):
        return found
    sentence = f"{found.sentence}; it uses no function of {name}: link with -Wl,--as-needed"
    return replace(found, sentence=sentence, command=remove_need(name))


def _tell_gaps(imports: Iterable[Loading], drivers: tuple[str, ...]) -> Iterator[NotInspected]:
    """Say what could not be followed, as nothing in the layout brings it."""
    lost = {
        edge.needed
        for loading in imports
        for edge in loading.edges()
        if edge.resolved is None and not edge.elsewhere and not _is_known(edge.needed, drivers)
    }
    if names := name_first(sorted(lost), 8):
        yield NotInspected(
            sentence=f"the dependencies of {names} are unknown, and may include the driver: give "
            "wheels that provide them (--binary-with), or use --binary-with-requirements"
        )


def _is_known(name: str, drivers: tuple[str, ...]) -> bool:
    """Whether a library is the driver's, or of those that need none, wherever they come from."""
    driverless = (is_redistributable, is_debug_runtime, is_python_dll)
    return name.lower() in drivers or any(tells(name) for tells in driverless)


@check
def driver_library_in_layout(
    linkage: Linkage,
    package: Package,
    openings: ImportOpenings,
    *,
    drivers: tuple[str, ...] = DRIVER_LIBRARIES,
) -> Iterator[Finding]:
    """A library of the NVIDIA driver is found in a package rather than on the user's system.

    It may be a stub for linking, or the driver of the build machine, in the package itself or in
    one given with it. A file that nothing needs counts too, whatever a repair tool made of its
    name: code opens the driver by its name. A stub is recognised by its content: it exports
    nothing but the driver's functions, of some hundred bytes each, and cannot open the user's
    driver. One for linkers, ``stubs/libcuda.so``, is noted, unless code opens it or an object that
    opens ``libcuda.so`` searches its folder.

    Why: a stub fails every call; a driver that does not match the user's kernel module fails the
    first one (``CUDA_ERROR_SYSTEM_DRIVER_MISMATCH``).
    Fix: leave it out (``auditwheel repair --exclude libcuda.so.1``), and remove the directory of
    stubs from the search path.
    Level: the first call of the driver fails.
    """
    shipped = find_copies(package.objects, drivers)
    if not shipped:
        demand_cuda(package, linkage)
    yield from find_unloaded(linkage, package)
    told: set[str | None] = set()
    for edge in (*linkage.edges, *linkage.edges_beside):
        named = strip_graft(edge.needed).lower() in drivers
        if is_eager(edge) and named and _is_in_layout(edge):
            told.add(edge.resolved)
            found = linkage.show(edge.resolved or "")
            yield Problem(
                path=edge.path,
                sentence=f"needs {edge.needed} and finds {found} ({edge.rule.value}): it "
                "hides the user's driver, and only that matches the kernel module",
            )
    opened = openings.demanded | openings.tried | openings.later
    opened |= {edge.resolved or "" for edge in linkage.edges if is_eager(edge)}
    for copy in shipped:
        if copy.item.path not in told:
            yield _tell_copy(copy, opened, package.objects)


def _tell_copy(
    copy: DriverCopy, opened: Collection[str], objects: Iterable[ObjectFile]
) -> Problem | Note:
    """Judge a file that nothing needs by its name."""
    item = copy.item
    searching = [each.path for each in objects if item.file_name in find_searched(each, item)]
    known = is_driver_library(item.name) or is_driver_library(item.file_name)
    if item.path not in opened and not searching and (copy.for_linkers or not known):
        return Note(path=item.path, sentence=f"is {copy} for linkers: nothing here opens it")
    how = f"; {searching[0]} opens it by that name and searches its folder" if searching else ""
    return Problem(
        path=item.path,
        cause=of_bundled(item.path),
        sentence=f"is {copy} in place of the user's driver{how}: only the user's own matches "
        "the kernel module; leave it out",
    )
