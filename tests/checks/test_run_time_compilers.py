"""What compilers made on the CPU is judged; the reports are those of their probes."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.cuda.device_code import nvrtc_fails, triton_fails
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Compilation,
    Ending,
    Note,
    NotInspected,
    NvrtcReport,
    Step,
    TritonReport,
)
from fixtures.values import say

LIBRARY = "nvidia/cu13/lib/libnvrtc.so.13"
NAME = f"NVRTC 13.2 ({LIBRARY})"
NO_BUILTINS = "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE: failed to open libnvrtc-builtins.so.13.2."


def compiled(*targets: str) -> tuple[Compilation, ...]:
    return tuple(Compilation(target=each, made=each.rstrip("af")) for each in targets)


def report(*compilations: Compilation, **known: Any) -> NvrtcReport:
    told: dict[str, Any] = {"library": LIBRARY, "version": "13.2", **known}
    step = Step(name="NVRTC", **told.pop("step", {}))
    return NvrtcReport(python="CPython 3.11.7", step=step, compilations=compilations, **told)


@pytest.mark.parametrize("known", [{"supported": ("sm_75", "sm_90")}, {}])  # or it cannot say
def test_a_compiler_that_makes_code_for_every_architecture_is_fine(known: Any) -> None:
    found = report(*compiled("sm_75", "sm_90a"), reported=("sm_75", "sm_90a"), **known)
    assert [*nvrtc_fails(found)] == [Note(sentence=f"{NAME} compiles for sm_75, sm_90a")]


def test_one_error_for_several_architectures_is_one_line() -> None:
    failed = (Compilation(target=each, error=NO_BUILTINS) for each in ("sm_75", "sm_90"))
    assert say(nvrtc_fails(report(*failed))) == [
        f"{NAME} does not compile for sm_75, sm_90: {NO_BUILTINS}"
    ]


def test_a_reported_architecture_that_the_compiler_does_not_know_is_a_problem() -> None:
    found = report(*compiled("sm_90"), reported=("sm_50", "sm_90"), supported=("sm_75", "sm_90"))
    assert say(nvrtc_fails(found)) == [
        f"the package reports sm_50, for which {NAME} cannot compile: kernels that are compiled at "
        "run time fail on such a GPU",
        Note(sentence=f"{NAME} compiles for sm_90"),
    ]


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        ("", "it returns no machine code for NVIDIA's GPUs"),
        ("sm_80", "it returns machine code for sm_80"),
    ],
)
def test_a_cubin_for_nothing_or_for_another_gpu_is_no_success(made: str, wrong: str) -> None:
    found = report(Compilation(target="sm_90", made=made), *compiled("sm_75"))
    assert say(nvrtc_fails(found)) == [
        f"{NAME} does not compile for sm_90: {wrong}",
        Note(sentence=f"{NAME} compiles for sm_75"),
    ]


@pytest.mark.parametrize(
    ("outcome", "detail", "end"),
    [
        (Ending.HUNG, "300 s", "hangs: 300 s"),
        (Ending.CRASHED, "SIGSEGV", "crashes: SIGSEGV"),
        (Ending.STOPPED, "it took 16 GiB", "is stopped: it took 16 GiB"),
    ],
)
def test_a_compiler_that_does_not_come_back_is_a_problem(
    outcome: Ending, detail: str, end: str
) -> None:
    stage = "NVRTC's compilation for sm_90"
    found = report(stage=stage, step={"outcome": outcome, "detail": detail})
    assert say(nvrtc_fails(found)) == [f"without a GPU, {stage} {end}"]


def test_a_compiler_of_the_host_or_an_import_that_fails_proves_nothing_of_the_package() -> None:
    path = "/usr/local/cuda/lib64/libnvrtc.so.13"
    sentence = f"{path} belongs to this host, not to the environment; it compiles for sm_90"
    of_host = report(*compiled("sm_90"), library=path)
    assert [*nvrtc_fails(of_host)] == [NotInspected(sentence=sentence)]
    step = {"outcome": Ending.RAISED, "detail": "ImportError: no"}
    failed = report(library="", stage="import demo", step=step)
    assert [*nvrtc_fails(failed)] == [NotInspected(sentence="import demo raises ImportError: no")]


def test_a_compiler_that_is_refused_is_a_problem_and_one_that_nothing_loads_not_tried() -> None:
    refusal = "OSError: libnvrtc.so.13: cannot open shared object file"
    found = report(library="", unloaded=(LIBRARY,), refusal=refusal)
    assert say(nvrtc_fails(found)) == [f"the package does not load {LIBRARY}: {refusal}"]
    assert [*nvrtc_fails(report(library="", refusal=refusal))] == [
        NotInspected(sentence=f"there is no NVRTC in its environment: {refusal}")
    ]
    assert [*nvrtc_fails(report(library="", unloaded=(LIBRARY, "b", "c", "d")))] == [
        NotInspected(
            sentence=f"the import does not load {LIBRARY}, b, c; name an expression that does "
            "([probes.cuda] nvrtc)"
        )
    ]
    with pytest.raises(NotApplicable, match="loads no NVRTC"):
        [*nvrtc_fails(report(library=""))]


def of_triton(*compilations: Compilation, **known: Any) -> TritonReport:
    step = Step(name="Triton", **known.pop("step", {}))
    told: dict[str, Any] = {"library": "triton/__init__.py", "version": "3.9.0", **known}
    return TritonReport(python="CPython 3.11.7", step=step, compilations=compilations, **told)


def test_triton_is_fine_where_it_compiles_and_not_tried_where_it_knows_none() -> None:
    assert [*triton_fails(of_triton(*compiled("sm_90"), unknown=("sm_50",)))] == [
        Note(sentence="Triton 3.9.0 compiles for sm_90"),
        Note(sentence="Triton 3.9.0 does not know sm_50"),
    ]
    none = "knows none of the architectures of this package"
    assert [*triton_fails(of_triton(unknown=("sm_50",)))] == [
        NotInspected(sentence=f"Triton 3.9.0 {none}")
    ]
    assert [*nvrtc_fails(report(supported=("sm_90",)))] == [NotInspected(sentence=f"{NAME} {none}")]


def test_a_triton_without_its_assembler_or_that_cannot_be_imported_is_a_problem() -> None:
    lacking = of_triton(Compilation(target="sm_90", error="RuntimeError: Cannot find ptxas"))
    assert say(triton_fails(lacking)) == [
        "Triton 3.9.0 does not compile for sm_90: RuntimeError: Cannot find ptxas"
    ]
    step = {"outcome": Ending.RAISED, "detail": "ModuleNotFoundError: No module named 'triton'"}
    assert say(triton_fails(of_triton(stage="import triton", step=step))) == [
        "without a GPU, import triton raises ModuleNotFoundError: No module named 'triton'"
    ]
