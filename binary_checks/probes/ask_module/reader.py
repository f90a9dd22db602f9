"""Import a package with the driver and the toolkit hidden, and ask it about CUDA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Answer,
    Conditions,
    CudaReport,
    CudaRequest,
    Ending,
    GpuHost,
    LibraryVersions,
    Package,
    Place,
    ProbeAnswer,
)
from binary_checks.probes.answers import list_rows, read_step, read_text
from binary_checks.probes.gpu_host.reader import HIDDEN, describe_host
from binary_checks.probes.run_snippet.reader import name_system

_SOURCES = ("compiled", "loaded", "installed", "pinned")
_DRIVERS = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", "libnvidia-ml.so")


def require_module(request: CudaRequest) -> None:
    """Raise NotApplicable if the profile names no module."""
    if not request.module:
        raise NotApplicable(
            "the profile names no module to be asked about CUDA ([probes.cuda] module)"
        )


def list_expressions(request: CudaRequest) -> tuple[str, ...]:
    """Return the expressions to evaluate, without repetitions.

    The expression that uses a GPU comes last, as it may break the process.
    """
    expressions = (request.available, request.devices, request.version, request.rocm)
    more = (request.architectures, *request.parts.values(), request.use)
    return tuple(dict.fromkeys(filter(None, (*expressions, *more))))


@gathers(CudaReport)
def ask_without_gpu(place: Place, package: Package, request: CudaRequest) -> CudaReport:
    """Ask the package and NVIDIA's libraries, in two processes.

    Raises NotApplicable if the profile names no module, Unavailable if the package could not be
    installed.
    """
    require_module(request)  # before anything is installed
    place.require_installed(package)
    conditions, host = hide_driver(place)
    asked = {
        "module": request.module,
        "snippet": request.snippet,
        "questions": list_expressions(request),
    }
    result = place.run("ask_module", asked, conditions=conditions)
    report = CudaReport(
        python=place.target.name,
        step=read_step(request.module, result, place, calls=True),
        stage=read_text(result.answer, "stage"),
        answers=read_answers(result, place),
        host=host,
        system=name_system(place.target),
    )
    if report.step.outcome is not Ending.OK or is_without_cuda(report.answers, request.version):
        return report
    versions, result = ask_versions(place, request.module, request.compiled, conditions)
    step = read_step("versions", result, place, calls=True)
    return replace(report, versions=versions, versions_step=step)


def hide_driver(place: Place, variables: Mapping[str, str] = HIDDEN) -> tuple[Conditions, GpuHost]:
    """Return conditions that hide the host's driver, and facts about its visible parts.

    On Linux, empty files with the names of the driver's libraries come first in the search path,
    and the loader rejects them. So every program that opens the driver by name, as CUDA's runtime
    does, fails as if there were no driver. On other systems this is not possible without
    privileges.
    """
    conditions = Conditions(variables=variables, calls=True)
    host = describe_host(place, conditions)
    if not host.library or not place.target.platform.startswith("linux"):
        return conditions, host
    hidden = replace(conditions, decoys=dict.fromkeys(_DRIVERS, b""))
    return hidden, describe_host(place, hidden)


def is_without_cuda(answers: Iterable[Answer], version: str) -> bool:
    """Return whether the package reports that it was built without CUDA."""
    found = (each for each in answers if version and each.question == version)
    return any(not (each.value or each.error) for each in found)


def read_answers(result: ProbeAnswer, place: Place) -> tuple[Answer, ...]:
    """Return the result of each expression."""
    return tuple(_read_answer(row, place) for row in list_rows(result.answer, "answers"))


def _read_answer(row: Mapping[str, Any], place: Place) -> Answer:
    value = row.get("value")
    if isinstance(value, list):
        value = tuple(map(str, value))
    elif value is not None and not isinstance(value, (bool, int, float)):
        value = place.scrub(str(value))  # the repr of an object contains its address
    return Answer(
        question=str(row.get("question", "")),
        value=value,
        error=place.scrub(str(row.get("error", ""))),
    )


def ask_versions(
    place: Place, module: str, compiled: Mapping[str, str], conditions: Conditions
) -> tuple[tuple[LibraryVersions, ...], ProbeAnswer]:
    """Ask for the versions of NVIDIA's libraries in a process that imports the module.

    ``compiled`` maps libraries to expressions for the versions that they were compiled against.
    Also return how the process ended, with its answer.
    """
    request = {"module": module, "compiled": compiled}
    result = place.run("nvidia_libraries", request, conditions=conditions)
    return tuple(read_versions(result.answer)), result


def read_versions(answer: Mapping[str, Any]) -> Iterator[LibraryVersions]:
    """Read the versions of each library, sorted by name."""
    versions = answer.get("versions")
    for name, row in sorted(versions.items()) if isinstance(versions, dict) else ():
        values = row if isinstance(row, dict) else {}
        known = {source: str(values.get(source) or "") for source in _SOURCES}
        yield LibraryVersions(name=name, **known)
