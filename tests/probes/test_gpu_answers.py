"""All that a GPU host may answer, sound and unsound, judged by every check of the family gpu.

The answers are put in where the probes' processes would write them; the package is installed by
hand, its facts come from its wheel.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from binary_checks.declaring import find_checks
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.examination.facts import Facts
from binary_checks.examination.judging import judge_case, prepare
from binary_checks.gather.companions import Companions
from binary_checks.model import NotInspected, Outcome
from binary_checks.places import running as run
from binary_checks.places.processes import ProcessResult
from binary_checks.profile import load_profile, validate
from binary_checks.sources.installed import Installation
from binary_checks.wording.problem_lines import finding_line, problem_lines
from fixtures.build_wheel import build_wheel
from fixtures.environments import running
from fixtures.gpu.answers import SOUND, StandIn, change
from fixtures.installation import install_by_hand

CHECKS = [check for check in find_checks([]) if check.family == "gpu"]
REQUIRES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SOUND, ()),
    "torch": ("nvidia-cudnn-cu13==9.26.0.51", "nvidia-nccl-cu13==2.30.7"),
}
STEPS = {name: [each for each in SOUND[name] if SOUND[name][each].get("state")] for name in SOUND}
FIGURES = [
    (profile, step, figure)
    for profile, answers in SOUND.items()
    for step in STEPS[profile]
    for figure in answers[step].get("measured", ())
]

read_profile = cache(lambda name: validate(load_profile(name), find_checks([])))
UNJUDGED = {"bytes total", "bytes drifted", "integrated"}  # what the host is like, and no fault


@pytest.fixture(scope="module", params=sorted(SOUND))
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def installations(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Installation]:
    found = {}
    for name, requires in REQUIRES.items():
        folder = tmp_path_factory.mktemp(name)
        members = {f"{name}/__init__.py": ""}
        wheel = build_wheel(folder, name=name, members=members, requires=requires)
        found[name] = install_by_hand(wheel, folder / "env")
    return found


@pytest.fixture(scope="module")
def probes() -> dict[str, Any]:
    """What the real probes answer that need neither a GPU nor the package, each asked once."""

    def ask(name: str, request: dict[str, Any]) -> dict[str, Any]:
        return dict(run.run_probe(Path(sys.executable), name, request, timeout=60).answer)

    return {
        "identify": ask("identify", {"packaging": ""}),
        "list": ask("gpu_torch", {"list": True}),
    }


@pytest.fixture
def tell(
    installations: Mapping[str, Installation],
    probes: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Judge answers: the lines of problems and gaps, and why checks gave no verdict."""

    def tell(profile: str, answers: Mapping[str, Any]) -> list[str]:
        monkeypatch.setattr(run, "run_process", StandIn(profile, {**probes, **answers}))
        own = read_profile(profile)
        settings = running(Path(sys.executable), profile=own, today=date(2026, 1, 1))
        lines: list[str] = []
        with closing(Facts(installations[profile], settings, Companions(()))) as facts:
            for check in CHECKS:
                verdict = judge_case(prepare(check, facts), facts.settings)
                skipped = verdict.outcome in (Outcome.NOT_APPLICABLE, Outcome.NOT_INSPECTED)
                if skipped and isinstance(verdict.error, (NotApplicable, Unavailable)):
                    lines.append(f"{type(verdict.error).__name__}: {verdict.error}")
                    continue
                found = (*verdict.problems, *verdict.warnings)
                lines.extend(problem_lines(verdict.check, verdict.package, found))
                gaps: tuple[NotInspected, ...] = verdict.not_inspected
                lines.extend(finding_line(verdict.check, verdict.package, gap) for gap in gaps)
        return lines

    return tell


def without_reason(profile: str) -> list[str]:
    """What is said of a profile where all is well, in the order of the checks."""
    table = load_profile(profile).probes["gpu"]
    steps = () if profile == "torch" else ("every_device", "memory")
    lacking = [
        f"NotApplicable: the profile leaves out the step {name}"
        for name in steps
        if name not in table["snippets"]
    ]
    if "architectures" not in table:
        lacking.append("NotApplicable: the profile does not say how to query the architectures")
    return lacking


def test_where_all_is_well_every_check_passes(profile: str, tell: Any) -> None:
    assert tell(profile, SOUND[profile]) == without_reason(profile)


def test_the_answers_are_those_of_all_steps(profile: str, probes: dict[str, Any]) -> None:
    table = load_profile(profile).probes["gpu"]
    listed = [row["name"] for row in probes["list"]["steps"] if not row["thorough"]]
    steps = listed if profile == "torch" else list(table["snippets"])
    assert [each for each in STEPS[profile] if each != "nvidia_libraries"] == steps


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"state": "raised", "detail": "RuntimeError: CUDA error"}, "raises RuntimeError: CUDA"),
        (ProcessResult(status=-11), "crashes: SIGSEGV"),
        (ProcessResult(status=None), r"hangs: \d+ s"),
        (ProcessResult(status=3), "ends the process: exit status 3"),
    ],
    ids=["raised", "crashed", "hung", "exited"],
)
def test_each_step_that_fails_is_told(profile: str, tell: Any, answer: object, said: str) -> None:
    for step in STEPS[profile]:
        name = "versions" if step == "nvidia_libraries" else step
        lines = tell(profile, {**SOUND[profile], step: answer})
        hung = said.replace(r"\d+", r"[\d.]+")
        expected = rf"gpu-work-fails: installed:{profile}: {name} on the GPU {hung}"
        assert any(re.match(expected, line) for line in lines), (step, lines)


@pytest.mark.parametrize(("profile_", "step", "figure"), FIGURES)
def test_each_figure_that_is_off_is_told(tell: Any, profile_: str, step: str, figure: str) -> None:
    if figure in UNJUDGED:
        return
    lines = {
        "seconds": "first-kernel-late: {}: the first kernel took more than 20 s after the import",
        "devices": "gpu-left-out: {}: it works on 9 of 1 GPUs",
        "devices announced": "gpu-left-out: {}: it announces 9 GPUs, but CUDA gives it 1",
        "bytes kept": "gpu-memory-kept: {}: keeps 9 bytes after the last tensor is gone and "
        "the cache is emptied",
        "bytes returned": "gpu-memory-kept: {}: returns only 9 bytes of 1 GiB to the driver",
    }
    counted = figure.startswith(("devices", "bytes"))
    wrong = 21.0 if figure == "seconds" else 9 if counted else 1.0
    found = tell(profile_, change(SOUND[profile_], (step, "measured", figure), wrong))
    if figure == "seconds" and step != "first_kernel":
        assert found == without_reason(profile_)  # taken by the way, and judged nowhere
        return
    line = lines.get(figure) or rf"gpu-result-differs: {{}}: {step} in {figure} differs from the"
    assert any(each.startswith(line.format(f"installed:{profile_}")) for each in found), found


VERSIONS = [
    ("torch", library, where)
    for library, row in SOUND["torch"]["nvidia_libraries"]["versions"].items()
    for where in row
    if "loaded" in row and not (where == "pinned" and f"-{library}-" in "".join(REQUIRES["torch"]))
]
"""But for what the package pins itself, which goes before the pins of others."""


@pytest.mark.parametrize(("profile_", "library", "where"), VERSIONS)
def test_each_library_of_another_version_is_told(
    tell: Any, profile_: str, library: str, where: str
) -> None:
    path = ("nvidia_libraries", "versions", library, where)
    (line, *_) = tell(profile_, change(SOUND[profile_], path, "99.1.1"))
    sentence = {
        "compiled": "the package was built with 99.1.1",
        "loaded": f"{library} 99.1.1 is loaded",
        "installed": "99.1.1 is installed",
        "pinned": "the package requires 99.1.1",
    }[where]
    assert line.startswith("gpu-libraries-disagree: installed:torch: ")
    assert sentence in line


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("status",), 803, "the NVIDIA driver does not start: cuInit gives CUDA_SUCCESS (803)"),
        (("library",), "", "no NVIDIA driver on this host, though the host shows /dev/nvidia0"),
        (("refused",), "x.so: bad", "the NVIDIA driver's library cannot be loaded: x.so: bad"),
        (("stage",), "cuInit", "the NVIDIA driver ends the process: exit status 0 at its start"),
        (("devices",), [], "1 GPU is present, but CUDA cannot use any"),
        (("devices", 0, "status"), 46, "device 0 (NVIDIA H200) is present but cannot be used"),
        (("cuda",), 7050, "the NVIDIA driver 580.95.05 serves CUDA 7.5, and the package runs CUDA"),
    ],
)
def test_a_host_that_cannot_is_never_a_pass(
    profile: str, tell: Any, path: tuple[object, ...], value: object, said: str
) -> None:
    lines = tell(profile, change(SOUND[profile], ("gpu_host", *path), value))
    assert len(lines) == len(CHECKS)
    assert all(line.startswith(f"HostUnfit: {said}") for line in lines), lines


@pytest.mark.parametrize(
    ("question", "value", "said"),
    [
        ("torch.version.cuda", None, "NotApplicable: torch.version.cuda is None: the build is not"),
        ("torch.version.cuda", "14.0", "HostUnfit: the NVIDIA driver 580.95.05 serves CUDA 13.0"),
        (
            "torch.cuda.get_arch_list()",
            ["sm_80", "sm_100"],
            "gpu-without-code: installed:torch: device 0 (NVIDIA H200) is 9.0, the code is for",
        ),
        (
            "torch.cuda.get_arch_list()",
            [],
            "gpu-without-code: installed:torch: torch.cuda.get_arch_list() returned no list",
        ),
    ],
)
def test_what_the_package_says_of_itself_is_judged(
    tell: Any, question: str, value: object, said: str
) -> None:
    lines = tell("torch", change(SOUND["torch"], ("questions", question), value))
    assert lines
    assert all(line.startswith(said) for line in lines), lines


def test_a_step_that_the_host_cannot_take_is_a_gap(tell: Any) -> None:
    lacking = {"state": "finished", "unavailable": "the host has no C compiler"}
    assert "gpu-work-fails: installed:torch: compilation: the host has no C compiler" in tell(
        "torch", {**SOUND["torch"], "compilation": lacking}
    )


def find_leaves(
    value: object, path: tuple[object, ...] = ()
) -> Iterator[tuple[tuple[object, ...], object]]:
    rows = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[call-overload]
    for key, inner in rows:
        yield (*path, key), inner
        if isinstance(inner, (dict, list)) and inner:
            yield from find_leaves(inner, (*path, key))


def test_an_answer_of_another_kind_breaks_nothing(tell: Any) -> None:
    sound = SOUND["torch"]
    for path, leaf in find_leaves({name: sound[name] for name in ("gpu_host", "nvidia_libraries")}):
        other = {"a": 1} if isinstance(leaf, (str, list)) else "x"
        if len(path) > 1:
            assert isinstance(tell("torch", change(sound, path, other)), list)
    for path, _ in find_leaves({"memory": sound["memory"]}):
        if path[-1] in UNJUDGED:
            continue
        assert tell("torch", change(sound, path, {"a": "x"}))
