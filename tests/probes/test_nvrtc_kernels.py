"""An NVRTC of a package compiles on the CPU, or says why not, whatever it does then."""

from __future__ import annotations

import ctypes
from struct import pack
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Answer,
    Code,
    Compilation,
    CudaReport,
    CudaRequest,
    DeviceCode,
    DeviceKind,
    Ending,
    NvrtcReport,
    ProbeAnswer,
    Step,
)
from binary_checks.probes.gpu_compilers.reader import (
    compile_kernels,
    list_machine_targets,
    name_machine_code,
)
from fixtures.values import elf_file, wheel
from tests.probes.gpu_answers import Answering
from tests.probes.test_scripts import load


def head(architecture: int, abi: int = 8) -> bytes:
    """The start of a cubin, as ptxas of CUDA 13 writes it; ABI 7 is that of CUDA 12."""
    flags = architecture << 8 | 4 if abi == 8 else architecture | 0x500
    return b"\x7fELF\2\1\1\x41" + bytes([abi]) + bytes(7) + pack("<HHI24xI12x", 2, 190, 1, flags)


class StandIn:
    """The functions of an NVRTC, as far as the probe calls them."""

    def __init__(self, *supported: int, cubin: bytes = b"", status: int = 0, log: str = "") -> None:
        self.supported, self.cubin, self.status = supported, cubin, status
        self.log = log.encode() + b"\0"

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.answer(name, arguments)

    def answer(self, name: str, arguments: Any) -> int | bytes:
        if name == "nvrtcGetErrorString":
            return b"status %d" % arguments
        sizes = {
            "nvrtcGetNumSupportedArchs": len(self.supported),
            "nvrtcGetCUBINSize": len(self.cubin),
            "nvrtcGetProgramLogSize": len(self.log),
        }
        if name in sizes:
            arguments[-1]._obj.value = sizes[name]
        elif name == "nvrtcVersion":
            arguments[0]._obj.value, arguments[1]._obj.value = 13, 2
        elif name == "nvrtcGetSupportedArchs":
            arguments[0][:] = self.supported
        elif name == "nvrtcGetCUBIN":
            ctypes.memmove(arguments[1], self.cubin, len(self.cubin))
        elif name == "nvrtcGetProgramLog":
            ctypes.memmove(arguments[1], self.log, len(self.log))
        return self.status if name == "nvrtcCompileProgram" else 0


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(monkeypatch, "gpu_compilers")


def use(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, library: StandIn, *targets: str
) -> dict[str, Any]:
    answer: dict[str, Any] = {"compilations": []}
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    record = SimpleNamespace(enter=lambda *_: None)
    script.compile_kernels("libnvrtc.so.13", list(targets), record, answer)
    return answer


def test_a_kernel_is_compiled_for_each_target_that_is_known(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = StandIn(75, 90, cubin=head(90) + b"rest")
    answer = use(script, monkeypatch, library, "sm_50", "sm_90a")
    assert (answer["version"], answer["supported"]) == ("13.2", ["sm_75", "sm_90"])
    assert answer["compilations"] == [{"target": "sm_90a", "head": head(90).hex()}]


def test_without_targets_all_that_are_known_are_compiled_for(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = use(script, monkeypatch, StandIn(75, 90, cubin=head(90)))
    assert [each["target"] for each in answer["compilations"]] == ["sm_75", "sm_90"]


@pytest.mark.parametrize(
    ("library", "error"),
    [
        (StandIn(90, status=7, log="no\n  builtins"), "status 7: no builtins"),
        (StandIn(90, cubin=b""), "status 0: a cubin of 0 bytes"),
    ],
)  # fmt: skip
def test_an_error_is_told_in_the_compilers_words(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, library: StandIn, error: str
) -> None:
    answer = use(script, monkeypatch, library, "sm_90")
    assert answer["compilations"] == [{"target": "sm_90", "error": error}]


def test_a_compiler_that_knows_thousands_of_architectures_is_not_believed(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="nvrtcGetNumSupportedArchs gives 0, 1000"):
        use(script, monkeypatch, StandIn(*range(1000)), "sm_90")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("libnvrtc.so.13", True),
        ("libnvrtc.so.12.4.127", True),
        ("libnvrtc-8b1e8d13.so.12", True),
        ("nvrtc64_130_0.dll", True),
        ("libnvrtc-builtins.so.13.2", False),
        ("nvrtc-builtins64_132.dll", False),
        ("libnvrtc.alt.so.13", False),
        ("libcaffe2_nvrtc.so", False),
    ],
)
def test_the_compiler_is_known_by_its_file_name(script: ModuleType, name: str, found: bool) -> None:
    assert script.find_loaded([f"/site/nvidia/{name}"]) == f"/site/nvidia/{name}" * found


def test_the_objects_of_a_package_say_what_it_has_machine_code_for() -> None:
    def code(kind: DeviceKind, architecture: str) -> DeviceCode:
        return DeviceCode(kind=kind, architecture=architecture, count=1, bytes=9, compressed=0)

    codes = (
        code(DeviceKind.SASS, "sm_100?"),
        code(DeviceKind.SASS, "sm_90a"),
        code(DeviceKind.PTX, "sm_120"),
    )
    item = elf_file("demo/lib.so", device_code=codes)
    assert list_machine_targets(wheel("demo-1.0-py3-none-any.whl", objects=(item,))) == (
        "sm_90",
        "sm_100",
    )


@pytest.mark.parametrize(
    ("start", "architecture"),
    [
        (head(90), "sm_90"),
        (head(121), "sm_121"),
        (head(75, abi=7), "sm_75"),
        (head(90, abi=9), ""),
        (head(90)[:-1], ""),
        (b"MZ" + head(90)[2:], ""),
        (head(90).replace(b"\xbe", b"\x3e"), ""),
    ],
)
def test_a_cubin_is_known_by_its_header(start: bytes, architecture: str) -> None:
    assert name_machine_code(start.hex()) == architecture
    assert name_machine_code("no number") == ""


LIBRARY = "/site/nvidia/libnvrtc.so.13"


@pytest.mark.parametrize(
    ("load", "answer"),
    [
        ("", {"lying": ["/site/nvidia/libnvrtc.so.13"]}),
        ("json.no", {"refusal": "AttributeError", "lying": ["/site/nvidia/libnvrtc.so.13"]}),
        ("json.mapped()", {"library": LIBRARY, "version": "13.2"}),
    ],
    ids=["not loaded", "refused", "loaded"],
)
def test_the_package_is_made_to_load_its_library(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, load: str, answer: dict[str, Any]
) -> None:
    mapped: list[str] = []
    monkeypatch.setattr("json.mapped", lambda: mapped.append(LIBRARY), raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: StandIn(90, cubin=head(90)))
    monkeypatch.setattr("os.walk", lambda _: [("/site/nvidia", [], ["libnvrtc.so.13", "a.py"])])
    process = {
        "list_mapped": lambda: mapped,
        "describe_exception": lambda error, _: type(error).__name__,
    }
    stages: list[str] = []
    record = SimpleNamespace(enter=lambda stage, _: stages.append(stage))
    asked = {"module": "json", "load": load, "targets": [], "site_packages": "/site"}
    found: dict[str, Any] = {}
    script.use_nvrtc(asked, found, record, process)
    assert {**found, **answer} == found
    assert stages[:2] == ["import json", *[load] * bool(load)]
    assert len(found["compilations"]) == ("library" in answer)


def ask(*said: ProbeAnswer, value: str | None = "13.2") -> tuple[NvrtcReport, Answering]:
    request = CudaRequest(
        module=Code("fake"), version=Code("fake.version"), architectures=Code("fake.flags")
    )
    answers = CudaReport(
        python="",
        answers=(
            Answer(question="fake.version", value=value),
            Answer(question="fake.flags", value="sm_80 compute_90"),
        ),
    )
    place = Answering(ProbeAnswer(answer={"stage": ""}), *said)
    return compile_kernels(place, wheel("fake-1.0-py3-none-any.whl"), request, answers), place


def test_what_the_package_reports_is_compiled_and_the_answers_are_read() -> None:
    rows = [{"target": "sm_80", "head": head(80).hex()}, {"target": "sm_90", "error": "wrong"}]
    told = {"library": LIBRARY, "version": "13.2", "supported": ["sm_80"], "compilations": rows}
    found, place = ask(ProbeAnswer(answer={"state": "finished", "stage": "", **told}))
    assert place.asked[1]["targets"] == found.reported == ("sm_80", "sm_90")
    assert found.step == Step(name="NVRTC")
    assert (found.library, found.version, found.supported) == (LIBRARY, "13.2", ("sm_80",))
    assert found.compilations == (
        Compilation(target="sm_80", made="sm_80"),
        Compilation(target="sm_90", error="wrong"),
    )


def test_a_library_that_is_not_loaded_or_does_not_come_back_is_told() -> None:
    stage = {"stage": "NVRTC's compilation for sm_80"}
    found, _ = ask(ProbeAnswer(answer=stage, outcome=Ending.CRASHED, detail="SIGABRT"))
    assert (found.step.outcome, found.stage) == (Ending.CRASHED, stage["stage"])
    told = {"state": "finished", "lying": [LIBRARY], "refusal": "OSError: no"}
    found, _ = ask(ProbeAnswer(answer=told))
    assert (found.library, found.unloaded, found.refusal) == ("", (LIBRARY,), "OSError: no")


def test_a_build_without_cuda_is_not_asked() -> None:
    with pytest.raises(NotApplicable, match="the build is not for CUDA"):
        ask(value=None)
