"""NVIDIA's compilers, from their wheels, work on the CPU and refuse what ptxas refuses.

150 MB are downloaded.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from binary_checks import examine
from binary_checks.checks.cuda.device_code import nvrtc_fails, ptx_assembly_fails
from binary_checks.model import (
    Answer,
    Code,
    CudaReport,
    CudaRequest,
    Note,
    Problem,
    PtxLinkReport,
    PtxRequest,
    PtxTexts,
)
from binary_checks.probes.gpu_compilers.reader import compile_kernels, link_ptx
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import PTX, container, entry
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, FilledPlace, open_offline
from tests.oracles.downloads import download
from tests.places.published import ON_LINUX

pytestmark = list(ON_LINUX)
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux2010_x86_64")
LINKER, ASSEMBLER = "nvidia-nvjitlink==13.5.37", "nvidia-cuda-nvcc==13.5.37"
COMPILER = "nvidia-cuda-nvrtc==13.2.86"
BODIES = {
    "good": "mov.u32 %r1, %tid.x;",
    "gone": "shfl.idx.b32 %r2, %r1, 0, 31;",
    "special": "wgmma.fence.sync.aligned;",
    "wrong": "add.s33 %r1, %r2, %r3;",
    "large": ".shared .align 4 .b8 much[400000];",
}
TARGETS = {"sm_60": "6.3", "sm_70": "6.4", "sm_90": "8.0", "sm_90a": "8.0", "sm_100f": "8.8"}


def write_ptx(target: str, body: str) -> bytes:
    return (
        f".version {TARGETS[target]}\n.target {target}\n.address_size 64\n"
        f".visible .entry kernel()\n{{\n.reg .b32 %r<4>;\n{BODIES[body]}\nret;\n}}\n"
    ).encode()


TEXTS = {(target, body): write_ptx(target, body) for target in TARGETS for body in BODIES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compilers")


@pytest.fixture(scope="module")
def ptxas(folder: Path) -> Path:
    (wheel,) = download(folder / "nvcc", PLATFORMS, [ASSEMBLER])
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/bin/ptxas"))
        path = Path(archive.extract(name, folder / "nvcc"))
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def linked(folder: Path) -> Iterator[tuple[PtxTexts, PtxLinkReport]]:
    """A package with all the texts, and what the nvJitLink that it requires makes of them."""
    (linker,) = download(folder / "linker", PLATFORMS, [LINKER])
    padded = (text + bytes(8 - len(text) % 8) for text in TEXTS.values())
    fatbin = container(*(entry(PTX, 60, text) for text in padded))
    members = {"demo/lib.so": build_elf(sections={".nv_fatbin": fatbin}), "demo/__init__.py": ""}
    path = build_wheel(
        folder, tags=PURE, members=members, requires=("nvidia-nvjitlink",), root_is_purelib=True
    )
    with open_offline(path, linker) as place, examine(path) as facts:
        sample = facts.get(PtxTexts)
        yield sample, link_ptx(place, place.wheel, PtxRequest(), sample)


def test_the_assembler_refuses_what_ptxas_refuses(
    linked: tuple[PtxTexts, PtxLinkReport], ptxas: Path, tmp_path: Path
) -> None:
    _, report = linked
    assert (report.version, len(report.links)) == ("13.5", 5 * (6 + 6 + 4 + 1 + 1))
    for link in report.links:
        path = tmp_path / "text.ptx"
        path.write_bytes(link.text.content)
        command = (ptxas, "-arch", link.target, path, "-o", tmp_path / "cubin")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert link.assembled == (done.returncode == 0), (link, done.stderr)
        assert link.assembled or link.refusal in done.stdout + done.stderr


def test_each_refused_text_is_one_problem_and_the_rest_is_counted(
    linked: tuple[PtxTexts, PtxLinkReport],
) -> None:
    sample, report = linked
    found = list(ptx_assembly_fails(report, sample))
    assert found[-1] == Note(
        sentence=f"nvJitLink 13.5 links 7 of {len(TEXTS)} PTX texts (0.0 of 0.0 MB) for "
        "sm_75, sm_89, sm_90, sm_90a, sm_107, sm_110, sm_121"
    )
    sentences = [each.sentence for each in found[:-1] if isinstance(each, Problem)]
    assert len(sentences) == len(found) - 1
    gone = "does not compile for sm_75, sm_89, sm_90, sm_107, sm_110, sm_121: Instruction 'shfl'"
    assert [each for each in sentences if gone in each and "in kernel, line 7" in each]


MODULE = """
import ctypes, os, sysconfig
folder = os.path.join(sysconfig.get_path("purelib"), "nvidia", "cu13", "lib")
ctypes.CDLL(os.path.join(folder, "libnvrtc.so.13"))
"""
REPORTED = ("sm_75", "sm_90a", "sm_100f", "sm_121")


@pytest.fixture(scope="module")
def compiler(folder: Path) -> Iterator[FilledPlace]:
    (wheel,) = download(folder / "compiler", PLATFORMS, [COMPILER])
    path = build_wheel(
        folder,
        name="loads",
        tags=PURE,
        members={"loads.py": MODULE},
        requires=("nvidia-cuda-nvrtc",),
    )
    with open_offline(path, wheel) as place:
        yield place


def compile_all(place: FilledPlace) -> list[object]:
    request = CudaRequest(module=Code("loads"), architectures=Code("loads.flags"))
    answers = CudaReport(python="", answers=(Answer(question="loads.flags", value=REPORTED),))
    return list(nvrtc_fails(compile_kernels(place, place.wheel, request, answers)))


def test_nvrtc_compiles_for_each_architecture_until_its_builtins_are_gone(
    compiler: FilledPlace,
) -> None:
    library = "nvidia/cu13/lib/libnvrtc.so.13"
    (note,) = compile_all(compiler)
    assert note == Note(sentence=f"NVRTC 13.2 ({library}) compiles for {', '.join(REPORTED)}")
    (compiler.target.site_packages / "nvidia/cu13/lib/libnvrtc-builtins.so.13.2").unlink()
    (problem,) = compile_all(compiler)
    assert str(problem).startswith(
        f"NVRTC 13.2 ({library}) does not compile for {', '.join(REPORTED)}: "
        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE: "
    )
    assert "failed to open libnvrtc-builtins.so.13.2" in str(problem)
