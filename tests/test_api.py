"""The public API: a wheel is judged in four lines, and the examples of docs/api.md are true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import binary_checks
from binary_checks import NotInspected, Problem, check, examine, judge
from binary_checks.errors import GatherError, ProfileError, Unavailable
from binary_checks.examination.judging import Verdict
from binary_checks.model import UNREADABLE, Linkage, Outcome, Package, Wheel
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from tests.plugin.conftest import faulty, healthy

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "examples"}
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert [kind for kind, _ in blocks].count("text") == 4
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, "example", "exec", dont_inherit=True), names)
        else:
            assert capsys.readouterr().out == text


def test_every_public_name_is_there() -> None:
    for name in binary_checks.__all__:
        assert getattr(binary_checks, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'gone'"):
        _ = binary_checks.gone


def verdicts(path: Path, **options: object) -> dict[str, Verdict]:
    with examine(path, **options) as facts:  # type: ignore[arg-type]
        return {verdict.check: verdict for verdict in judge(facts)}


def test_a_healthy_wheel_has_no_problem_and_checks_that_run_it_are_left_out(tmp_path: Path) -> None:
    found = verdicts(healthy(tmp_path))
    assert {each.outcome for each in found.values()} == {Outcome.PASSED, Outcome.NOT_APPLICABLE}
    assert found["absolute-search-path"].inspected == 1
    assert "import-fails" not in found


def test_a_package_that_cannot_be_read_is_one_verdict(tmp_path: Path) -> None:
    path = healthy(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    (verdict,) = verdicts(path).values()
    assert (verdict.check, verdict.outcome) == (UNREADABLE, Outcome.FAILED)
    assert [*verdict.lines()] == [
        f"{UNREADABLE}: {path.name}: truncated: it has no end-of-central-directory record"
    ]


@check
def blind(wheel: Wheel) -> Iterator[NotInspected]:
    """A check that cannot see."""
    yield NotInspected(sentence="no light")


@check
def unlucky(linkage: Linkage, package: Package) -> Iterator[Problem]:
    """A check that breaks."""
    yield Problem(sentence="one")
    raise KeyError("gone")


@check
def offline(wheel: Wheel) -> Iterator[Problem]:
    """A check whose fact is on the other side of the network."""
    raise GatherError("the index does not answer")
    yield


@check
def elsewhere(wheel: Wheel) -> Iterator[Problem]:
    """A check that needs another machine."""
    raise Unavailable("no GPU")
    yield


def test_what_breaks_ends_its_own_check_alone(tmp_path: Path) -> None:
    found = verdicts(healthy(tmp_path), checks=[blind, unlucky, offline, elsewhere])
    assert found["blind"].outcome is Outcome.NOT_INSPECTED
    assert found["unlucky"].outcome is Outcome.BROKEN
    assert found["unlucky"].reason.startswith("unlucky broke: KeyError: 'gone' (test_api.py:")
    assert (found["offline"].outcome, found["offline"].reason) == (
        Outcome.ERROR,
        "the index does not answer",
    )
    assert found["elsewhere"].outcome is Outcome.NOT_INSPECTED
    assert found["absolute-search-path"].outcome is Outcome.PASSED


def test_a_profile_is_followed_and_the_folder_s_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.toml").write_text('disable = ["absolute-search-path"]\n')
    (tmp_path / "pyproject.toml").write_text("[tool.binary_checks]\ncolour = 1\n")
    path = faulty(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "absolute-search-path" not in verdicts(path, profile="own.toml")
    assert verdicts(path)["absolute-search-path"].outcome is Outcome.FAILED
    with pytest.raises(ProfileError, match=r"profile gone\.toml: No such file"):
        verdicts(path, profile="gone.toml")


def test_what_is_installed_is_examined_by_its_name() -> None:
    with examine("installed:pytest") as facts:
        assert facts.get(Package).name == "pytest"
        assert facts.file_name == "installed:pytest"
    with pytest.raises(ProfileError, match="none-such"), examine("installed:none-such"):
        pass


def test_objects_for_a_system_whose_loader_is_unknown_are_judged_all_the_same(
    tmp_path: Path,
) -> None:
    native = build_elf(needed=("libc.so.6",), runpath="/tmp/build/lib", stack="rwx")
    members = {"demo/__init__.py": "", "demo/libnative.so": native}
    found = verdicts(build_wheel(tmp_path, members=members, tags=["py3-none-any"]))
    assert found["executable-stack"].outcome is Outcome.FAILED
    assert found["absolute-search-path"].outcome is Outcome.FAILED
    assert found["isa-level-over-baseline"].outcome is Outcome.PASSED
    assert found["missing-library"].outcome is Outcome.NOT_APPLICABLE
