"""Compile shipped PTX to machine code with nvJitLink on the CPU, and report each result."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.device_code import choose_targets, find_reachable, limit_targets
from binary_checks.model import (
    Conditions,
    Ending,
    Package,
    Place,
    ProbeAnswer,
    PtxLink,
    PtxLinkReport,
    PtxRequest,
    PtxText,
    PtxTexts,
)
from binary_checks.probes.ask_module.reader import read_step
from binary_checks.probes.compilation_rows import list_texts, name_machine_code
from binary_checks.wording.sentences import describe_end

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
    step = read_step("nvJitLink", result, place)
    if not answer.get("library") and step.outcome is Ending.OK:
        raise NotApplicable(
            "its environment has no nvJitLink to link PTX (add its wheel to [probes.ptx] requires)"
        )
    library, known = str(answer.get("library", "")), list_texts(answer, "known")
    tasks = [_Task(text=text, targets=_choose(text, request, known)) for text in sample.texts]
    able = [task for task in tasks if task.targets]
    bench = _Bench(place=place, library=library)
    links, left = bench.link_all(able) if step.outcome is Ending.OK else ([], able)
    return PtxLinkReport(
        python=place.target.name,
        step=step,
        library=place.shown(library),
        version=str(answer.get("version", "")),
        known=known,
        links=tuple(links),
        untried=tuple(task.text for task in (*left, *(each for each in tasks if each not in able))),
    )


def _run(place: Place, request: Mapping[str, object]) -> ProbeAnswer:
    return place.run("ptx_links", request, conditions=Conditions(memory=_MEMORY, calls=True))


def _choose(text: PtxText, request: PtxRequest, known: tuple[str, ...]) -> tuple[str, ...]:
    if not request.targets:
        targets = choose_targets(text.architecture, known)
        return limit_targets(targets, len(text.content), request.bytes)
    reachable = find_reachable(text.architecture, known)
    return tuple(target for target in request.targets if target in reachable)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    """A text, and the targets for which it is linked."""

    text: PtxText
    targets: tuple[str, ...]

    def as_row(self) -> dict[str, object]:
        packed = base64.b64encode(zlib.compress(self.text.content, 1)).decode()
        return {"packed": packed, "size": len(self.text.content), "targets": self.targets}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bench:
    """The place and library with which texts are linked."""

    place: Place
    library: str

    def link_all(self, tasks: Sequence[_Task]) -> tuple[list[PtxLink], list[_Task]]:
        """Link all texts in one process; if a text kills it, continue in a new process."""
        links: list[PtxLink] = []
        left = list(tasks)
        for _ in range(_PATIENCE):
            if not left:
                break
            rows = [task.as_row() for task in left]
            result = _run(self.place, {"library": self.library, "texts": rows})
            read = list(_read_links(result, left))
            links += read
            step = read_step("nvJitLink", result, self.place)
            if step.outcome is Ending.OK:
                answered = {id(each.text) for each in read}
                return links, [task for task in left if id(task.text) not in answered]
            index, target = _find_culprit(result, left)
            lack = f"nvJitLink {describe_end(step)}"
            links.append(PtxLink(text=left[index].text, target=target, lack=lack))
            left = left[index + 1 :]
            if step.outcome is Ending.HUNG:
                break
        return links, left


def _find_culprit(result: ProbeAnswer, tasks: Sequence[_Task]) -> tuple[int, str]:
    current = result.answer.get("current")
    if isinstance(current, list) and len(current) == 2 and current[0] in range(len(tasks)):
        return int(current[0]), str(current[1])
    return 0, tasks[0].targets[0]


def _read_links(result: ProbeAnswer, tasks: Sequence[_Task]) -> Iterator[PtxLink]:
    rows = result.answer.get("links")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("text") in range(len(tasks)):
            yield read_link(tasks[int(row["text"])].text, row)


def read_link(text: PtxText, row: Mapping[str, Any]) -> PtxLink:
    """Read the result for a text: a cubin for the target, an error of the assembler, or neither.

    If only names are missing that other texts define, the text counts as assembled.
    """
    target, stage, log = (str(row.get(key, "")) for key in ("target", "stage", "log"))
    made = name_machine_code(str(row.get("head", "")))
    if made:
        lack = "" if made == target.rstrip("af") else f"nvJitLink returns machine code for {made}"
        return PtxLink(text=text, target=target, assembled=not lack, lack=lack)
    if stage == "link" and (asked := _TOO_MUCH.search(log)):
        return PtxLink(text=text, target=target, refusal=" ".join(asked["message"].split()))
    if stage == "link" and (_UNDEFINED in log or _needs_others(text, log)):
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


def _needs_others(text: PtxText, log: str) -> bool:
    """Return whether only missing definitions made the link fail.

    Before CUDA 12.9 the log does not state this.
    """
    return "error " not in log and _EXTERN.search(text.content) is not None


def find_kernel(content: bytes, line: int) -> str:
    """Return the last function or kernel that is declared before the end of a line, or ""."""
    before = b"\n".join(content.split(b"\n", line)[:line])
    names: list[bytes] = _DECLARED.findall(before)
    return names[-1].decode("ascii", "replace") if names else ""
