"""What nvJitLink made of shipped PTX is judged; the reports are those of its probe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from binary_checks.checks.cuda.device_code import ptx_assembly_fails
from binary_checks.model import (
    Ending,
    Note,
    NotInspected,
    Problem,
    PtxLink,
    PtxLinkReport,
    PtxText,
    PtxTexts,
    Step,
    UnreadDeviceCode,
)
from fixtures.values import only

TEXT = PtxText(
    path="demo/lib.so", offset=4096, architecture="sm_60", version="6.3", content=b"x" * 250_000
)
SAMPLE = PtxTexts(texts=(TEXT,), found=3, size=1_000_000)
REFUSED = "Instruction 'shfl' without '.sync' is not supported on .target sm_70 and higher"


def report(*links: PtxLink, **known: Any) -> PtxLinkReport:
    told: dict[str, Any] = {"library": "nvidia/cu13/lib/libnvJitLink.so.13", "version": "13.5"}
    return PtxLinkReport(python="CPython 3.11.7", links=links, **{**told, **known})


def linked(*targets: str) -> tuple[PtxLink, ...]:
    return tuple(PtxLink(text=TEXT, target=target, assembled=True) for target in targets)


def test_ptx_that_compiles_everywhere_is_fine_and_its_share_is_told() -> None:
    assert [*ptx_assembly_fails(report(*linked("sm_121", "sm_90")), SAMPLE)] == [
        Note(sentence="nvJitLink 13.5 links 1 of 3 PTX texts (0.2 of 1.0 MB) for sm_90, sm_121")
    ]
    strange = "sm_" + "9" * 5000  # no GPU has it, and Python makes no number of it
    note = only(Note, ptx_assembly_fails(report(*linked("sm_90", strange)), SAMPLE))
    assert note.sentence.endswith(f"for {strange}, sm_90")


def test_an_error_of_the_assembler_names_kernel_and_line_once_for_all_targets() -> None:
    links = [
        PtxLink(text=TEXT, target=target, refusal=REFUSED, line=47, kernel="_Z3sumPf")
        for target in ("sm_90", "sm_121")
    ]
    assert [*ptx_assembly_fails(report(*links), SAMPLE)] == [
        Problem(
            path="demo/lib.so",
            sentence="its PTX for sm_60 at offset 4096 does not compile for sm_90, sm_121: "
            f"{REFUSED} (in _Z3sumPf, line 47)",
        )
    ]


def test_what_was_neither_compiled_nor_refused_and_what_was_not_tried_is_a_gap() -> None:
    lack = "nvJitLink crashes: SIGSEGV"
    later = replace(TEXT, path="demo/other.so")
    alone = only(NotInspected, ptx_assembly_fails(report(untried=(TEXT,)), SAMPLE))
    assert alone.sentence == "its PTX for sm_60 at offset 4096: not tried with nvJitLink 13.5"
    found = report(PtxLink(text=TEXT, target="sm_90", lack=lack), untried=(TEXT, later))
    assert [*ptx_assembly_fails(found, SAMPLE)] == [
        NotInspected(
            path="demo/lib.so",
            sentence=f"its PTX for sm_60 at offset 4096, for sm_90: {lack}",
        ),
        NotInspected(
            path="demo/lib.so",
            sentence="its PTX for sm_60 at offset 4096, and 1 more: not tried with nvJitLink 13.5",
        ),
    ]
    step = Step(name="nvJitLink", outcome=Ending.HUNG, detail="300 s")
    assert [*ptx_assembly_fails(report(step=step, untried=(TEXT,)), SAMPLE)] == [
        NotInspected(sentence="nvJitLink (nvidia/cu13/lib/libnvJitLink.so.13) hangs: 300 s")
    ]


def test_ptx_that_cannot_be_read_or_is_beyond_the_budget_is_not_inspected() -> None:
    unread = UnreadDeviceCode(offset=64, count=2, reason="its LZ4 block is broken", broken=True)
    sample = PtxTexts(found=2, size=9, unread=(("demo/lib.so", unread),))
    sentence = "2 PTX texts, first at offset 64: its LZ4 block is broken"
    assert [*ptx_assembly_fails(report(), sample)] == [
        NotInspected(path="demo/lib.so", sentence=sentence)
    ]
    lack = "none of 2 PTX texts (90.0 MB) is small enough; raise bytes in [probes.ptx]"
    assert [*ptx_assembly_fails(report(), PtxTexts(found=2, size=90_000_000))] == [
        NotInspected(sentence=lack)
    ]


def test_a_text_in_a_static_archive_is_named_with_its_member() -> None:
    text = PtxText(
        path="demo/lib.a", offset=8, architecture="sm_90a", version="8.8", content=b"", member="k.o"
    )
    links = (PtxLink(text=text, target="sm_90a", refusal="Parsing error"),)
    assert [*ptx_assembly_fails(report(*links), PtxTexts(texts=(text,), found=1))] == [
        Problem(
            path="demo/lib.a",
            sentence="its PTX for sm_90a at offset 8 in k.o does not compile for sm_90a: "
            "Parsing error",
        )
    ]
