"""Under GitHub Actions a run annotates and summarises by itself, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.conftest import Run, faulty, healthy, run_command


@pytest.fixture
def summary(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


@pytest.mark.parametrize("options", [(), ("-n", "1"), ("-v",)], ids=["quiet", "workers", "verbose"])
def test_the_command_annotates_and_summarises_once(
    pytester: pytest.Pytester, summary: Path, options: tuple[str, ...]
) -> None:
    summary.write_text("what the step wrote before\n")
    other = healthy(pytester.path, name="other")
    ended = run_command("--static", *options, faulty(pytester.path), other)
    commands = [line for line in ended.outlines if line.startswith("::")]
    assert [line for line in commands if "title=absolute-search-path%3A" in line]
    assert len({*commands}) == len(commands)
    text = summary.read_text("utf-8")
    assert text.startswith("what the step wrote before\n# binary_checks: 2 packages: ")
    assert text.count("# binary_checks: ") == 1


def test_the_plugin_does_so_for_packages_and_not_for_other_tests(
    pytester: pytest.Pytester, run: Run, summary: Path
) -> None:
    pytester.makepyfile("def test_it(): assert False")
    alone = pytester.runpytest_inprocess("-p", "binary_checks.plugin")
    assert not [line for line in alone.outlines if line.startswith("::")]
    assert not summary.exists()
    ended = run(faulty(pytester.path))
    assert [line for line in ended.outlines if line.startswith("::error file=")]
    assert summary.exists()


def test_it_can_be_turned_off_and_is_off_elsewhere(
    pytester: pytest.Pytester, run: Run, summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = (faulty(pytester.path), "-k", "absolute-search-path")
    quiet = run(*package, "--binary-github", "off")
    monkeypatch.delenv("GITHUB_ACTIONS")
    elsewhere = run(*package)
    for ended in (quiet, elsewhere):
        assert not [line for line in ended.outlines if line.startswith("::")]
    assert not summary.exists()


def test_a_summary_that_cannot_be_written_is_a_line_and_changes_no_verdict(
    pytester: pytest.Pytester, run: Run, summary: Path
) -> None:
    summary.mkdir()
    ended = run(healthy(pytester.path))
    assert ended.ret == pytest.ExitCode.OK
    ended.stdout.fnmatch_lines([f"the job summary cannot be written: {summary}: Is a directory"])


def test_a_summary_that_is_full_is_left_as_it_is(
    pytester: pytest.Pytester, run: Run, summary: Path
) -> None:
    summary.write_bytes(b"x" * (1 << 20))
    run(healthy(pytester.path))
    assert summary.stat().st_size == 1 << 20
