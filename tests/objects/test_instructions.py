"""Vector instructions are counted by their encoding, and judged by what else the code has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.checks.hardening import code_over_baseline
from binary_checks.errors import MalformedError, NotApplicable
from binary_checks.model import (
    Level,
    NotInspected,
    Problem,
    UnparsedSource,
    VectorInstructions,
    VectorUse,
    Wheel,
)
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.instructions import VectorCode, read_vector_code
from binary_checks.trees.kept_bytes import MemorySource
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.values import elf_file, symbols, wheel

SSE = bytes.fromhex("0f58c1")  # addps xmm0, xmm1
AVX = bytes.fromhex("c5f858c1")  # vaddps xmm0, xmm0, xmm1
AVX512 = bytes.fromhex("62f17c4858c1")  # vaddps zmm0, zmm0, zmm1
MASK = bytes.fromhex("c5f892c8")  # kmovw k1, eax
PLAIN = bytes.fromhex("4889c8")  # mov rax, rcx
NOPS = b"\x90" * 16  # the function before the code ends within an instruction
TILES = bytes.fromhex(
    "c4e2784901"  # ldtilecfg [rcx]
    "c4a27b4b0c07"  # tileloadd tmm1, [rdi+r8]
    "c4a2794b1406"  # tileloaddt1 tmm2, [rsi+r8]
    "c4e27b49f8"  # tilezero tmm7
    "c4e26b5ec1"  # tdpbssd tmm0, tmm1, tmm2
    "c4e2525edc"  # tdpbsud tmm3, tmm4, tmm5
    "c4e26a5cc1"  # tdpbf16ps tmm0, tmm1, tmm2
    "c4a27a4b3c00"  # tilestored [rax+r8], tmm7
    "c4e27849c0"  # tilerelease
)
CPUID = bytes.fromhex("0fa2")


def read(code: bytes) -> VectorCode:
    pytest.importorskip("capstone")
    return read_vector_code(LimitedSource(MemorySource(build_elf(code=NOPS + code))))


def test_instructions_are_told_apart_by_their_encoding() -> None:
    found = read(PLAIN * 900 + SSE + AVX * 3 + AVX512 * 2 + MASK)
    assert found == VectorCode(legacy=1, avx=3, avx512=3, asks=False)


def test_code_that_asks_for_the_cpu() -> None:
    assert read(PLAIN * 900 + AVX512 + CPUID).asks
    # far from the pieces that are counted
    padding = PLAIN * 200_000
    assert read(AVX512 * 2000 + padding + CPUID + padding).asks


def test_code_with_much_of_sse_is_not_disassembled() -> None:
    assert read((PLAIN * 20 + SSE + AVX512) * 50) == VectorCode()


def test_tile_instructions_are_counted_among_code_for_all_cpus() -> None:
    assert read((PLAIN * 20 + SSE) * 50 + TILES) == VectorCode(amx=9)
    assert read((PLAIN * 20 + SSE) * 50 + TILES + PLAIN * 9 + CPUID) == VectorCode(amx=9, asks=True)
    shifts = bytes.fromhex("c4e279f7c1")  # shlx eax, ecx, eax: the same prefix
    assert read((PLAIN * 20 + SSE + shifts) * 50) == VectorCode()


def test_a_reader_that_begins_inside_of_an_instruction_gets_in_step() -> None:
    found = read((AVX512 + PLAIN) * 60_000)
    assert found.legacy == 0
    assert found.avx512 > 10_000


def test_without_section_headers_nobody_knows_where_the_code_is() -> None:
    content = build_elf(code=AVX512, section_headers=False)
    with pytest.raises(MalformedError, match="no section headers"):
        read_vector_code(LimitedSource(MemorySource(content)))


def test_the_objects_of_a_wheel_are_read_again(tmp_path: Path) -> None:
    pytest.importorskip("capstone")
    new = NOPS + (AVX * 3 + AVX512) * 30 + PLAIN * 2000
    members = {
        "demo/a.so": build_elf(code=new),
        "demo/b.so": build_elf(code=new + SSE * 300),
        "demo/c.so": build_elf(section_headers=False),
        "demo/cpu.py": "flags = ['AVX512F']\n",
    }
    with examine(build_wheel(tmp_path, members=members)) as examination:
        found = examination.get(VectorInstructions)
        assert [each.path.rpartition("/")[2] for each in found.uses] == ["a.so"]
        assert [each.path.rpartition("/")[2] for each in found.unread] == ["c.so"]
        assert found.choosing.endswith("demo/cpu.py")
        package = examination.get(Wheel)
        (gap, problem) = code_over_baseline(package, found, package)
    assert isinstance(gap, NotInspected)
    assert isinstance(problem, Problem)
    assert problem.level is Level.WARNING


USE = VectorUse(path="demo/a.so", legacy=2, avx=190, avx512=10)


def judge(use: VectorUse, path: str = "demo/a.so", *imports: str, choosing: str = "") -> list[str]:
    module = elf_file(path, imports=symbols(*imports))
    package = wheel(objects=(module,))
    instructions = VectorInstructions(uses=(replace(use, path=path),), choosing=choosing)
    found = list(code_over_baseline(package, instructions, package))
    assert all(isinstance(each, Problem) for each in found)
    return [f"{each.level.value}: {each.sentence}" for each in found if isinstance(each, Problem)]


def test_an_object_without_any_other_code_is_a_problem() -> None:
    sentence = "vector instructions in a sample): on other CPUs it ends the process"
    assert judge(USE) == [f"error: is compiled for CPUs with AVX-512 (10 of 200 {sentence}"]
    assert judge(USE, choosing="demo/cpu.py") == [
        f"warning: is compiled for CPUs with AVX-512 (10 of 200 {sentence}, unless demo/cpu.py "
        "chooses it by the CPU"
    ]


@pytest.mark.parametrize(
    "use",
    [
        replace(USE, legacy=5),  # other functions are compiled for all CPUs
        replace(USE, avx512=2),
        replace(USE, legacy=0, avx=10, avx512=9),
        replace(USE, asks=True),
    ],
)
def test_code_that_may_be_chosen_at_run_time_is_quiet(use: VectorUse) -> None:
    assert judge(use) == []


@pytest.mark.parametrize(
    "name", ["libllama_avx512.so", "libmkl_avx512.so.2", "libx_x86_64_v4.so", "kernels-amx.so"]
)
def test_a_library_for_some_cpus_says_so_in_its_name(name: str) -> None:
    assert judge(USE, f"demo/{name}") == []


def test_tile_instructions_are_a_problem_where_nothing_asks_for_the_cpu() -> None:
    tiles = VectorUse(path="demo/a.so", amx=9)
    sentence = "has 9 tile instructions of AMX, and does not ask which CPU runs it: most CPUs end"
    assert judge(tiles) == [f"warning: {sentence} the process there"]
    assert judge(replace(tiles, asks=True)) == []
    assert judge(replace(tiles, amx=2)) == []
    assert judge(tiles, "demo/kernels-amx.so") == []
    assert judge(tiles, "demo/a.so", "__cpu_model") == []


def test_libgcc_asks_for_the_cpu() -> None:
    assert judge(USE, "demo/a.so", "__cpu_model") == []


def test_what_was_not_read_is_not_inspected() -> None:
    package = wheel(objects=(elf_file("demo/a.so"),))
    unread = VectorInstructions(unread=(UnparsedSource(path="demo/a.so", reason="too large"),))
    gap = NotInspected(path="demo/a.so", sentence="too large")
    assert list(code_over_baseline(package, unread, package)) == [gap]


def test_other_architectures_have_no_such_code() -> None:
    package = wheel(objects=(elf_file("demo/a.so", architecture="aarch64"),))
    with pytest.raises(NotApplicable):
        list(code_over_baseline(package, VectorInstructions(), package))
