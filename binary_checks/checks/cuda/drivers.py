"""Whether a package works without NVIDIA's driver, and with the libraries that a host has."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from binary_checks.checks.cuda.toolkits import count_others
from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda import (
    DriverCopy,
    disagree,
    find_answer,
    find_architectures,
    find_copies,
    find_gap,
    find_searched,
    generation,
    require_cuda,
    require_question,
)
from binary_checks.knowledge.gaps import find_unloaded
from binary_checks.knowledge.library_names import (
    DRIVER_LIBRARIES,
    find_driver_symbols,
    is_cuda_library,
    is_debug_runtime,
    is_driver_library,
    is_driver_soname,
    is_redistributable,
    strip_graft,
)
from binary_checks.knowledge.loading import Loading, find_imported, find_loadings, is_eager
from binary_checks.knowledge.python_libraries import is_python_dll
from binary_checks.knowledge.toolkit_claims import (
    claim_by_answer,
    claim_by_objects,
    claim_by_runtimes,
    find_contradiction,
)
from binary_checks.model import (
    CudaReport,
    CudaRequest,
    DeviceKind,
    Distribution,
    Edge,
    ElfFile,
    Ending,
    Finding,
    ImportOpenings,
    Linkage,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    PeFile,
    Platform,
    Problem,
    RefusedAnswers,
    RefusingDriverReport,
    StatedToolkits,
    Step,
    ToolkitClaim,
)
from binary_checks.wording.problem_lines import name_end, of_bundled
from binary_checks.wording.sentences import describe_end, name_first, remove_need

# Whether a package can be imported on a machine that has no NVIDIA driver.

_OUTSIDE = ("wheel:", "system:", "python:")
_DRIVERLESS = (is_redistributable, is_debug_runtime, is_python_dll)
"""Functions that recognise libraries which are known not to need the driver."""


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

    Every extension module may be imported. Libraries that the package's own code opens by path
    count, too (ctypes, ``torch.ops.load_library``, ``spec_from_file_location``), outside of
    functions and in functions that are called there by name; ``opened_at_import`` lists, as globs,
    libraries that it opens in ways that are not recognised. A library that needs the driver is only
    noted if code opens it later, under a condition, or catches the failure to open it, or if
    nothing needs it by name. Libraries named by code that is too large to follow are not inspected.

    Why: without a driver, as on CPU-only machines, on build hosts and in containers started without
    ``--gpus``, the loader refuses the module, and the import fails before any code can check.
    Fix: leave out ``-lcuda`` and ``-lnvidia-ml``: get the entry points with
    ``cudaGetDriverEntryPoint`` or ``dlopen``; on Windows link with ``/DELAYLOAD:nvcuda.dll``; or
    move the code that needs them into a library that is opened when a device is requested. If the
    problem says that the object uses no function of the library, link with ``-Wl,--as-needed``
    before ``-lcuda``.
    Level: users without an NVIDIA driver cannot import the package.
    """
    require_cuda(package, linkage)
    yield from find_unloaded(linkage, package)
    opened = openings.demanded
    imported = (find_imported(package, opened_at_import) - openings.tried) | opened
    loadings = find_loadings(linkage)
    imports = [loading for loading in loadings if loading.root in imported]
    fatal = _by_need(imports, drivers)
    for (needer, name), through in fatal.items():
        found = _accuse(needer, name, through, linkage.layout.shorten_label, opened)
        yield _add_unused(found, needer, name, package)
    later = (loading for loading in loadings if loading.root not in imported)
    for (needer, name), through in _by_need(later, drivers).items():
        if (needer, name) not in fatal and not needer.startswith(_OUTSIDE):
            yield _note_later(needer, name, through, openings)
    unknown = {
        edge.needed
        for loading in imports
        for edge in loading.edges()
        if edge.resolved is None
        and not edge.elsewhere
        and edge.needed.lower() not in drivers
        and not any(recognises(edge.needed) for recognises in _DRIVERLESS)
    }
    if names := name_first(sorted(unknown), 8):
        yield NotInspected(
            sentence=f"the dependencies of {names} are unknown, and may include the driver: give "
            "wheels that provide them (--binary-with), or use --binary-with-requirements"
        )


def _note_later(
    needer: str, name: str, through: list[Loading], openings: ImportOpenings
) -> Note | NotInspected:
    if any(loading.root in openings.unfollowed for loading in through):
        how = "the package's own code names it, but it is not known where the code opens it"
        return NotInspected(path=needer, sentence=f"needs {name}: {how}")
    how = "no import loads it; opening it requires a driver"
    if needer in openings.tried:
        how = "the package's own code opens it, and continues if there is no driver"
    return Note(path=needer, sentence=f"needs {name}: {how}")


def _by_need(
    loadings: Iterable[Loading], drivers: tuple[str, ...]
) -> dict[tuple[str, str], list[Loading]]:
    """Group loadings by each object that needs a library of the driver, and by that library."""
    found: dict[tuple[str, str], list[Loading]] = {}
    for loading in loadings:
        for edge in loading.edges():
            if edge.needed.lower() in drivers and not _is_in_layout(edge):
                found.setdefault((edge.path, edge.needed), []).append(loading)
    return found


def _is_in_layout(edge: Edge) -> bool:
    """Whether a package provides the library, which driver-library-in-layout reports."""
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
    others = f" (so does importing {len(through) - 1} more)" if len(through) > 1 else ""
    doing = "opening" if first.root in opened else "importing"
    which = f"{doing} this file" if len(way) == 1 else f"{doing} {show(first.root)}"
    if first.root in opened:
        which = f"the package's own code, {which} during the import,"
    return Problem(
        path=first.root if needer.startswith(_OUTSIDE) else needer,
        sentence=f"needs {name}, which only the NVIDIA driver provides, and {which} loads "
        f"it{steps}{others}: without a driver the import fails",
        facts=(name,),
    )


def _add_unused(found: Problem, needer: str, name: str, package: Package) -> Problem:
    """Return the problem with a remark that the object does not use the library, and a remedy."""
    tables = [item.imports for item in package.objects_of(ElfFile) if item.path == needer]
    if not (tables and is_driver_soname(name)):
        return found
    if any(find_driver_symbols(name, table.names) for table in tables):
        return found
    sentence = f"{found.sentence}; it uses no function of {name}: link with -Wl,--as-needed"
    return replace(found, sentence=sentence, command=remove_need(name))


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
    one given with it; if only objects of the given package find it there, it is noted. A file that
    nothing needs counts, too, under any name that a repair tool gave it: code opens the driver by
    name. A stub is recognised by its content: it exports nothing but the driver's functions, each a
    few hundred bytes long, and cannot open the user's driver. A stub for linkers,
    ``stubs/libcuda.so``, is only noted, unless code opens it or an object that opens ``libcuda.so``
    searches its folder.

    Why: a stub fails every call; a driver that does not match the user's kernel module fails the
    first one (``CUDA_ERROR_SYSTEM_DRIVER_MISMATCH``).
    Fix: leave it out (``auditwheel repair --exclude libcuda.so.1``), and remove the directory of
    stubs from the search path.
    Level: the first call of the driver fails.
    """
    shipped = find_copies(package.objects, drivers)
    if not shipped:
        require_cuda(package, linkage)
    yield from find_unloaded(linkage, package)
    reported: set[str | None] = set()
    for edge in (*linkage.edges, *linkage.given_edges):
        named = strip_graft(edge.needed).lower() in drivers
        if is_eager(edge) and named and _is_in_layout(edge):
            reported.add(edge.resolved)
            found = linkage.layout.shorten_label(edge.resolved or "")
            sentence = (
                f"needs {edge.needed} and finds {found} ({edge.rule.value}): it "
                "hides the user's driver, the only one that matches the kernel module"
            )
            if edge.path.startswith(_OUTSIDE):  # the other package has that fault
                yield Note(path=edge.path, sentence=sentence)
            else:
                yield Problem(path=edge.path, sentence=sentence, facts=(edge.needed,))
    opened = openings.demanded | openings.tried | openings.later
    opened |= {edge.resolved or "" for edge in linkage.edges if is_eager(edge)}
    for copy in shipped:
        if copy.item.path not in reported:
            yield _judge_copy(copy, opened, package.objects)


def _judge_copy(
    copy: DriverCopy, opened: Collection[str], objects: Iterable[ObjectFile]
) -> Problem | Note:
    """Judge a copy of the driver that nothing needs by name."""
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


# Faults of a CUDA build on hosts with an NVIDIA driver that does not start.

_STATES = {
    "no-device": "a driver that finds no GPU",
    "driver-mismatch": "a driver that does not match its kernel module (error 803)",
    "old-driver": "a driver that is too old",
}


@check
def driver_refusal_fatal(report: RefusingDriverReport) -> Iterator[Finding]:
    """A CUDA build fails, hangs or crashes on a host whose driver does not start.

    The module of ``[probes.cuda]`` is imported, and ``available``, ``devices`` and ``use`` there
    are evaluated, in three processes. In each process, a stub of NVIDIA's driver answers every call
    with one error: it finds no GPU (``cuInit`` returns 100), it does not match its kernel module
    (803), or it is older than the CUDA runtime (which then returns error 35). The stub is compiled
    on this host from the functions that the package and CUDA's runtime look up. Linux only; without
    a C compiler, or if the package loads another ``libcuda.so.1`` by its own search path, this is
    not inspected.

    Why: containers often have the driver's libraries without a GPU, and drivers are updated under
    running systems. With such a driver, a package runs other code than without a driver.

    Fix: treat every error of ``cuInit`` and of the CUDA runtime as "no GPU", and ignore the results
    of a function that failed.

    Level: users cannot import or use the package on such a host.
    """
    yield from _find_lacks(report)
    for each in report.refused:
        if not each.lack and each.step.outcome is not Ending.OK:
            under = f"under {_STATES.get(each.state, each.state)}"
            yield from _judge_step(each.step, under, each.stage, each.state)


@check
def driver_refusal_misreported(
    report: RefusingDriverReport,
    asked: CudaRequest,
    *,
    expected: Mapping[str, tuple[str, ...]] = {},
) -> Iterator[Finding]:
    """With a driver that does not start, a package claims a GPU, or raises an undocumented error.

    The three drivers are described under `driver-refusal-fatal`. With each of them, ``available``
    in the profile's table ``[probes.cuda]`` must be false and ``devices`` 0, and neither may raise
    an exception. ``use`` must raise an error; the option ``expected`` has a list of texts for each
    of ``no-device``, ``driver-mismatch`` and ``old-driver``; the error must contain one of these
    texts.

    Why: programs choose between the GPU and the CPU by these answers, and the error is all that
    users learn about a driver that needs an update.

    Fix: ask the driver before anything else, and report its own error.

    Level: programs choose the GPU and fail, or users learn the wrong cause.
    """
    require_question(asked.available or asked.devices or asked.use, "available, devices, use")
    yield from _find_lacks(report)
    for each in report.refused:
        if not each.lack:
            under = f"under {_STATES.get(each.state, each.state)}"
            yield from _judge_claims(each, asked, under, each.state)
            if asked.use:
                texts = expected.get(each.state, ())
                yield from _judge_error(each, asked.use, texts, under, each.state)


def _find_lacks(report: RefusingDriverReport) -> Iterator[NotInspected]:
    for lack in dict.fromkeys(each.lack for each in report.refused if each.lack):
        states = [each.state for each in report.refused if each.lack == lack]
        which = "" if len(states) == len(report.refused) else f"{', '.join(states)}: "
        yield NotInspected(sentence=f"{which}{lack}")


def _judge_claims(
    found: CudaReport | RefusedAnswers, asked: CudaRequest, under: str, *state: str
) -> Iterator[Finding]:
    """Judge the answers to ``available`` and ``devices``, which must say that there is no GPU."""
    for question in filter(None, (asked.available, asked.devices)):
        answer, facts = find_answer(found, question), (*state, question)
        if answer is None:
            yield find_gap(found, question)
        elif answer.error:
            yield Problem(sentence=f"{under}, {question} raises {answer.error}", facts=facts)
        elif answer.value != 0:  # nor False
            yield Problem(sentence=f"{under}, {question} is {answer.value!r}", facts=facts)


def _judge_error(
    found: CudaReport | RefusedAnswers,
    use: str,
    expected: tuple[str, ...],
    under: str,
    *state: str,
) -> Iterator[Finding]:
    """Judge the error of ``use``, which must be one of the expected texts, if there are any."""
    answer, facts = find_answer(found, use), (*state, use)
    if answer is None:
        yield find_gap(found, use)
    elif not answer.error:
        yield Problem(
            sentence=f"{under}, {use} raises nothing and returns {answer.value!r}", facts=facts
        )
    elif expected and not any(text in answer.error for text in expected):
        yield Problem(
            sentence=f"{under}, {use} raises {answer.error}, which is none of the expected errors",
            facts=facts,
        )


def _judge_step(step: Step, under: str, stage: str, *state: str) -> Iterator[Finding]:
    """Judge a process in which the package was imported, and perhaps asked."""
    if step.finished:
        yield Problem(
            sentence=f"{under}, import {step.name} succeeds, and the process {describe_end(step)}",
            facts=(*state, name_end(step)),
        )
    elif step.outcome is not Ending.OK:
        yield Problem(
            sentence=f"{under}, {stage or 'the process'} {describe_end(step)}",
            facts=(*state, name_end(step)),
        )


# Faults of a CUDA build that runs without a driver and without a toolkit.


@check
def unusable_without_gpu(report: CudaReport) -> Iterator[Finding]:
    """A CUDA build fails, hangs or crashes on a machine without a driver.

    ``module`` in the profile's table ``[probes.cuda]`` names the module to import, in a process
    from which the driver and the toolkit are hidden; without ``module`` no check of this kind runs.
    ``snippet`` there is CPU code that runs after the import and can use the module by its name. All
    of it must end within the profile's ``timeout``; if a process hangs, its innermost Python calls
    are reported.

    Why: containers are built, tests run and documentation is made on machines without a GPU, and
    the same package must be importable there.

    Fix: open the driver when CUDA is first used, not when a library is loaded, and answer every
    query about it with "no" instead of an exception.

    Level: users without a GPU cannot import or use the package.
    """
    yield from _judge_step(report.step, "without a GPU", report.stage)
    yield from _find_unhidden(report)


def _find_unhidden(report: CudaReport) -> Iterator[NotInspected]:
    """Yield parts of the driver that could not be hidden, which invalidates the run."""
    if report.host.library:
        yield NotInspected(
            sentence=f"the driver's {report.host.library} cannot be hidden here: run the "
            "check on a host without a driver"
        )
    if report.host.devices:
        count = len(report.host.devices)
        yield NotInspected(sentence=f"CUDA_VISIBLE_DEVICES='' hides none of {count} GPUs")
    for path in report.step.libraries or ():
        if re.match("/|[A-Za-z]:", path) and is_cuda_library(path.rpartition("/")[2]):
            yield NotInspected(
                sentence=f"{path} belongs to this host: the package was not tested without it"
            )


@check
def gpu_claimed_without_one(report: CudaReport, asked: CudaRequest) -> Iterator[Finding]:
    """Without a GPU, a package reports that CUDA is available, or fails to report that it is not.

    In the profile's table ``[probes.cuda]``, ``available`` is a Python expression that must be
    false there (``torch.cuda.is_available()``), ``devices`` one that must be 0
    (``torch.cuda.device_count()``). Neither may raise an exception.

    Why: programs use this answer to choose between the GPU and the CPU, and choose wrongly.

    Fix: treat every error of ``cuInit`` as "not available".

    Level: programs choose the GPU and fail.
    """
    require_question(asked.available or asked.devices, "available, devices")
    yield from _judge_claims(report, asked, "without a GPU")


@check
def missing_gpu_misreported(
    report: CudaReport, asked: CudaRequest, *, expected: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """Asking for a GPU where there is none does not raise the documented error.

    ``use`` in the profile's table ``[probes.cuda]`` is a Python expression that needs a GPU
    (``torch.zeros(1, device='cuda')``); the error must contain one of the texts in the option
    ``expected`` (``AssertionError: Torch not compiled with CUDA enabled``).

    Why: programs catch that error to continue without a GPU, and it tells users what to do.

    Fix: check for a driver before doing anything else with the device.

    Level: programs that catch the documented error end instead.
    """
    require_question(asked.use, "use")
    yield from _judge_error(report, asked.use, expected, "without a GPU")


@check
def cuda_version_misreported(
    report: CudaReport,
    package: Distribution,
    asked: CudaRequest,
    stated: StatedToolkits,
    *,
    expected: str = "",
) -> Iterator[Finding]:
    """A package reports another CUDA version than it was built with.

    ``version`` in the profile's table ``[probes.cuda]`` is a Python expression
    (``torch.version.cuda``). Its value must agree with every other source of a CUDA version: the
    label ``+cu126`` or ``+cpu``, a ``cuda13x`` in the package's name, the files that the build
    generated, the required NVIDIA wheels, the libraries that its objects need, the version that it
    was compiled with (``cudart`` in ``[probes.cuda.compiled]``), the runtime that it loads, and the
    option ``expected`` if given. A runtime of the same major version agrees.

    Why: users compile extensions and choose other wheels by that answer.

    Fix: look for the variable that sets it in the build: the wrong CUDA was found.

    Level: users build and install extensions and wheels that do not fit.
    """
    require_question(asked.version, "version")
    claims = [*stated.claims, *claim_by_objects(package), *claim_by_runtimes(report)]
    yield from _judge_version(report, asked.version, Platform.CUDA, claims, expected)


@check
def rocm_version_misreported(
    report: CudaReport,
    package: Distribution,
    asked: CudaRequest,
    stated: StatedToolkits,
    *,
    expected: str = "",
) -> Iterator[Finding]:
    """A package reports another ROCm version than it was built with.

    This is the check cuda-version-misreported for the expression ``rocm`` in the profile's table
    ``[probes.cuda]`` (``torch.version.hip``), the label ``+rocm6.4``, the required wheels of ROCm,
    and libamdhip64.

    Why: users compile extensions and choose other wheels by that answer.

    Fix: look for the variable that sets it in the build: the wrong ROCm was found.

    Level: users build and install extensions and wheels that do not fit.
    """
    require_question(asked.rocm, "rocm")
    claims = [*stated.claims, *claim_by_objects(package)]
    answer = find_answer(report, asked.rocm)
    about_rocm = any(each.platform is Platform.ROCM and each.version for each in claims)
    if answer and not (answer.value or answer.error or about_rocm or expected):
        raise NotApplicable("the build is not for ROCm")
    yield from _judge_version(report, asked.rocm, Platform.ROCM, claims, expected)


def _judge_version(
    report: CudaReport,
    question: str,
    platform: Platform,
    claims: Iterable[ToolkitClaim],
    expected: str,
) -> Iterator[Finding]:
    answer = find_answer(report, question)
    if answer is None:
        yield find_gap(report, question)
        return
    if answer.error:
        yield Problem(sentence=f"{question} raises {answer.error}", facts=(question,))
        return
    reported = f"{question} is {answer.value!r}"
    contradiction = find_contradiction(claim_by_answer(answer, platform), claims)
    if contradiction is not None:
        other, more = contradiction.against, count_others(contradiction)
        yield Problem(
            sentence=f"{reported}, but {other.evidence} says {other.statement}{more}",
            facts=(question, other.source.value),
        )
    if expected and disagree(str(answer.value or ""), expected):
        yield Problem(sentence=f"{reported}, expected {expected}", facts=(question, "expected"))


@check
def cuda_architectures_misreported(
    report: CudaReport, package: Distribution, asked: CudaRequest
) -> Iterator[Finding]:
    """A package reports other GPU architectures than it has code for.

    ``architectures`` in the profile's table ``[probes.cuda]`` is a Python expression that returns a
    list or a string of words (``torch._C._cuda_getArchFlags()``). Some object of the package must
    have code for each of them. An architecture that more than half of the package's containers have
    code for must be among them; some kernels may support more. missing-gpu-architecture and
    unexpected-gpu-architecture compare the code with a list of the profile.

    Why: extensions are compiled for the reported architectures, and users rely on the list to know
    that their GPU is supported.

    Fix: look for objects compiled with other flags than the build records.

    Level: users build extensions that fail on their GPU.
    """
    architectures = asked.architectures
    require_question(architectures, "architectures")
    answer = find_answer(report, architectures)
    if answer is None:
        yield find_gap(report, architectures)
        return
    found = answer.value.split() if isinstance(answer.value, str) else answer.value
    if answer.error or not isinstance(found, (tuple, list)):
        how = f"raises {answer.error}" if answer.error else f"is {answer.value!r}, not a list"
        yield Problem(sentence=f"{architectures} {how}", facts=(architectures,))
        return
    there = find_architectures(package)
    for name in sorted(name for name in found if there and generation(name) not in there):
        yield Problem(
            sentence=f"{architectures} names {name}, for which no object of the package has code",
            facts=(name,),
        )
    reported = {generation(name) for name in found}
    for name, count, total in _find_common_architectures(package):
        if generation(name) not in reported:
            yield Problem(
                sentence=f"{architectures} lacks {name}, "
                f"which {count} of {total} containers have code for",
                facts=(name,),
            )


def _find_common_architectures(package: Package) -> tuple[tuple[str, int, int], ...]:
    """Return architectures in more than half of the containers: (name, containers, all containers).

    The names are nvcc's without a suffix: "sm_90", or "compute_90" for PTX.
    """
    counts: dict[str, int] = {}
    total = 0
    for item in package.objects:
        for group in item.device_containers if isinstance(item, (ElfFile, PeFile)) else ():
            names = {
                ("compute_" if each.kind is DeviceKind.PTX else "sm_")
                + generation(each.architecture)[1]
                for each in group.usable
                if each.architecture.startswith("sm_")
            }
            total += group.count if names else 0
            for name in names:
                counts[name] = counts.get(name, 0) + group.count
    return tuple((name, n, total) for name, n in sorted(counts.items()) if 2 * n > total)
