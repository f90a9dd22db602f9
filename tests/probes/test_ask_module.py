"""A package with an API for CUDA is run where there is none, whatever it does then."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from ctypes.util import find_library
from dataclasses import replace

import pytest

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import (
    Answer,
    Code,
    CudaReport,
    CudaRequest,
    Ending,
    GpuRequest,
    LibraryVersions,
    Step,
)
from binary_checks.places import FreshPlace, PlaceSettings
from binary_checks.places.processes import explain_missing_stack
from binary_checks.probes.ask_module.reader import ask_without_gpu
from binary_checks.probes.gpu_torch.reader import require_gpu, use_gpu
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON, FilledPlace, open_offline, within

posix = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="stacks are read on Linux")
bare = pytest.mark.skipif(bool(find_library("cuda")), reason="this host has a driver")

HONEST = """
import os
version = "12.6"
built_with = (9, 1, 0)
def available(): return False
def flags(): return ["sm_80", "compute_90"]
def visible(): return os.environ.get("CUDA_VISIBLE_DEVICES", "all")
def paths(): return [name for name in os.environ if "CUDA" in name or name == "LD_LIBRARY_PATH"]
def use(): raise RuntimeError("Found no NVIDIA driver on your system.")
"""
MODULES = {
    "honest": HONEST,
    "crashes": "import os\ndef available(): os.abort()\n",
    "hangs_below": "import ctypes\ndef wait():\n    ctypes.CDLL(None).pause()\nwait()\n",
    "hangs": "import time\ndef wait():\n    time.sleep(600)\ndef start():\n    wait()\nstart()\n",
    "raises": "raise OSError('libcuda.so.1: cannot open shared object file')\n",
    "leaves": "import sys\nsys.exit(3)\n",
    "ends_badly": "import atexit, os\natexit.register(os._exit, 5)\n",
    "odd": "class Odd:\n    pass\ndef available(): return Odd\n",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    folder = tmp_path_factory.mktemp("cuda")
    members = {f"{name}.py": text for name, text in MODULES.items()}
    with open_offline(build_wheel(folder, name="fake", tags=PURE, members=members)) as opened:
        yield opened


def ask(
    environment: FilledPlace, module: str, *questions: str, snippet: str = "", timeout: float = 60
) -> CudaReport:
    told = dict(zip(("available", "devices"), questions, strict=False))
    request = CudaRequest(module=Code(module), snippet=Code(snippet), **told)
    return ask_without_gpu(within(environment, timeout), environment.wheel, request)


def test_each_question_is_answered_with_a_value_or_an_exception(environment: FilledPlace) -> None:
    found = ask(environment, "honest", "honest.available()", "honest.use()")
    assert (found.step.outcome, found.stage) == (Ending.OK, "")
    assert found.answers == (
        Answer(question="honest.available()", value=False),
        Answer(
            question="honest.use()", error="RuntimeError: Found no NVIDIA driver on your system."
        ),
    )


def test_nvidias_libraries_are_asked_unless_the_build_is_for_no_cuda(
    environment: FilledPlace,
) -> None:
    request = CudaRequest(
        module=Code("honest"),
        version=Code("honest.version"),
        parts={"fft": Code("honest.available()")},
        compiled={"cudnn": Code("honest.built_with")},
    )
    found = ask_without_gpu(environment, environment.wheel, request)
    assert [each.question for each in found.answers] == ["honest.version", "honest.available()"]
    assert found.versions == (LibraryVersions(name="cudnn", compiled="9.1.0"),)
    assert found.versions_step == Step(name="versions", libraries=None)
    request = replace(request, version=Code("honest.available()"))
    found = ask_without_gpu(environment, environment.wheel, request)
    assert (found.versions, found.versions_step) == ((), None)


def test_gpus_and_the_users_cuda_are_hidden(
    environment: FilledPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "/usr/local/cuda")
    found = ask(environment, "honest", "honest.visible()", "honest.paths()")
    assert [each.value for each in found.answers] == ["", ("CUDA_VISIBLE_DEVICES",)]


@pytest.mark.parametrize(
    ("module", "outcome", "detail"),
    [
        (
            "raises",
            Ending.RAISED,
            "OSError: libcuda.so.1: cannot open shared object file (raises.py:1)",
        ),
        ("leaves", Ending.EXITED, "SystemExit(3)"),
    ],
)
def test_an_import_that_fails_is_told_with_its_stage(
    environment: FilledPlace, module: str, outcome: Ending, detail: str
) -> None:
    found = ask(environment, module, "1 + 1")
    assert (found.step.outcome, found.step.detail) == (outcome, detail)
    assert (found.stage, found.answers) == (f"import {module}", ())


@posix
def test_a_crash_is_told_with_the_question_that_brought_it(environment: FilledPlace) -> None:
    found = ask(environment, "crashes", "1 + 1", "crashes.available()")
    assert (found.step.outcome, found.stage) == (Ending.CRASHED, "crashes.available()")
    assert found.step.detail == "SIGABRT at crashes.py:2 in available"
    assert found.answers == (Answer(question="1 + 1", value=2),)


@posix
def test_a_hang_is_told_with_the_calls_that_led_there(environment: FilledPlace) -> None:
    step = ask(environment, "hangs", timeout=2).step
    assert step.outcome is Ending.HUNG
    python = step.detail.partition(", in native code")[0].partition(" (")[0]
    assert python == "2 s at hangs.py:3 in wait < hangs.py:5 in start < hangs.py:6 in <module>"


@linux
@pytest.mark.skipif(not shutil.which("gdb"), reason="needs a debugger")
@pytest.mark.slow
def test_a_hang_in_native_code_is_told_with_both_stacks(environment: FilledPlace) -> None:
    detail = ask(environment, "hangs_below", timeout=4).step.detail
    python, _, native = detail.partition(", in native code at ")
    assert python == "4 s at hangs_below.py:3 in wait < hangs_below.py:4 in <module>"
    assert re.match(r"\S*pause < ", native)


@linux
@pytest.mark.slow
def test_without_a_debugger_a_hang_is_told_with_what_to_install(
    environment: FilledPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    detail = ask(environment, "hangs_below", timeout=4).step.detail
    python, _, rest = detail.partition(" (")
    assert python == "4 s at hangs_below.py:3 in wait < hangs_below.py:4 in <module>"
    assert rest == "for the native stack install gdb, or eu-stack of elfutils)"


def test_what_no_debugger_was_let_see_is_told() -> None:
    assert "native stack" in explain_missing_stack()


def test_a_bad_end_after_the_last_answer_is_told_apart(environment: FilledPlace) -> None:
    found = ask(environment, "ends_badly", "1 + 1")
    assert (found.step.outcome, found.step.finished) == (Ending.EXITED, True)
    assert len(found.answers) == 1


def test_a_snippet_runs_and_its_failure_is_told(environment: FilledPlace) -> None:
    assert ask(environment, "honest", snippet="assert honest.version").step.detail == ""
    found = ask(environment, "honest", snippet="import json\nassert not honest.version")
    assert (found.step.outcome, found.stage) == (Ending.RAISED, "the snippet")


def test_what_json_cannot_hold_is_answered_as_a_text(environment: FilledPlace) -> None:
    (answer,) = ask(environment, "odd", "odd.available()").answers
    assert answer.value == "<class 'odd.Odd'>"


def test_a_profile_that_names_no_module_has_nothing_asked(environment: FilledPlace) -> None:
    with pytest.raises(NotApplicable, match=r"\[probes.cuda\] module"):
        ask_without_gpu(environment, environment.wheel, CudaRequest())
    with pytest.raises(NotApplicable, match=r"\[probes.gpu\] module"):
        use_gpu(environment, environment.wheel, GpuRequest(), CudaRequest())


@bare
def test_a_host_without_a_driver_is_unavailable_before_anything_is_installed(
    environment: FilledPlace,
) -> None:
    with pytest.raises(Unavailable, match="no NVIDIA driver on this host"):
        require_gpu(FreshPlace(PlaceSettings(python=PYTHON, timeout=60)))
    host = ask(environment, "honest").host
    assert (host.library, host.devices) == ("", ())
