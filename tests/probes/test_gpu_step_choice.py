"""Which steps for torch there are, how long each may take, and which of them a run takes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, ProfileError
from binary_checks.model import ProbeAnswer
from binary_checks.places.running import run_probe
from binary_checks.probes.gpu_torch.reader import GpuStep, choose_steps, read_steps


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
