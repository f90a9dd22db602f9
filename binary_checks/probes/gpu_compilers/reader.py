"""Compile kernels and PTX with NVIDIA's compilers and Triton on the CPU, and read the results."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, Final

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda import (
    find_architectures,
    find_reported,
    require_cuda_build,
    require_gpu_build,
)
from binary_checks.knowledge.device_code import (
    EM_CUDA,
    choose_targets,
    find_reachable,
    limit_targets,
    read_flags,
)
from binary_checks.model import (
    Compilation,
    Conditions,
    CudaReport,
    CudaRequest,
    Ending,
    NvrtcReport,
    Package,
    Place,
    ProbeAnswer,
    PtxLink,
    PtxLinkReport,
    PtxRequest,
    PtxText,
    PtxTexts,
    TritonReport,
    applies,
    read_requirement,
)
from binary_checks.probes.answers import list_rows, list_texts, read_step, read_text, show_all
from binary_checks.probes.ask_module.reader import hide_driver
from binary_checks.wording.sentences import describe_end

# fields of an ELF header: magic, ABI version, machine, flags
_HEAD: Final = Struct("<4s4xB9xH28xI12x")


def list_machine_targets(package: Package) -> tuple[str, ...]:
    """Return the architectures for which the package has machine code, without suffixes."""
    numbers = {number for ptx, number in find_architectures(package) if not ptx}
    return tuple(f"sm_{number}" for number in sorted(numbers, key=int) if number.isdecimal())


def read_compilations(answer: Mapping[str, Any], place: Place) -> Iterator[Compilation]:
    """Yield the result for each target: an error, or the architecture in the cubin's header."""
    for row in list_rows(answer, "compilations"):
        yield Compilation(
            target=read_text(row, "target"),
            made=name_machine_code(read_text(row, "head")),
            error=place.scrub(read_text(row, "error")),
        )


def name_machine_code(head: str) -> str:
    """Return the architecture in a cubin's header, or "" if the header is not a cubin's.

    ``head`` is hexadecimal. The architecture is returned without a suffix, as the header has none.
    """
    try:
        start = bytes.fromhex(head)
    except ValueError:
        return ""
    if len(start) < _HEAD.size:
        return ""
    magic, version, machine, flags = _HEAD.unpack_from(start)
    stated = read_flags(version, flags)
    if magic != b"\x7fELF" or machine != EM_CUDA or stated is None:
        return ""
    return f"sm_{stated.number}"


@gathers(NvrtcReport)
def compile_kernels(
    place: Place, package: Package, request: CudaRequest, answers: CudaReport
) -> NvrtcReport:
    """Compile in one process for each architecture that the package reports or has code for.

    Raises NotApplicable for a build without CUDA, Unavailable if the package cannot be imported.
    """
    require_gpu_build(package)
    require_cuda_build(answers, request)
    conditions, _ = hide_driver(place)
    reported = find_reported(answers, request)
    asked = {
        "compiler": "NVRTC",
        "module": request.module,
        "load": request.nvrtc,
        "targets": reported or list_machine_targets(package),
    }
    result = place.run("gpu_compilers", asked, conditions=conditions)
    answer = result.answer
    return NvrtcReport(
        python=place.target.name,
        step=read_step("NVRTC", result, place, calls=True),
        stage=read_text(answer, "stage"),
        library=place.shown(read_text(answer, "library")),
        unloaded=show_all(place, answer.get("lying")) or (),
        refusal=place.scrub(read_text(answer, "refusal")),
        version=read_text(answer, "version"),
        supported=list_texts(answer, "supported"),
        reported=reported,
        compilations=tuple(read_compilations(answer, place)),
    )


_USUAL = ("sm_80", "sm_90")
"""Architectures for a package that neither reports any nor has machine code."""


@gathers(TritonReport)
def compile_with_triton(
    place: Place, package: Package, request: CudaRequest, answers: CudaReport
) -> TritonReport:
    """Compile in one process, for the architectures that the package reports or has code for.

    Raises NotApplicable if the package does not require Triton on the place's system, or is not for
    CUDA.
    """
    require_gpu_build(package)
    require_cuda_build(answers, request)
    read = filter(None, map(read_requirement, package.claims.requirements))
    needed = (each.name.lower() for each in read if applies(each, place.target.markers))
    if "triton" not in needed:
        raise NotApplicable("the package does not require Triton")
    conditions, _ = hide_driver(place)
    reported = find_reported(answers, request)
    targets = reported or list_machine_targets(package) or _USUAL
    asked = {"compiler": "Triton", "targets": targets}
    result = place.run("gpu_compilers", asked, conditions=conditions)
    answer = result.answer
    return TritonReport(
        python=place.target.name,
        step=read_step("Triton", result, place, calls=True),
        stage=read_text(answer, "stage"),
        library=place.shown(read_text(answer, "library")),
        version=read_text(answer, "version"),
        reported=reported,
        unknown=list_texts(answer, "unknown"),
        compilations=tuple(read_compilations(answer, place)),
    )


# PTX of the package, compiled by nvJitLink.

_MEMORY = 8 << 30  # bytes of memory; a text of 9 MB takes 0.6 GB
_PATIENCE = 3  # processes that may die before the remaining texts are skipped
_ERROR = re.compile(
    r"^ptxas (?:.*, line (?P<line>\d{1,9}); )?(?:error|fatal)\s*: (?P<message>.+)$", re.MULTILINE
)
# Errors of the assembler on targets and versions that it does not support, and on itself.
_OWN = re.compile(
    r"Unsupported \.(?:version|target)|^'Compile only|cannot be compiled (?:to|for) "
    r"|^SM version specified|is not defined for option|[Mm]emory|[Ii]nternal"
)
_UNDEFINED = "Undefined reference"
# Errors that the assembler finds only when it links: a kernel needs more than the GPU has.
_TOO_MUCH = re.compile(r"^error\s*: (?P<message>Entry function .+)$", re.MULTILINE)
_EXTERN = re.compile(rb"\.extern\s+\.(?:func|global|const)\b")
_DECLARED = re.compile(rb"\.(?:entry|func)\b(?:\s*\([^()]{0,1000}\))?\s*([A-Za-z_$%][\w$]*)")
_Task = tuple[PtxText, tuple[str, ...]]
"""A text, and the targets for which it is linked."""


@gathers(PtxLinkReport)
def link_ptx(
    place: Place, package: Package, request: PtxRequest, sample: PtxTexts
) -> PtxLinkReport:
    """Link the sample for its own targets and later ones, each text once.

    Raises NotApplicable if no library that links PTX is installed, Unavailable if the package could
    not be installed.
    """
    place.require_installed(package)
    if not request.requires:
        return link_all(place, request, sample)
    with place.with_requirements(request.requires) as own:
        own.require_installed(package)
        return link_all(own, request, sample)


def link_all(place: Place, request: PtxRequest, sample: PtxTexts) -> PtxLinkReport:
    """Find the library, then link all texts, in a new process after each crash."""
    result = _run(place, {})
    answer = result.answer
    step = read_step("nvJitLink", result, place, calls=True)
    if not answer.get("library") and step.outcome is Ending.OK:
        raise NotApplicable(
            "its environment has no nvJitLink to link PTX (add its wheel to [probes.ptx] requires)"
        )
    library, known = read_text(answer, "library"), list_texts(answer, "known")
    tasks = [(text, _choose(text, request, known)) for text in sample.texts]
    able = [(text, targets) for text, targets in tasks if targets]
    links, left = _link(place, library, able) if step.outcome is Ending.OK else ([], able)
    return PtxLinkReport(
        python=place.target.name,
        step=step,
        library=place.shown(library),
        version=read_text(answer, "version"),
        known=known,
        links=tuple(links),
        untried=tuple(text for text, _ in (*left, *(each for each in tasks if not each[1]))),
    )


def _run(place: Place, request: Mapping[str, object]) -> ProbeAnswer:
    asked = {"compiler": "nvJitLink", **request}
    return place.run("gpu_compilers", asked, conditions=Conditions(memory=_MEMORY, calls=True))


def _choose(text: PtxText, request: PtxRequest, known: tuple[str, ...]) -> tuple[str, ...]:
    if not request.targets:
        targets = choose_targets(text.architecture, known)
        return limit_targets(targets, len(text.content), request.bytes)
    reachable = find_reachable(text.architecture, known)
    return tuple(target for target in request.targets if target in reachable)


def _link(
    place: Place, library: str, tasks: Sequence[_Task]
) -> tuple[list[PtxLink], Sequence[_Task]]:
    """Link all texts in one process; if a text kills it, continue in a new process.

    Also return the tasks that were not performed.
    """
    links: list[PtxLink] = []
    for _ in range(_PATIENCE):
        if not tasks:
            break
        rows = [
            {
                "packed": base64.b64encode(zlib.compress(text.content, 1)).decode(),
                "size": len(text.content),
                "targets": targets,
            }
            for text, targets in tasks
        ]
        result = _run(place, {"library": library, "texts": rows})
        read = list(_read_links(result, tasks))
        links += read
        step = read_step("nvJitLink", result, place, calls=True)
        if step.outcome is Ending.OK:
            answered = {id(each.text) for each in read}
            return links, [task for task in tasks if id(task[0]) not in answered]
        index, target = _find_culprit(result, tasks)
        lack = f"nvJitLink {describe_end(step)}"
        links.append(PtxLink(text=tasks[index][0], target=target, lack=lack))
        tasks = tasks[index + 1 :]
        if step.outcome is Ending.HUNG:
            break
    return links, tasks


def _find_culprit(result: ProbeAnswer, tasks: Sequence[_Task]) -> tuple[int, str]:
    current = result.answer.get("current")
    if isinstance(current, list) and len(current) == 2 and current[0] in range(len(tasks)):
        return int(current[0]), str(current[1])
    return 0, tasks[0][1][0]


def _read_links(result: ProbeAnswer, tasks: Sequence[_Task]) -> Iterator[PtxLink]:
    for row in list_rows(result.answer, "links"):
        if row.get("text") in range(len(tasks)):
            yield read_link(tasks[int(row["text"])][0], row)


def read_link(text: PtxText, row: Mapping[str, Any]) -> PtxLink:
    """Read the result for a text: a cubin for the target, an error of the assembler, or neither.

    If only names are missing that other texts define, the text counts as assembled.
    """
    target, stage, log = (read_text(row, key) for key in ("target", "stage", "log"))
    made = name_machine_code(read_text(row, "head"))
    if made:
        lack = "" if made == target.rstrip("af") else f"nvJitLink returns machine code for {made}"
        return PtxLink(text=text, target=target, assembled=not lack, lack=lack)
    if stage == "link" and (asked := _TOO_MUCH.search(log)):
        return PtxLink(text=text, target=target, refusal=" ".join(asked["message"].split()))
    # Before CUDA 12.9 the log does not state that only definitions are missing.
    lacks_others = "error " not in log and _EXTERN.search(text.content) is not None
    if stage == "link" and (_UNDEFINED in log or lacks_others):
        return PtxLink(text=text, target=target, assembled=True)
    found = _ERROR.search(log) if stage == "assemble" else None
    if found is None or _OWN.search(found["message"]):
        message = found["message"] if found else " ".join(log.split())[:300]
        status = f"nvJitLink returns {row.get('status', 'no machine code')}"
        return PtxLink(text=text, target=target, lack=f"{status}: {message}" if message else status)
    line = int(found["line"] or 0)
    return PtxLink(
        text=text,
        target=target,
        refusal=" ".join(found["message"].split()),
        line=line,
        kernel=find_kernel(text.content, line),
    )


def find_kernel(content: bytes, line: int) -> str:
    """Return the last function or kernel that is declared before the end of a line, or ""."""
    before = b"\n".join(content.split(b"\n", line)[:line])
    names: list[bytes] = _DECLARED.findall(before)
    return names[-1].decode("ascii", "replace") if names else ""
