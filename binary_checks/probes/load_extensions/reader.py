"""Load every extension module of an installed package, and find those that kill the process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from binary_checks.declaring import gathers
from binary_checks.errors import GatherError
from binary_checks.knowledge.loaded_files import find_doubtful_roots
from binary_checks.model import (
    Ending,
    ExtensionReport,
    ImportReport,
    ImportRequest,
    LoadedTogether,
    Package,
    Place,
    ProbeAnswer,
    Simulation,
    Step,
    init_function,
    parse_extension_name,
)
from binary_checks.probes.answers import (
    find_last_words,
    list_rows,
    read_death,
    read_row,
    read_text,
    show_all,
)
from binary_checks.probes.import_name.reader import find_first_import
from binary_checks.probes.importable import find_extensions
from binary_checks.probes.shared_time import SharedTime
from binary_checks.wording.sentences import format_module_name

_REFUSED = (Ending.LOADER_ERROR, Ending.RAISED)
_PATIENCE = 5  # processes that may die before the remaining modules are skipped


@dataclass
class _Progress:
    """The results so far, while processes start and end."""

    steps: dict[str, Step] = field(default_factory=dict)
    broken_parents: set[str] = field(default_factory=set)
    libraries: set[str] | None = None
    first: tuple[str, ...] = ()  # modules that are imported before all others
    deaths: int = 0


@gathers(ExtensionReport)
def load_extensions(place: Place, package: Package, request: ImportRequest) -> ExtensionReport:
    """Load every extension module of a package.

    Raises Unavailable if the package could not be installed.
    """
    place.install(package)
    paths = find_extensions(package, place.target.extension_suffixes)
    place.require_installed(package)
    report = load_each(place, paths, request.first)
    steps = (_load_again(place, package, step, request.first) for step in report.steps)
    return replace(report, steps=tuple(steps))


def _load_again(place: Place, package: Package, step: Step, first: tuple[str, ...]) -> Step:
    """Load a refused module again after the module of a requirement that has what it lacks.

    This concerns modules without a parent package, such as flash_attn_2_cuda, which
    flash_attn imports after torch.
    """
    named = replace(step, name=format_module_name(step.name))
    asked = find_first_import(place, package, named) if step.outcome in _REFUSED else ""
    if not asked:
        return step
    result = _run(place, (step.name,), _Progress(first=(*first, asked)))
    again = _read_done(result, place).get(step.name, step)
    return replace(again, after=asked) if again.outcome is Ending.OK else step


def load_each(
    place: Place, extensions: Iterable[str], first: Iterable[str] = ()
) -> ExtensionReport:
    """Load all modules in one process; continue in a new process after a module that kills it.

    That module is then loaded again on its own, so that no other module can be the cause. If
    importing a parent package kills the process, its modules are skipped: the report on imports
    describes this. ``first`` are modules that every process imports before.
    """
    progress = _Progress(first=tuple(first))
    pending = tuple(extensions)
    while pending and progress.deaths < _PATIENCE:
        pending = _load_on(place, pending, progress)
    return ExtensionReport(
        python=place.target.name,
        architecture=place.target.architecture,
        steps=tuple(progress.steps.values()),
        untried=pending,
        libraries=None if progress.libraries is None else tuple(sorted(progress.libraries)),
    )


def _load_on(place: Place, pending: tuple[str, ...], progress: _Progress) -> tuple[str, ...]:
    """Load the pending modules in one process; return the modules that are still pending."""
    result = _run(place, pending, progress)
    progress.steps.update(_read_done(result, place))
    progress.libraries = _merge(progress.libraries, result, place)
    if result.answer.get("finished"):
        if result.outcome is not Ending.OK:
            progress.steps[""] = replace(read_death("", result, place), finished=True)
        return ()
    progress.deaths += 1
    culprit, parent = _find_culprit(result)
    if culprit not in pending:
        last = find_last_words(result)
        raise GatherError(f"the extension probe ended without an answer: {last}")
    if parent and parent not in progress.broken_parents:
        progress.broken_parents.add(parent)
        return pending[pending.index(culprit) :]
    progress.steps[culprit] = _load_alone(place, culprit, result, progress)
    return pending[pending.index(culprit) + 1 :]


def _load_alone(
    place: Place,
    culprit: str,
    death: ProbeAnswer,
    progress: _Progress,
) -> Step:
    alone = _run(place, (culprit,), progress)
    progress.libraries = _merge(progress.libraries, alone, place)
    step = _read_done(alone, place).get(culprit)
    if step is None:
        return read_death(culprit, alone, place)
    if step.outcome is not Ending.OK or death.outcome is Ending.HUNG:
        return step  # all modules together may take longer than the limit for one
    together = read_death(culprit, death, place)
    return replace(together, detail=f"{together.detail}, though not when it is loaded alone")


def _run(place: Place, paths: tuple[str, ...], progress: _Progress) -> ProbeAnswer:
    request = {
        "extensions": [_describe(path) for path in paths],
        "broken_parents": sorted(progress.broken_parents),
        "first": list(progress.first),
    }
    return place.run("load_extensions", request)


def _describe(path: str) -> dict[str, str]:
    name = parse_extension_name(path)
    module, stem = (name.module, name.stem) if name else (path, path)
    return {
        "path": path,
        "module": module,
        "parent": module.rpartition(".")[0],
        "init": init_function(stem),
    }


def _read_done(result: ProbeAnswer, place: Place) -> dict[str, Step]:
    rows = ((read_text(row, "path"), row) for row in list_rows(result.answer, "done"))
    return {path: read_row(path, row, place) for path, row in rows}


def _find_culprit(result: ProbeAnswer) -> tuple[str, str]:
    current = result.answer.get("current")
    if not isinstance(current, dict):
        return "", ""
    return str(current.get("path", "")), str(current.get("parent", ""))


def _merge(known: set[str] | None, result: ProbeAnswer, place: Place) -> set[str] | None:
    mapped = show_all(place, result.answer.get("libraries"))
    return known if mapped is None else (known or set()) | set(mapped)


# Which objects fresh processes load together, where the simulated loader has doubts.


@gathers(LoadedTogether)
def load_doubtful(
    place: Place,
    package: Package,
    simulation: Simulation,
    imports: ImportReport,
    request: ImportRequest,
) -> LoadedTogether:
    """List what fresh processes load, for objects that need something to be loaded before.

    An extension module that no import of a top-level name has loaded is loaded in a process of its
    own, after its parent package, as an import statement would. Raises Unavailable if the package
    could not be installed.
    """
    roots = find_doubtful_roots(simulation.linkage)
    processes = [
        step.libraries
        for step in imports.steps
        if roots and step.outcome is Ending.OK and step.libraries and not step.after
    ]
    known = {package.layout.place(path) for each in processes for path in each}
    paths = (package.layout.inside(root) for root in roots if root not in known)
    left = SharedTime(place.timeout)
    for path in paths:
        if path is not None and parse_extension_name(path) is not None and not left.spent:
            alone = _run(place, (path,), _Progress(first=request.first))
            processes.append(show_all(place, alone.answer.get("libraries")) or ())
    return LoadedTogether(
        python=place.target.name,
        architecture=place.target.architecture,
        processes=tuple(processes),
    )
