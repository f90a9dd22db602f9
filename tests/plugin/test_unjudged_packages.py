"""A package none of whose native code can be judged passes in no document and no exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine, judge
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.slow import slow
from tests.plugin.conftest import Run, healthy

NATIVE = build_elf(exports=(ElfSymbol("PyInit__native"),), needed=("libc.so.6",))
OF_AIX = b"\x01\xf7" + bytes(64)
TAGS = {
    "Windows on ARM 32": "cp313-cp313-win_arm32",
    "FreeBSD": "cp311-cp311-freebsd_14_2_release_amd64",
}
REPORTS = ("json", "junit", "sarif", "markdown", "github", "github-summary", "terminal")


def make_wheel(folder: Path, tag: str, *contents: bytes) -> Path:
    """A wheel of that tag with an object file for each of these contents."""
    folder.mkdir(exist_ok=True)
    files = {f"demo/_{number}.so": each for number, each in enumerate(contents)}
    return build_wheel(folder, members={"demo/__init__.py": "", **files}, tags=(tag,))


def result_of(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The document of the run, and its one package."""
    document = json.loads((folder / "json").read_text())
    (package,) = document["packages"]
    return document, package


def reporting(*formats: str) -> list[str]:
    return [word for each in formats for word in ("--binary-report", f"{each}:{each}")]


@pytest.mark.parametrize("tag", [*slow(TAGS["Windows on ARM 32"]), TAGS["FreeBSD"]])
@pytest.mark.parametrize("accepted", [False, True])
def test_code_whose_loader_is_not_simulated_passes_nowhere_unless_a_profile_lets_it(
    pytester: pytest.Pytester, run: Run, tag: str, accepted: bool
) -> None:
    if accepted:
        pytester.makepyprojecttoml('[tool.binary_checks]\nunjudged = "accept"\n')
    wheel = make_wheel(pytester.path, tag, NATIVE, NATIVE)
    status = int(not accepted)
    assert run(wheel, *reporting(*REPORTS)).ret == status
    document, package = result_of(pytester.path)
    assert (document["exit_code"], package["verdict"]) == (status, "not judged")
    assert "is not simulated" in package["unjudged"]
    for name in REPORTS:
        assert "not judged" in (pytester.path / name).read_text(), name
    junit = (pytester.path / "junit").read_text()
    assert '<property name="verdict" value="not judged: the loader of ' in junit
    assert junit.count("<failure") == status
    (invocation,) = json.loads((pytester.path / "sarif").read_text())["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is accepted
    advice = 'say unjudged = "accept" in the profile'
    assert (advice in (pytester.path / "terminal").read_text()) is not accepted


def test_a_problem_weighs_more_than_what_is_not_judged(pytester: pytest.Pytester, run: Run) -> None:
    native = build_elf(exports=(ElfSymbol("PyInit__0"),), runpath="/tmp/build/lib")
    wheel = make_wheel(pytester.path, TAGS["FreeBSD"], native)
    assert run(wheel, *reporting("json")).ret == pytest.ExitCode.TESTS_FAILED
    document, package = result_of(pytester.path)
    assert package["verdict"] == "failed"
    assert "complaints" not in document


def test_a_package_without_native_code_is_judged_as_usual(
    pytester: pytest.Pytester, run: Run
) -> None:
    wheel = make_wheel(pytester.path, TAGS["FreeBSD"])
    assert run(wheel, *reporting("json", "terminal")).ret == pytest.ExitCode.OK
    assert result_of(pytester.path)[1]["verdict"] in {"passed", "warned"}
    assert ": fit" in (pytester.path / "terminal").read_text()


def test_of_several_claimed_systems_one_that_is_judged_is_enough(
    pytester: pytest.Pytester, run: Run
) -> None:
    both = "cp311-cp311-manylinux_2_17_x86_64.freebsd_14_2_release_amd64"
    wheel = healthy(pytester.path, tags=(both,))
    assert run(wheel, *reporting("json")).ret == pytest.ExitCode.OK
    assert result_of(pytester.path)[1]["verdict"] == "passed"


@pytest.mark.parametrize("others", [{}, {"demo/_other.so": NATIVE}], ids=["none", "one"])
def test_files_that_nothing_here_reads_are_not_judged_unless_another_one_is(
    pytester: pytest.Pytester, run: Run, others: dict[str, bytes]
) -> None:
    members = {"demo/__init__.py": "", "demo/_native.so": OF_AIX, **others}
    run(healthy(pytester.path, members=members), *reporting("json"))
    document, package = result_of(pytester.path)
    verdict = "passed" if others else "not judged"
    assert (package["verdict"], document["exit_code"]) == (verdict, int(not others))
    if not others:
        assert (
            package["unjudged"]
            == "demo/_native.so: it is an XCOFF object of AIX, which is not read"
        )


@pytest.mark.parametrize(("families", "status"), [("metadata", 0), ("symbols", 1), ("linkage", 1)])
def test_only_a_run_that_is_to_judge_native_code_fails_for_want_of_it(
    pytester: pytest.Pytester, run: Run, families: str, status: int
) -> None:
    wheel = make_wheel(pytester.path, TAGS["FreeBSD"], NATIVE)
    assert run(wheel, "-m", families).ret == status


@pytest.mark.slow
def test_every_worker_says_the_same(pytester: pytest.Pytester, run: Run) -> None:
    wheels = [make_wheel(pytester.path / tag, tag, NATIVE) for tag in TAGS.values()]
    assert run(*wheels, "-n", "2", *reporting("json")).ret == pytest.ExitCode.TESTS_FAILED
    packages = json.loads((pytester.path / "json").read_text())["packages"]
    assert {each["verdict"] for each in packages if "parts" not in each} == {"not judged"}


def test_from_python_the_examination_says_it(tmp_path: Path) -> None:
    with examine(make_wheel(tmp_path, TAGS["FreeBSD"], NATIVE)) as examination:
        assert not any(verdict.problems for verdict in judge(examination))
        assert re.match(r"the loader of FreeBSD is not simulated \(", examination.unjudged)
    with examine(healthy(tmp_path)) as examination:
        assert list(judge(examination))
        assert examination.unjudged == ""
