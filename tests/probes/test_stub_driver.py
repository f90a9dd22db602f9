"""A driver that refuses is written, compiled and put before a package, or the reason is told."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import (
    Answer,
    Code,
    CudaRequest,
    Ending,
    ProbeAnswer,
    RefusedAnswers,
    TargetPython,
)
from binary_checks.places import unpacked
from binary_checks.probes import stub_driver as reader
from binary_checks.probes.stub_driver import (
    OPTIONS,
    REFUSALS,
    ask_with_refusing_driver,
    write_source,
)
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON, open_offline
from fixtures.values import wheel

LINUX = sys.platform == "linux"
NO_DEVICE, MISMATCH, OLD = REFUSALS
compiled = pytest.mark.skipif(
    not (LINUX and shutil.which("cc")), reason="needs a C compiler and ELF"
)


def test_the_source_defines_each_function_once_and_what_the_package_needs() -> None:
    source = write_source(NO_DEVICE, ["cuNewInCuda14", "NvEncodeAPICreateInstance", "malloc"])
    for name in ("cuInit", "cuMemAlloc_v2", "cuNewInCuda14", "NvEncodeAPICreateInstance"):
        assert source.count(f"\nint {name}(") == 1, name
    assert "malloc" not in source
    assert "#define STATUS 100\n" in source


def test_a_name_that_is_no_function_of_a_driver_is_not_written() -> None:
    hostile = ["cuX(void);\nint system", 'cuY"', "cuZ" + "z" * 500, "cu", "nvmlInitß"]
    others = ["cumsum", "cuFileRead", "cudaMalloc", "cublasCreate_v2"]
    assert write_source(OLD, hostile + others) == write_source(OLD)
    # nor are names without end
    assert write_source(OLD, (f"cuX{n}" for n in range(100_000))).count("\nint cuX") == 5000


def compile_stub(folder: Path, source: str) -> ctypes.CDLL:
    (folder / "driver.c").write_text(source)
    subprocess.run(("cc", *OPTIONS, "-o", folder / "libcuda.so.1", folder / "driver.c"), check=True)
    return ctypes.CDLL(str(folder / "libcuda.so.1"))


@compiled
def test_a_stub_answers_as_a_driver_that_did_not_start(tmp_path: Path) -> None:
    stub, number, text = (
        compile_stub(tmp_path, write_source(MISMATCH)),
        ctypes.c_int(-7),
        ctypes.c_char_p(),
    )
    assert stub.cuInit(0) == 803
    assert (stub.cuDriverGetVersion(ctypes.byref(number)), number.value) == (0, 20000)
    assert stub.cuDeviceGetCount(ctypes.byref(number)) == 3
    assert (stub.cuGetErrorName(803, ctypes.byref(text)), text.value) == (
        0,
        b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    )
    assert (stub.cuGetErrorString(99, ctypes.byref(text)), text.value) == (1, None)
    assert stub.nvmlInit_v2() == 18
    assert stub.nvmlDeviceGetCount_v2(ctypes.byref(number)) == 1


@compiled
def test_a_stub_gives_every_function_that_a_runtime_looks_up(tmp_path: Path) -> None:
    stub, found = compile_stub(tmp_path, write_source(NO_DEVICE)), ctypes.c_void_p()
    start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)
    for name, answer in ((b"cuInit", 100), (b"cuFromCuda15", 3)):
        assert stub.cuGetProcAddress_v2(name, ctypes.byref(found), 13000, 0, None) == 0
        assert start(found.value)(0) == answer
    assert stub.cuGetProcAddress_v2(b"", ctypes.byref(found), 0, 0, None) == 500
    count = ctypes.c_uint(7)
    assert (stub.nvmlDeviceGetCount(ctypes.byref(count)), count.value) == (0, 0)


REQUEST = CudaRequest(
    module=Code("fake"), available=Code("fake.available()"), version=Code("fake.version")
)
STUB, FOREIGN = "/stubs/libcuda.so.1", "/opt/fake/libcuda.so.1"
HONEST = [
    {"question": "fake.available()", "value": False},
    {"question": "fake.version", "value": "13.0"},
]


class StandIn:
    """Answers in the place of the probes; the host's is what each stub would have it be."""

    timeout = 60.0
    target = TargetPython(executable=PYTHON, platform="linux-x86_64", paths={"platlib": "/site"})

    def __init__(self, *, loaded: str = STUB, cuda: int = 0, **ended: Any) -> None:
        answer = {"state": "finished", "stage": "", "answers": HONEST, "libraries": [loaded]}
        self.answer = ProbeAnswer(**{"answer": answer, **ended})
        self.cuda = cuda
        self.under: list[bytes] = []

    def require_installed(self, package: Any) -> None:
        del package

    def run(self, script: str, request: Any, *, conditions: Any, **_: Any) -> ProbeAnswer:
        stub = conditions.decoys["libcuda.so.1"]
        if script == "ask_module":
            self.under.append(stub)
            return self.answer
        cuda = self.cuda or int(stub)
        return ProbeAnswer(answer={"stage": "", "library": STUB, "cuda": cuda, "status": 100})

    def scrub(self, text: str) -> str:
        return text

    shown = scrub


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask with stubs that are no more than the CUDA which they are written for."""
    if not LINUX:
        pytest.skip("stubs are made on Linux")
    monkeypatch.setattr(reader, "_compile", lambda _, source: CUDA.findall(source)[0].encode())
    monkeypatch.setenv("CC", sys.executable)

    def ask(place: Any, request: CudaRequest = REQUEST) -> tuple[RefusedAnswers, ...]:
        return ask_with_refusing_driver(place, wheel(), request).refused

    return ask


CUDA = re.compile(r"#define CUDA (\d+)")


def test_a_package_is_asked_once_under_each_driver(ask: Any) -> None:
    place = StandIn()
    found = ask(place)
    assert [each.state for each in found] == ["no-device", "driver-mismatch", "old-driver"]
    assert place.under == [b"20000", b"20000", b"10010"]
    assert {each.lack for each in found} == {""}
    assert found[0].answers[0] == Answer(question="fake.available()", value=False)


def test_after_a_hang_no_other_driver_is_tried(ask: Any) -> None:
    place = StandIn(answer={"stage": "import fake"}, outcome=Ending.HUNG, detail="300 s")
    first, *others = ask(place)
    assert (first.step.outcome, first.lack, len(place.under)) == (Ending.HUNG, "", 1)
    assert [each.lack for each in others] == ["the package hung with the stub no-device"] * 2


def test_a_package_that_loads_another_driver_or_none_proves_nothing(ask: Any) -> None:
    assert {each.lack for each in ask(StandIn(loaded=FOREIGN))} == {
        f"the package loads {FOREIGN} through its own search path, instead of the stub"
    }
    assert {each.lack for each in ask(StandIn(loaded="/usr/lib/libc.so.6"))} == {
        "the package opened none of the driver's libraries, so the stub was not used"
    }


def test_a_stub_that_crashes_or_is_not_the_first_driver_proves_nothing(ask: Any) -> None:
    class Crashing(StandIn):
        def run(self, script: str, request: Any, *, conditions: Any, **_: Any) -> ProbeAnswer:
            assert script == "gpu_host", "no package is tried under it"
            answer = {"stage": "cuInit", "library": STUB}
            return ProbeAnswer(answer=answer, outcome=Ending.CRASHED, detail="SIGSEGV")

    assert {each.lack for each in ask(StandIn(cuda=13000))} == {
        f"the stub of NVIDIA's driver does not answer: a process loads {STUB}"
    }
    assert {each.lack for each in ask(Crashing())} == {
        "the stub of NVIDIA's driver does not answer: "
        "the NVIDIA driver crashes with SIGSEGV at its start (cuInit)"
    }


@pytest.mark.parametrize(
    "ended",
    [
        {"answer": {"state": "raised", "detail": "ImportError: undefined symbol: cuNew (a.py:1)"}},
        {"answer": {"stage": "x"}, "outcome": Ending.EXITED, "detail": "exit status 127",
         "stderr": "python: symbol lookup error: a.so: undefined symbol: cuNew\n"},
    ],
)  # fmt: skip
def test_a_function_that_the_stub_lacks_is_no_fault_of_the_package(ask: Any, ended: Any) -> None:
    assert {each.lack for each in ask(StandIn(**ended))} == {
        "the stub of NVIDIA's driver lacks cuNew, which the package needs"
    }


def test_a_build_for_no_cuda_is_not_tried_further(ask: Any) -> None:
    place = StandIn(
        answer={"state": "finished", "answers": [{"question": "fake.version", "value": None}]}
    )
    with pytest.raises(NotApplicable, match="says that the build is not for CUDA"):
        ask(place)
    assert len(place.under) == 1


def test_without_a_compiler_or_another_system_nothing_is_tried(
    ask: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    windows = StandIn()
    windows.target = replace(StandIn.target, platform="win-amd64")
    with pytest.raises(Unavailable, match="only built on Linux"):
        ask(windows)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(unpacked, "OWN_FOLDER", tmp_path)
    with pytest.raises(Unavailable, match=r"no C compiler \(cc, gcc, clang\)"):
        ask(StandIn())
    with pytest.raises(NotApplicable, match=r"\[probes.cuda\] module"):
        ask(StandIn(), CudaRequest())


@pytest.mark.skipif(not LINUX, reason="stubs are made on Linux")
def test_a_compiler_that_fails_is_named_with_its_words(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'cc: cannot find ld' >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(
        Unavailable, match="cannot compile the stub of NVIDIA's driver: cc: cannot find ld"
    ):
        reader._compile(compiler, "")


HEAD = "import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\n"
MODULES = {
    "honest": HEAD + "def available(): return cuda.cuInit(0) == 0\n",
    "trusts": HEAD + "def available():\n    cuda.cuInit(0)\n    return cuda.cuCtxGetCurrent\n",
    "lacks": HEAD + "def available(): return cuda.cuNeverHeardOf(0)\n",
    "bundles": "import ctypes\nctypes.CDLL(__file__[:-10] + 'libcuda.so.1')\n"
    "def available(): return 0\n",
    "crashes": HEAD + "def available():\n    if cuda.cuInit(0) == 803: ctypes.string_at(0)\n",
}


@pytest.mark.slow
@compiled
def test_a_package_meets_the_stub_in_place_of_any_driver(tmp_path: Path) -> None:
    compile_stub(tmp_path, write_source(OLD))
    members = {f"{name}.py": text for name, text in MODULES.items()}
    members["libcuda.so.1"] = (tmp_path / "libcuda.so.1").read_bytes()
    path = build_wheel(tmp_path, name="fake", tags=PURE, members=members)
    with open_offline(path) as place:
        for module, ends in (("honest", ["ok"] * 3), ("crashes", ["ok", "crashed", "ok"])):
            request = CudaRequest(module=Code(module), available=Code(f"{module}.available()"))
            found = ask_with_refusing_driver(place, place.wheel, request).refused
            assert [each.step.outcome.value for each in found] == ends
            assert {each.lack for each in found} == {""}
        for module, lack in (
            ("lacks", "the stub of NVIDIA's driver lacks cuNeverHeardOf, which the package needs"),
            (
                "bundles",
                "the package loads libcuda.so.1 through its own search path, instead of the stub",
            ),
        ):
            request = CudaRequest(module=Code(module), available=Code(f"{module}.available()"))
            found = ask_with_refusing_driver(place, place.wheel, request).refused
            assert {each.lack for each in found} == {lack}
        trusting = CudaRequest(module=Code("trusts"), available=Code("trusts.available()"))
        found = ask_with_refusing_driver(place, place.wheel, trusting).refused
        assert all("_FuncPtr" in str(each.answers[0].value) for each in found)
