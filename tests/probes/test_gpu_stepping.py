"""Steps on a GPU are taken by the real probe, of a torch that has a device only in name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binary_checks.errors import GatherError, ProfileError
from binary_checks.model import Conditions, Ending, ProbeAnswer
from binary_checks.places.running import run_probe
from binary_checks.probes.answers import read_step
from binary_checks.probes.gpu_torch.reader import GpuStep, choose_steps, read_steps, take_steps
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, FilledPlace, open_offline

TORCH = """
import atexit, os, time
from types import SimpleNamespace as Names

FAULT = os.environ.get("FAULT", "")
if FAULT == "import":
    raise ImportError("libcudart.so.13: cannot open shared object file")
if FAULT == "crash at the end":
    atexit.register(os.abort)
GIB = 1 << 30
free = 10 * GIB
float32 = "float32"
manual_seed = print
backends = Names(cuda=Names(matmul=Names()), cudnn=Names())


class Tensor:
    def __init__(self, size, value):
        self.size, self.value = size, value

    def __add__(self, other):
        return Tensor(self.size, self.value + other)

    def __getitem__(self, index):
        return self.value

    def __del__(self):
        global free
        if self.size * 4 == GIB and FAULT != "leak":
            free += GIB

    def to(self, place):
        return self

    def sum(self):
        return self.size * self.value


def ones(size, device, dtype=None):
    global free
    if FAULT == "hang":
        time.sleep(1000)
    if FAULT == "crash":
        os.abort()
    if FAULT == "hang in memory" and size * 4 == GIB:
        time.sleep(1000)
    free -= GIB if size * 4 == GIB else 0
    return Tensor(size, 1.5 if FAULT == "wrong" else 1.0)


def eye(size, device):
    if FAULT != "silent":
        raise RuntimeError("CUDA error: invalid device ordinal")


cuda = Names(
    device_count=lambda: 2,
    empty_cache=lambda: None,
    get_device_properties=lambda index: Names(is_integrated=0),
    mem_get_info=lambda: (free, 80 * GIB),
    memory_allocated=lambda: 0,
    memory_reserved=lambda: 512 if FAULT == "keep" else 0,
    synchronize=lambda: time.sleep(1000 if FAULT == "hang in wait" else 0),
)
_C = Names(_cuda_getDeviceCount=lambda: 2)
"""
STEPS = ("first_kernel", "memory", "every_device", "absent_device")
DONE = dict.fromkeys(STEPS, "ok")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    folder = tmp_path_factory.mktemp("torch")
    members = {"torch/__init__.py": TORCH}
    with open_offline(build_wheel(folder, name="torch", tags=PURE, members=members)) as opened:
        yield opened


def take(
    environment: FilledPlace, fault: str = "", bound: float = 30
) -> dict[str, ProbeAnswer | str]:
    def run(request: Mapping[str, object], stages: Mapping[str, float]) -> ProbeAnswer:
        conditions = Conditions(variables={"FAULT": fault}, stages=stages)
        return environment.run("gpu_torch", request, timeout=60, conditions=conditions)

    return dict(take_steps(run, [GpuStep(name=name, bound=bound) for name in STEPS], 60))


def ends(taken: dict[str, ProbeAnswer | str]) -> dict[str, str]:
    """How each ended: the text of an exception, how the process ended, or why it was not tried."""
    found = {}
    for name, end in taken.items():
        if isinstance(end, str):
            found[name] = end
        elif end.outcome is not Ending.OK:
            found[name] = end.outcome.value
        else:
            found[name] = str(end.answer.get("detail", "ok"))
    return found


def answer_of(end: ProbeAnswer | str) -> ProbeAnswer:
    assert isinstance(end, ProbeAnswer)
    return end


def figures(taken: dict[str, ProbeAnswer | str], name: str) -> dict[str, float]:
    measured = answer_of(taken[name]).answer["measured"]
    return {key: value for key, value in measured.items() if key != "seconds"}


def test_sound_steps_give_their_figures(environment: FilledPlace) -> None:
    taken = take(environment)
    assert ends(taken) == DONE
    assert figures(taken, "every_device") == {"devices": 2, "devices announced": 2}
    assert figures(taken, "memory") == {
        "bytes kept": 0,
        "bytes returned": 1 << 30,
        "bytes drifted": 0,
        "bytes total": 80 << 30,
        "integrated": 0,
    }


@pytest.mark.parametrize(
    ("fault", "figure", "value"),
    [("leak", "bytes returned", 0), ("keep", "bytes kept", 512)],
)
def test_memory_that_does_not_return_is_measured(
    environment: FilledPlace, fault: str, figure: str, value: float
) -> None:
    assert figures(take(environment, fault), "memory")[figure] == value


def test_a_wrong_result_ends_a_process_and_the_others_are_taken(environment: FilledPlace) -> None:
    assert ends(take(environment, "wrong")) == {
        "first_kernel": "AssertionError",
        "memory": "AssertionError",
        "every_device": "AssertionError: cuda:0",
        "absent_device": "AssertionError",
    }
    silent = (
        "AssertionError: expected RuntimeError with 'invalid device ordinal', "
        "but nothing was raised"
    )
    assert ends(take(environment, "silent")) == {**DONE, "absent_device": silent}


def test_a_first_kernel_that_hangs_ends_the_stage_at_its_own_bound(
    environment: FilledPlace,
) -> None:
    for fault in ("hang", "hang in wait"):
        taken = take(environment, fault, bound=0.5)
        reason = "it was not tried: first_kernel hangs"
        assert ends(taken) == {"first_kernel": "hung", **dict.fromkeys(STEPS[1:], reason)}
        assert answer_of(taken["first_kernel"]).detail == "0.5 s"


def test_another_step_that_hangs_costs_its_bound_alone(environment: FilledPlace) -> None:
    assert ends(take(environment, "hang in memory", bound=0.5)) == {**DONE, "memory": "hung"}


def test_a_step_that_crashes_is_named(environment: FilledPlace) -> None:
    assert ends(take(environment, "crash")) == {
        **dict.fromkeys(STEPS[:3], "crashed"),
        "absent_device": "crashed",  # it ends with a kernel
    }


@pytest.fixture
def lack(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Say why torch.compile cannot be tried, on a host with these programs and modules."""
    path = Path(str(files("binary_checks.probes"))) / "gpu_torch/steps.py"
    names: dict[str, Any] = {"__name__": "steps"}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)

    def lack(*there: str, system: str = "posix", on_cpu: bool = False) -> dict[str, str]:
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setattr("shutil.which", lambda name: name if name in there else None)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: name in there or None)
        monkeypatch.setitem(names, "os", SimpleNamespace(**{**vars(os), "name": system}))
        monkeypatch.setattr("sysconfig.get_path", lambda name: str(path.parent))
        monkeypatch.setattr("os.path.exists", lambda path: "Python.h" in there)
        found: dict[str, str] = names["find_lack"](SimpleNamespace(on_cpu=on_cpu))
        return found

    return lack


def test_where_nothing_can_be_compiled_the_reason_is_told(lack: Any) -> None:
    without_triton = "torch.compile for a GPU needs triton, which is not installed"
    assert lack("gcc", "Python.h") == {"inapplicable": without_triton}
    assert lack(system="nt") == {"inapplicable": without_triton}
    assert lack("triton", "cc", "Python.h") == {  # Triton does not look for cc
        "unavailable": "torch.compile needs a C compiler (gcc or clang, or CC), and there is none"
    }
    assert lack("triton", "clang") == {
        "unavailable": "torch.compile needs Python.h, and this interpreter has none"
    }
    assert lack("triton", "clang", "Python.h") == {}
    assert lack("triton", system="nt") == {}  # where Triton brings its own compiler
    assert lack("g++", "Python.h", on_cpu=True) == {}


def test_a_process_that_crashes_after_its_steps_is_told(environment: FilledPlace) -> None:
    together = "the process of first_kernel to absent_device"
    taken = take(environment, "crash at the end")
    assert ends(taken) == {**DONE, together: "crashed"}
    step = read_step(together, answer_of(taken[together]), environment)
    assert (step.finished, step.outcome) == (True, Ending.CRASHED)


def test_a_torch_that_cannot_be_imported_is_told_once(environment: FilledPlace) -> None:
    reason = "it was not tried: torch cannot be imported on this host"
    found = ends(take(environment, "import"))
    assert found.pop("first_kernel").startswith("ImportError: libcudart.so.13: cannot open shared")
    assert found == dict.fromkeys(STEPS[1:], reason)


# Which steps there are, how long each may take, and which of them a run takes.


@pytest.fixture(scope="module")
def listed() -> tuple[GpuStep, ...]:
    """What the script lists, in an interpreter without torch."""
    return read_steps(run_probe(Path(sys.executable), "gpu_torch", {"list": True}, timeout=60))


def names(steps: Iterable[GpuStep]) -> set[str]:
    return {each.name for each in steps}


def test_a_step_is_left_out_by_its_name(listed: tuple[GpuStep, ...]) -> None:
    assert names(listed) - names(choose_steps(listed, ("magma",), thorough=True)) == {"magma"}
    with pytest.raises(ProfileError, match="leave_out: no step 'magna'"):
        choose_steps(listed, ("magna",), thorough=False)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        "x",
        [5],
        [{"no": 1}],
        [{"name": "x"}],
        [{"name": "svd", "bound": 1e12}],
        [{"name": "svd", "bound": float("nan")}],
        [{"name": "svd", "bound": "60"}],
        [{"name": [], "bound": 60}],
        [{"name": "svd", "bound": 60, "more": 1}],
    ],
)
def test_a_list_that_is_not_the_scripts_is_no_list(steps: list[object]) -> None:
    """A file of the package that starts with the interpreter may answer in its place."""
    with pytest.raises(GatherError, match="cannot be listed: the script's answer"):
        read_steps(ProbeAnswer(answer={"steps": steps}))


def test_the_default_steps_take_little_more_than_a_minute(listed: tuple[GpuStep, ...]) -> None:
    """Each step that has a process of its own imports torch once more."""
    steps = choose_steps(listed, (), thorough=False)
    processes = 1 + sum(each.alone for each in steps)
    assert sum(each.expected for each in steps) + 5 * (processes - 1) <= 66
    assert all(each.expected * 5 <= each.bound <= 120 for each in steps)


def test_the_page_on_torch_tells_the_seconds_of_each_step(listed: tuple[GpuStep, ...]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| ([\d.]+) \| (\d+) \|$", page, re.MULTILINE)
    told = [(each.name, f"{each.expected:g}", f"{each.bound:g}") for each in listed]
    assert sorted(rows) == sorted(told)


def test_a_thorough_run_takes_the_long_steps_too(listed: tuple[GpuStep, ...]) -> None:
    default = choose_steps(listed, (), thorough=False)
    longer = [each for each in choose_steps(listed, (), thorough=True) if each not in default]
    assert names(longer) == {"gds", "max_autotune", "torchvision", "torchaudio"}
    assert all(each.bound <= 300 and each.alone for each in longer)
