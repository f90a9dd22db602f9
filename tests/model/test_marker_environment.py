"""Environment markers are those of the target; without a known Python they are of 3.12."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.markers import default_environment

from binary_checks.model import Interpreter, TargetPython, TargetSystem
from binary_checks.model.requires_dist import environment_of


def test_the_python_of_the_target_counts_and_without_one_3_12() -> None:
    found = environment_of(TargetSystem(name="manylinux_2_17_x86_64"))
    assert (found["python_version"], found["python_full_version"]) == ("3.12", "3.12.0")
    python = Interpreter(
        implementation="cpython", version=(3, 9), free_threaded=False, exports=frozenset()
    )
    both = ("aarch64", "x86_64")
    target = TargetSystem(name="", system="macos", architectures=both, interpreter=python)
    found = environment_of(target)
    assert (found["python_version"], found["platform_machine"]) == ("3.9", "arm64")


@pytest.mark.parametrize(
    ("system", "platform"),
    [("android", "android"), ("ios", "ios"), ("emscripten", "emscripten"), ("windows", "win32")],
)
def test_each_system_has_its_own_name(system: str, platform: str) -> None:
    assert environment_of(TargetSystem(name="demo", system=system))["sys_platform"] == platform


@pytest.mark.parametrize(
    ("platform", "system"), [("linux-s390x", "linux"), ("emscripten_4_0_9_wasm32", "emscripten")]
)
def test_another_system_than_this_host_has_its_own_markers(platform: str, system: str) -> None:
    known = {"executable": Path("python"), "version": "3.12.1", "paths": {}, "platform": platform}
    there = TargetPython(**known, architecture="s390x", system="image demo").markers
    assert (there["sys_platform"], there["platform_machine"]) == (system, "s390x")
    here, ours = TargetPython(**known, architecture="s390x").markers, default_environment()
    assert here["platform_machine"] == ours["platform_machine"]
    assert here["python_version"] == there["python_version"] == "3.12"
