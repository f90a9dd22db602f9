"""NVIDIA's compilers and Triton are used on the CPU, and what they answer, or raise, is read."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from shutil import which
from struct import pack
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Answer,
    Claims,
    Code,
    Compilation,
    CudaReport,
    CudaRequest,
    DeviceCode,
    DeviceKind,
    Ending,
    ProbeAnswer,
    PtxLink,
    PtxLinkReport,
    PtxRequest,
    PtxText,
    PtxTexts,
    Wheel,
)
from binary_checks.probes.gpu_compilers.reader import (
    compile_kernels,
    compile_with_triton,
    find_kernel,
    link_all,
    link_ptx,
    list_machine_targets,
    name_machine_code,
    read_link,
)
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, FilledPlace, open_offline, within
from fixtures.values import elf_file, wheel
from tests.probes.gpu_answers import Answering, Record
from tests.probes.test_scripts import load


def head(architecture: int, abi: int = 8) -> bytes:
    """The start of a cubin, as ptxas of CUDA 13 writes it; ABI 7 is that of CUDA 12."""
    flags = architecture << 8 | 4 if abi == 8 else architecture | 0x500
    return b"\x7fELF\2\1\1\x41" + bytes([abi]) + bytes(7) + pack("<HHI24xI12x", 2, 190, 1, flags)


class Nvrtc:
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


@pytest.fixture
def use(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Compile with an NVRTC for targets."""

    def use(library: Nvrtc, *targets: str) -> dict[str, Any]:
        answer: dict[str, Any] = {"compilations": []}
        monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
        record = SimpleNamespace(enter=lambda *_: None)
        script.compile_kernels("libnvrtc.so.13", list(targets), record, answer)
        return answer

    return use


def test_a_kernel_is_compiled_for_each_target_that_is_known_or_for_all(use: Any) -> None:
    library = Nvrtc(75, 90, cubin=head(90) + b"rest")
    answer = use(library, "sm_50", "sm_90a")
    assert (answer["version"], answer["supported"]) == ("13.2", ["sm_75", "sm_90"])
    assert answer["compilations"] == [{"target": "sm_90a", "head": head(90).hex()}]
    answer = use(library)
    assert [each["target"] for each in answer["compilations"]] == ["sm_75", "sm_90"]


@pytest.mark.parametrize(
    ("library", "error"),
    [
        (Nvrtc(90, status=7, log="no\n  builtins"), "status 7: no builtins"),
        (Nvrtc(90, cubin=b""), "status 0: a cubin of 0 bytes"),
    ],
)  # fmt: skip
def test_an_error_is_told_in_the_compilers_words(use: Any, library: Nvrtc, error: str) -> None:
    answer = use(library, "sm_90")
    assert answer["compilations"] == [{"target": "sm_90", "error": error}]


def test_a_compiler_that_knows_thousands_of_architectures_is_not_believed(use: Any) -> None:
    with pytest.raises(ValueError, match="nvrtcGetNumSupportedArchs gives 0, 1000"):
        use(Nvrtc(*range(1000)), "sm_90")


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
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Nvrtc(90, cubin=head(90)))
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


def answer(outcome: Ending = Ending.OK, detail: str = "", **told: Any) -> ProbeAnswer:
    state = {"state": "finished"} if outcome is Ending.OK else {}
    return ProbeAnswer(answer={**state, "stage": "", **told}, outcome=outcome, detail=detail)


REQUEST = CudaRequest(
    module=Code("demo"), version=Code("demo.version"), architectures=Code("demo.flags")
)
Compile = Callable[..., Any]


def requiring(*requirements: str) -> Wheel:
    return wheel("demo-1.0-py3-none-any.whl", claims=Claims(requirements=requirements))


def ask(
    compile_: Compile, package: Wheel, *said: ProbeAnswer, version: str | None = "13.2"
) -> tuple[Any, Answering]:
    answers = CudaReport(
        python="",
        answers=(
            Answer(question="demo.version", value=version),
            Answer(question="demo.flags", value="sm_80 compute_120"),
        ),
    )
    place = Answering(answer(), *said)
    return compile_(place, package, REQUEST, answers), place


@pytest.mark.parametrize(
    ("compile_", "name", "list_"),
    [(compile_kernels, "NVRTC", "supported"), (compile_with_triton, "Triton", "unknown")],
)
def test_what_the_package_reports_is_compiled_and_the_answers_are_read(
    compile_: Compile, name: str, list_: str
) -> None:
    rows = [{"target": "sm_80", "head": head(80).hex()}, {"target": "sm_120", "error": "wrong"}]
    told = answer(library=LIBRARY, version="13.2", compilations=rows, **{list_: ["sm_80"]})
    found, place = ask(compile_, requiring("triton==3.9.0"), told)
    assert place.asked[1]["targets"] == found.reported == ("sm_80", "sm_120")
    assert (found.step.name, found.step.outcome) == (name, Ending.OK)
    assert (found.library, found.version, getattr(found, list_)) == (LIBRARY, "13.2", ("sm_80",))
    assert found.compilations == (
        Compilation(target="sm_80", made="sm_80"),
        Compilation(target="sm_120", error="wrong"),
    )


def test_a_library_that_is_not_loaded_or_does_not_come_back_is_told() -> None:
    stage = "NVRTC's compilation for sm_80"
    crash = answer(Ending.CRASHED, "SIGABRT", stage=stage)
    found, _ = ask(compile_kernels, requiring(), crash)
    assert (found.step.outcome, found.stage) == (Ending.CRASHED, stage)
    told = answer(lying=[LIBRARY], refusal="OSError: no")
    found, _ = ask(compile_kernels, requiring(), told)
    assert (found.library, found.unloaded, found.refusal) == ("", (LIBRARY,), "OSError: no")


@pytest.mark.parametrize("compile_", [compile_kernels, compile_with_triton])
def test_a_build_without_cuda_is_not_asked(compile_: Compile) -> None:
    with pytest.raises(NotApplicable, match="the build is not for CUDA"):
        ask(compile_, requiring("triton"), version=None)


@pytest.mark.parametrize(
    "requirements", [(), ("numpy",), ("triton; platform_system == 'Plan 9'",), ("triton-x",)]
)
def test_a_package_that_does_not_require_triton_is_not_asked(requirements: tuple[str]) -> None:
    with pytest.raises(NotApplicable, match="does not require Triton"):
        ask(compile_with_triton, requiring(*requirements))


# Triton, as its probe uses it.

UNKNOWN = "ptxas fatal   : Value 'sm_50' is not defined for option 'gpu-name'"


def put_triton(monkeypatch: pytest.MonkeyPatch, **errors: Exception) -> None:
    """A Triton that compiles for all but these targets."""

    def compile_source(source: Any, target: tuple[str, int, int]) -> Any:
        if (error := errors.get(f"sm_{target[1]}")) is not None:
            raise error
        return SimpleNamespace(asm={"cubin": head(target[1]) + b"more"})

    triton = ModuleType("triton")
    triton.__dict__.update(__version__="3.9.0", __file__="/site/triton/__init__.py")
    triton.__dict__.update(jit=lambda function: function, compile=compile_source)
    language, compiler = ModuleType("triton.language"), ModuleType("triton.compiler")
    backends, backend = ModuleType("triton.backends"), ModuleType("triton.backends.compiler")
    triton.__dict__.update(language=language)
    compiler.__dict__.update(ASTSource=lambda fn, signature: (fn, signature))
    backend.__dict__.update(GPUTarget=lambda *target: target)
    for module in (triton, language, compiler, backends, backend):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def run(monkeypatch: pytest.MonkeyPatch, *targets: str) -> Record:
    recorder = Record({"compiler": "Triton", "site_packages": "/site", "targets": targets})
    process = load(monkeypatch, "process")
    describe = lambda error, below: f"{type(error).__name__}: {error}"  # noqa: E731
    monkeypatch.setattr(process, "describe_exception", describe)
    process.answer_request(load(monkeypatch, "gpu_compilers").probe, recorder)
    return recorder


def test_triton_compiles_a_kernel_for_each_target(monkeypatch: pytest.MonkeyPatch) -> None:
    put_triton(monkeypatch)
    found = run(monkeypatch, "sm_80", "sm_90a")
    assert found.stages == [
        "import triton",
        "Triton's compilation for sm_80",
        "Triton's compilation for sm_90a",
    ]
    assert found.answer["version"] == "3.9.0"
    assert found.answer["compilations"] == [
        {"target": "sm_80", "head": head(80).hex()},
        {"target": "sm_90a", "head": head(90).hex()},
    ]


def test_an_error_for_one_target_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = RuntimeError("Cannot find ptxas\nRepro command: /tmp/x")
    put_triton(monkeypatch, sm_80=lost, sm_50=RuntimeError(UNKNOWN))
    found = run(monkeypatch, "sm_50", "sm_80", "sm_90").answer
    assert found["unknown"] == ["sm_50"]
    assert found["compilations"] == [
        {"target": "sm_80", "error": "RuntimeError: Cannot find ptxas\n"},
        {"target": "sm_90", "head": head(90).hex()},
    ]


def test_a_triton_that_cannot_be_imported_ends_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    found = run(monkeypatch, "sm_80")
    assert (found.answer["state"], found.answer["stage"]) == ("raised", "import triton")


# PTX of the package, which nvJitLink links.

KERNELS = b"""\
.version 6.3
.target sm_60
.visible .func (.param .b32 func_retval0) _Z3onev(
.param .b64 p
)
{
ret;
}
.visible .entry _Z3two(
)
{
shfl.idx.b32 %r1, %r2, 0, 31;
}
"""


def text(content: bytes = KERNELS, architecture: str = "sm_60") -> PtxText:
    return PtxText(
        path="demo/a.so", offset=64, architecture=architecture, version="6.3", content=content
    )


def read(target: str = "sm_90", **row: Any) -> PtxLink:
    return read_link(text(), {"target": target, **row})


def assembled(stage: str = "assemble", status: int = 4, **row: Any) -> PtxLink:
    return read(stage=stage, status=status, **row)


def test_machine_code_for_the_target_is_what_counts() -> None:
    assert read(head=head(90).hex()) == PtxLink(text=text(), target="sm_90", assembled=True)
    assert read("sm_90a", head=head(90).hex()).assembled
    assert read(head=head(80).hex()).lack == "nvJitLink returns machine code for sm_80"
    assert read(head="00" * 64).lack == "nvJitLink returns no machine code"


def test_an_error_of_the_assembler_is_a_refusal_with_its_line_and_kernel() -> None:
    log = (
        "ptxas application ptx input, line 12; error   : Instruction 'shfl' without '.sync'\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n"
    )
    found = assembled(log=log)
    assert (found.refusal, found.line) == ("Instruction 'shfl' without '.sync'", 12)
    assert (found.kernel, found.lack, found.assembled) == ("_Z3two", "", False)


def test_an_error_about_a_whole_kernel_has_no_line() -> None:
    found = assembled(log="ptxas error   : Entry function 'k' uses too much shared data\n")
    assert (found.refusal, found.line, found.kernel) == (
        "Entry function 'k' uses too much shared data",
        0,
        "",
    )


def test_a_kernel_that_asks_for_more_than_a_gpu_has_is_refused_at_the_link() -> None:
    log = (
        "error   : Undefined reference to 'f' in 'ptx'\n"
        "error   : Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)\n"
    )
    found = assembled("link", 6, log=log)
    assert found.refusal == (
        "Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)"
    )


@pytest.mark.parametrize(
    "log",
    [
        "ptxas fatal   : 'Compile only(-c)' requires PTX ISA .version 3.1 or later\n",
        "ptxas application ptx input, line 9; fatal   : Unsupported .version 9.9; current version"
        " is '9.5'\n",
        "ptxas fatal   : SM version specified by .target is higher than default SM version\n",
        "ptxas fatal   : Program with .target 'sm_90a' cannot be compiled to future architecture\n",
        "ptxas fatal   : PTX with .target 'sm_90a' cannot be compiled for architecture 'sm_90'\n",
        "ptxas fatal   : Memory allocation failure\n",
        "ERROR 1: bad input: does not match type NVJITLINK_INPUT_PTX\n",
        "",
    ],
)
def test_what_the_library_does_not_take_is_no_refusal(log: str) -> None:
    found = assembled(log=log)
    assert (found.refusal, found.assembled) == ("", False)
    assert found.lack.startswith("nvJitLink returns 4")


def test_names_that_another_text_defines_are_for_a_later_link() -> None:
    log = "error   : Undefined reference to 'nvshmemi_device_state_d' in 'ptx'\nERROR 9: complete\n"
    assert assembled("link", 6, log=log).assembled
    assert not assembled("link", 6, log="ERROR 9: complete\n").assembled
    needing = text(b".extern .func f();\n" + KERNELS)
    row = {"target": "sm_90", "stage": "link", "status": 6, "log": "ERROR 1: finish\n"}
    assert read_link(needing, row).assembled
    assert not assembled("cubin", 0, log="0 bytes").assembled


def test_the_kernel_of_a_line_is_the_last_that_begins_before_it() -> None:
    assert find_kernel(KERNELS, 7) == "_Z3onev"
    assert find_kernel(KERNELS, 12) == "_Z3two"
    assert find_kernel(KERNELS, 0) == ""
    assert find_kernel(KERNELS, 99) == "_Z3two"
    hostile = b".func (\n" * 200_000  # took minutes
    assert find_kernel(hostile + KERNELS, 200_007) == "_Z3onev"


FOUND = answer(library="/env/libnvJitLink.so.13", version="13.5", known=["sm_90", "sm_121"])


def done(*places: tuple[int, int]) -> list[dict[str, Any]]:
    return [
        {"text": index, "target": f"sm_{number}", "head": head(number).hex()}
        for index, number in places
    ]


def link(place: Answering, *texts: PtxText, **asked: Any) -> PtxLinkReport:
    sample = PtxTexts(texts=texts, found=len(texts))
    return link_all(place, PtxRequest(**asked), sample)


def test_each_text_is_linked_for_what_it_reaches_or_for_what_the_profile_names() -> None:
    place = Answering(FOUND, answer(links=done((0, 90), (0, 121), (1, 121))))
    found = link(place, text(), text(architecture="sm_120"), text(architecture="sm_130"))
    assert [row["targets"] for row in place.asked[1]["texts"]] == [("sm_90", "sm_121"), ("sm_121",)]
    assert [(each.target, each.assembled) for each in found.links] == [
        ("sm_90", True),
        ("sm_121", True),
        ("sm_121", True),
    ]
    assert (found.version, found.known) == ("13.5", ("sm_90", "sm_121"))
    assert [each.architecture for each in found.untried] == ["sm_130"]
    place = Answering(FOUND, answer(links=done((0, 121))))
    link(place, text(), targets=("sm_121", "sm_200"))
    assert place.asked[1]["texts"][0]["targets"] == ("sm_121",)


def test_after_a_crash_the_texts_behind_it_are_linked_all_the_same() -> None:
    crash = answer(Ending.CRASHED, "SIGSEGV", links=done((0, 90)), current=[0, "sm_121"])
    place = Answering(FOUND, crash, answer(links=done((0, 90), (0, 121))))
    found = link(place, text(b"first"), text(b"second"))
    assert [(each.text.content, each.target, each.lack) for each in found.links] == [
        (b"first", "sm_90", ""),
        (b"first", "sm_121", "nvJitLink crashes: SIGSEGV"),
        (b"second", "sm_90", ""),
        (b"second", "sm_121", ""),
    ]
    assert found.untried == ()


def test_after_a_hang_no_more_time_is_spent() -> None:
    hang = answer(Ending.HUNG, "60 s", links=[], current=[0, "sm_90"])
    found = link(Answering(FOUND, hang), text(b"first"), text(b"second"))
    assert [each.lack.partition(" (")[0] for each in found.links] == ["nvJitLink hangs: 60 s"]
    assert [each.content for each in found.untried] == [b"second"]


def test_after_some_crashes_the_rest_is_left() -> None:
    crash = answer(Ending.CRASHED, "SIGSEGV", current=[0, "sm_90"])
    found = link(Answering(FOUND, crash, crash, crash), *(text(bytes([n])) for n in range(5)))
    assert (len(found.links), len(found.untried)) == (3, 2)


@pytest.mark.parametrize("current", [None, "x", [7, "sm_90"], [0], [[], ""]])
def test_a_process_that_lies_about_its_work_is_blamed_for_the_first_text(current: object) -> None:
    rows = [{"text": 9}, {"text": "0"}, 5, {"text": None}]
    crash = answer(Ending.CRASHED, "SIGSEGV", links=rows, current=current)
    (found,) = link(Answering(FOUND, crash), text()).links
    assert (found.target, found.lack) == ("sm_90", "nvJitLink crashes: SIGSEGV")


def test_a_text_is_told_by_any_number_that_names_it() -> None:
    row = {"text": 0.0, "target": "sm_90", "head": head(90).hex()}
    (found,) = link(Answering(FOUND, answer(links=[row])), text()).links
    assert found.assembled


def test_texts_that_are_not_answered_for_are_untried() -> None:
    """A library that runs in the probe's own process may have written its end."""
    found = link(Answering(FOUND, answer(links=done((0, 90)))), text(b"first"), text(b"second"))
    assert [each.text.content for each in found.links] == [b"first"]
    assert [each.content for each in found.untried] == [b"second"]


def test_a_library_that_crashes_at_its_start_links_nothing() -> None:
    place = Answering(answer(Ending.CRASHED, "SIGILL", library="/env/libnvJitLink.so.13"))
    found = link(place, text())
    assert (found.step.outcome, found.links) == (Ending.CRASHED, ())
    assert len(found.untried) == 1


def test_without_the_library_nothing_is_asked() -> None:
    with pytest.raises(NotApplicable, match="its environment has no nvJitLink"):
        link(Answering(answer(library="")), text())


SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NAME(name) __nvJitLink##name##_13_1
struct link { char arch[16]; int garbage; };
int NAME(Create)(struct link **h, unsigned n, const char **o) {
  if (strstr(o[0], "=sm_90") != o[0] + 5 && strcmp(o[0], "-arch=sm_121")) return 16;
  *h = calloc(1, sizeof **h);
  strcpy((*h)->arch, o[0] + strlen("-arch=sm_"));
  return 0;
}
int NAME(Destroy)(struct link **h) { free(*h); return 0; }
int NAME(AddData)(struct link *h, int type, const char *text, size_t size, const char *name) {
  if (type != 2 || strlen(text) + 1 != size) return 3;
  if (strstr(text, "HANG")) for (;;) pause();
  if (strstr(text, "CRASH")) abort();
  h->garbage = !!strstr(text, "GARBAGE");
  return strstr(text, "WRONG") ? 4 : 0;
}
static const char log_[] = "ptxas application ptx input, line 1; error   : no\\n";
int NAME(GetErrorLogSize)(void *h, size_t *n) { *n = sizeof log_; return 0; }
int NAME(GetErrorLog)(void *h, char *log) { strcpy(log, log_); return 0; }
int NAME(Complete)(void *h) { return 0; }
int NAME(GetLinkedCubinSize)(void *h, size_t *n) { *n = 64; return 0; }
int NAME(GetLinkedCubin)(struct link *h, char *cubin) {
  static const char start[] = "\\x7f" "ELF\\2\\1\\1\\x41\\x08";
  memset(cubin, 0, 64);
  if (h->garbage) return 0;
  memcpy(cubin, start, 9);
  cubin[18] = (char) 190;
  cubin[49] = (char) atoi(h->arch);
  return 0;
}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    folder = tmp_path_factory.mktemp("nvjitlink")
    (folder / "link.c").write_text(SOURCE, encoding="utf-8")
    library = folder / "libnvJitLink.so.13"
    subprocess.run(("gcc", "-shared", "-fPIC", "-w", "-o", library, folder / "link.c"), check=True)
    members = {"nvidia/lib/libnvJitLink.so.13": library.read_bytes(), "fake.py": ""}
    path = build_wheel(folder, name="fake", tags=PURE, members=members)
    with open_offline(path) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not which("gcc"), reason="needs gcc on Linux")
class TestALibraryThatWasBuilt:
    def link(self, environment: FilledPlace, contents: Sequence[bytes]) -> PtxLinkReport:
        texts = tuple(text(content) for content in contents)
        sample = PtxTexts(texts=texts, found=len(texts))
        return link_ptx(environment, environment.wheel, PtxRequest(), sample)

    def test_links_refuses_or_returns_garbage_for_the_targets_that_it_knows(
        self, environment: FilledPlace
    ) -> None:
        found = self.link(environment, [KERNELS, KERNELS * 20_000])
        assert (found.step.outcome, found.version) == (Ending.OK, "13.1")
        assert found.library == "nvidia/lib/libnvJitLink.so.13"
        assert found.known == ("sm_90", "sm_121")
        assert [each.assembled for each in found.links] == [True] * 4
        found = self.link(environment, [b"WRONG", b"GARBAGE"])
        assert [(each.refusal, each.lack) for each in found.links] == [
            *[("no", "")] * 2,
            *[("", "nvJitLink returns no machine code")] * 2,
        ]

    def test_crashes_or_hangs(self, environment: FilledPlace) -> None:
        found = self.link(within(environment, 5), [b"CRASH", KERNELS, b"HANG", KERNELS])
        crashed, first, second, hung = (each.lack for each in found.links)
        assert crashed.startswith("nvJitLink crashes: SIGABRT")
        assert hung.startswith("nvJitLink hangs: 5 s")
        assert (first, second) == ("", "")
        assert [each.content for each in found.untried] == [KERNELS]
