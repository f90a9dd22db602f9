"""An NVRTC of a package compiles on the CPU, or says why not, whatever it does then."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from shutil import which
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
    Step,
)
from binary_checks.probes.gpu_compilers.reader import (
    compile_kernels,
    list_machine_targets,
    name_machine_code,
)
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, FilledPlace, open_offline, within
from fixtures.values import elf_file, wheel
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


SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
const char *nvrtcGetErrorString(int e) { return e ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS"; }
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 2; return 0; }
int nvrtcGetNumSupportedArchs(int *n) { *n = 2; return 0; }
int nvrtcGetSupportedArchs(int *a) { a[0] = 80; a[1] = 90; return 0; }
static char asked[80];
int nvrtcCreateProgram(void **p, const char *s, const char *n, int k, void *h, void *i) {
  return *p = asked, 0;
}
int nvrtcGetProgramLogSize(void *p, size_t *n) { *n = 6; return 0; }
int nvrtcGetProgramLog(void *p, char *log) { strcpy(log, "wrong"); return 0; }
int nvrtcCompileProgram(void *p, int n, const char **o) {
  strcpy(asked, o[0] + strlen("--gpu-architecture=sm_"));
  const char *how = getenv("HOW") ? getenv("HOW") : "";
  if (!strcmp(how, "hangs")) for (;;) pause();
  if (!strcmp(how, "crashes")) abort();
  if (!strcmp(how, "leaves")) _exit(0);
  return !strcmp(how, "refuses") && !strcmp(asked, "90") ? 6 : 0;
}
int nvrtcGetCUBINSize(void *p, size_t *n) { *n = 64; return 0; }
int nvrtcGetCUBIN(void *p, char *cubin) {
  static const char start[] = "\\x7f" "ELF\\2\\1\\1\\x41\\x08";
  memset(cubin, 0, 64);
  if (getenv("HOW") && !strcmp(getenv("HOW"), "garbage")) return 0;
  memcpy(cubin, start, 9);
  cubin[18] = (char) 190;
  cubin[49] = (char) atoi(asked);
  return 0;
}
"""
MODULE = """
import ctypes, os
path = os.path.join(os.path.dirname(__file__), "lib", "libnvrtc.so.13")
version = "13.2"
def behave(how):
    os.environ["HOW"] = how
    ctypes.CDLL(None).setenv(b"HOW", how.encode(), 1)
    ctypes.CDLL(path)
def refuse():
    raise OSError("libnvrtc.so.13: cannot open shared object file")
"""
compiled = pytest.mark.skipif(
    sys.platform != "linux" or not which("gcc"), reason="needs a C compiler on Linux"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    folder = tmp_path_factory.mktemp("nvrtc")
    (folder / "nvrtc.c").write_text(SOURCE, encoding="utf-8")
    library = folder / "libnvrtc.so.13"
    subprocess.run(("gcc", "-shared", "-fPIC", "-w", "-o", library, folder / "nvrtc.c"), check=True)
    members = {"fake/__init__.py": MODULE, "fake/lib/libnvrtc.so.13": library.read_bytes()}
    path = build_wheel(folder, name="fake", tags=PURE, members=members)
    with open_offline(path) as opened:
        yield opened


def ask(environment: FilledPlace, how: str, *, value: object = "13.2") -> NvrtcReport:
    load = f"fake.behave({how!r})" if how else ""
    request = CudaRequest(
        module=Code("fake"),
        nvrtc=Code("fake.refuse()" if how == "absent" else load),
        version=Code("fake.version"),
        architectures=Code("fake.flags"),
    )
    answers = CudaReport(
        python="",
        answers=(
            Answer(question="fake.version", value=value),  # type: ignore[arg-type]
            Answer(question="fake.flags", value="sm_80 compute_90"),
        ),
    )
    return compile_kernels(environment, environment.wheel, request, answers)


@pytest.mark.slow
@compiled
class TestALibraryThatWasBuilt:
    def test_compiles_what_the_package_reports(self, environment: FilledPlace) -> None:
        found = ask(environment, "well")
        assert found.step == Step(name="NVRTC")
        assert (found.library, found.version) == ("fake/lib/libnvrtc.so.13", "13.2")
        assert found.reported == found.supported == ("sm_80", "sm_90")
        assert found.compilations == (
            Compilation(target="sm_80", made="sm_80"),
            Compilation(target="sm_90", made="sm_90"),
        )

    def test_refuses_one_architecture(self, environment: FilledPlace) -> None:
        assert ask(environment, "refuses").compilations == (
            Compilation(target="sm_80", made="sm_80"),
            Compilation(target="sm_90", error="NVRTC_ERROR_COMPILATION: wrong"),
        )

    def test_returns_what_is_no_cubin(self, environment: FilledPlace) -> None:
        made = [each.made for each in ask(environment, "garbage").compilations]
        assert made == ["", ""]

    @pytest.mark.parametrize(
        ("how", "outcome", "detail"),
        [
            ("hangs", Ending.HUNG, "4 s"),
            ("crashes", Ending.CRASHED, "SIGABRT"),
            ("leaves", Ending.EXITED, "exit status 0"),
        ],
    )
    def test_does_not_come_back(
        self, environment: FilledPlace, how: str, outcome: Ending, detail: str
    ) -> None:
        found = ask(within(environment, 4), how)
        assert found.step.outcome is outcome
        assert found.step.detail.startswith(detail)
        assert (found.stage, found.compilations) == ("NVRTC's compilation for sm_80", ())

    def test_is_not_loaded(self, environment: FilledPlace) -> None:
        found = ask(environment, "")
        assert (found.library, found.unloaded) == ("", ("fake/lib/libnvrtc.so.13",))
        found = ask(environment, "absent")
        assert found.refusal == (
            "OSError: libnvrtc.so.13: cannot open shared object file (fake/__init__.py:10)"
        )

    def test_is_not_asked_for_a_build_without_cuda(self, environment: FilledPlace) -> None:
        with pytest.raises(NotApplicable, match="the build is not for CUDA"):
            ask(environment, "well", value=None)
