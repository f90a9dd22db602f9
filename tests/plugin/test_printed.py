"""What is printed is bounded, and harmless whatever a package and its file are called."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fixtures.build_wheel import Entry
from tests.plugin.conftest import IN_A_WORKER, NAME, Run, healthy, run_command
from tests.test_safe_text import assert_harmless

EVIL = "demo/\x1b[31m\n::error::\u202e##vso[task.complete]\u2028##[group].so"
RECORD = "record-is-wrong"


def unrecorded(folder: Path, count: int) -> Path:
    """A wheel with so many members that RECORD does not list, of 50 bytes each in a line."""
    entries = (Entry(f"demo/{number:06}.txt", b"") for number in range(count))
    return healthy(folder, extra_entries=tuple(entries))


def problems(result: pytest.RunResult, check: str = RECORD) -> list[str]:
    return [line for line in result.outlines if line.startswith(f"{check}: ")]


def sarif_of(path: Path) -> dict[str, list[dict[str, object]]]:
    (run,) = json.loads(path.read_text("utf-8"))["runs"]
    return dict(run)


def numbered(folder: Path, count: int) -> tuple[str, ...]:
    """What makes a run find so many problems in a package, each with a sentence of its own."""
    (folder / "numbering.py").write_text(
        "from binary_checks import check\nfrom binary_checks.model import Wheel\n\n"
        "@check\ndef numbered(wheel: Wheel):\n    'Numbers.'\n"
        f"    yield from (f'number {{n:03}}' for n in range({count}))\n"
    )
    (folder / "numbering.toml").write_text("checks = ['numbering.py']\n")
    return "-k", "numbered", "--binary-profile", "numbering.toml"


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_fifty_problems_of_a_check_are_shown_and_documents_have_all(
    pytester: pytest.Pytester, run: Run, workers: tuple[str, ...]
) -> None:
    healthy(pytester.path)
    reports = ("--binary-report", "sarif:all.sarif", "--junit-xml", "all.xml")
    result = run(NAME, *numbered(pytester.path, 120), *reports, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(problems(result, "numbered")) == 50
    assert "  and 70 more, in the report (--binary-report sarif:FILE)" in result.outlines
    assert "70 problems are not shown here; all are in all.sarif" in result.outlines
    assert len(sarif_of(pytester.path / "all.sarif")["results"]) == 120
    (failure,) = ElementTree.parse(pytester.path / "all.xml").iter("failure")
    assert str(failure.text).count("number ") == 120


def test_fifty_problems_are_shown_without_another_word(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path)
    result = run(NAME, *numbered(pytester.path, 50))
    assert len(problems(result, "numbered")) == 50
    assert "more, in the report" not in result.stdout.str()
    assert "not shown" not in result.stdout.str()


def test_a_thousand_problems_of_a_run_are_shown(pytester: pytest.Pytester, run: Run) -> None:
    names = [healthy(pytester.path / str(each)) for each in range(22)]
    result = run(*names, *numbered(pytester.path, 51))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(problems(result, "numbered")) == 1_000
    again = "the same command with --binary-report sarif:problems.sarif writes all"
    assert f"122 problems are not shown here; {again}" in result.outlines
    assert "  and 51 more, in the report (--binary-report sarif:FILE)" in result.outlines


def test_files_with_one_fault_are_one_line(pytester: pytest.Pytester, run: Run) -> None:
    unrecorded(pytester.path, 120)
    (line,) = problems(run(f"{NAME}::{RECORD}"))
    assert line.endswith("(and 119 more files: demo/000001.txt, demo/000002.txt, ...)")


def test_of_a_long_line_the_middle_is_left_out_and_documents_have_it_whole(
    pytester: pytest.Pytester, run: Run
) -> None:
    path = f"demo/{'a/' * 30_000}x.txt"
    healthy(pytester.path, extra_entries=(Entry(path, b""),))
    result = run(f"{NAME}::{RECORD}", "--binary-report", "sarif:all.sarif")
    (line,) = problems(result)
    assert len(line) <= 500
    assert line.endswith("a/x.txt: the archive has it, but RECORD does not list it")
    (found,) = sarif_of(pytester.path / "all.sarif")["results"]
    assert path in str(found)


def test_notes_of_one_kind_are_one_line(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path)
    (pytester.path / "my_checks.py").write_text(
        "from binary_checks import check\nfrom binary_checks.model import Note, Wheel\n\n"
        "@check\ndef mine(wheel: Wheel):\n    'Mine.'\n"
        "    yield from (Note(sentence=f'number {n:03}') for n in range(120))\n"
    )
    (pytester.path / "own.toml").write_text("checks = ['my_checks.py']\n")
    result = run(
        NAME, "-k", "mine", "--binary-profile", "own.toml", "--binary-report", "sarif:all.sarif"
    )
    assert result.ret == pytest.ExitCode.OK
    (line,) = (line for line in result.outlines if line.startswith("note: demo"))
    assert line.endswith("number 000 (and 119 more of this kind)")
    (invocation,) = sarif_of(pytester.path / "all.sarif")["invocations"]
    told = invocation["toolExecutionNotifications"]
    assert isinstance(told, list)
    assert len(told) == 120


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells it so")
@pytest.mark.parametrize(
    "workers", [(), ("-n", "1", "--dist", "load")], ids=["one process", "workers"]
)
def test_100000_problems_take_less_than_300_megabytes(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    unrecorded(pytester.path, 100_000)
    # getrusage of the process itself would tell the size of the one that started it, too.
    script = (
        "import pathlib, re, resource, sys\n"
        "from binary_checks.command import main\n"
        "status = main(sys.argv[1:])\n"
        "own = re.search(r'VmHWM:\\s*(\\d+)', pathlib.Path('/proc/self/status').read_text())[1]\n"
        "workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print('kilobytes', max(int(own), workers))\n"
        "sys.exit(status)\n"
    )
    own = ("--binary-static", "--binary-report", "sarif:all.sarif", *workers)
    result = pytester.run(sys.executable, "-c", script, *own, NAME)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(result.outlines) < 150
    assert int(result.outlines[-1].removeprefix("kilobytes ")) < 300_000
    (one,) = sarif_of(pytester.path / "all.sarif")["results"]  # they are of one kind
    assert len(one["locations"][0]["logicalLocations"]) == 100_000


def assert_all_harmless(result: pytest.RunResult) -> None:
    # Not by outlines, which were split already: what splits a line must not be there.
    for line in (result.stdout.str() + result.stderr.str()).split("\n"):
        assert_harmless(line)


@pytest.mark.parametrize("options", [(), ("-v", "-rA"), ("--tb=line",), IN_A_WORKER])
def test_names_in_a_package_command_neither_terminal_nor_build(
    pytester: pytest.Pytester, run: Run, options: tuple[str, ...]
) -> None:
    healthy(pytester.path, extra_entries=(Entry(EVIL, b"\x7fELF"),))
    reports = ("--binary-report", "sarif:all.sarif", "--junit-xml", "all.xml")
    result = run(NAME, *options, *reports)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert_all_harmless(result)
    assert [line for line in result.outlines if line.startswith("not inspected: demo/\\x1b[31m\\n")]
    for line in (pytester.path / "all.sarif").read_text("utf-8").split("\n"):
        assert_harmless(line)
    tree = ElementTree.parse(pytester.path / "all.xml")
    for text in (
        part for element in tree.iter() for part in (element.text, *element.attrib.values())
    ):
        for line in (text or "").split("\n"):
            assert_harmless(line)


@pytest.mark.skipif(os.name == "nt", reason="files cannot be called so")
@pytest.mark.parametrize(
    "name",
    [
        "demo\x1b(0\n-1.0-py3-none-any.whl",
        "demo\u202e\u2028-1.0-py3-none-any.whl",
        "##vso[task.complete]-1.0-py3-none-any.whl",
        "::error::demo-1.0-py3-none-any.whl",
        "demo\udcff-1.0-py3-none-any.whl",
    ],
)
@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_a_package_file_of_a_hostile_name_is_reported_harmlessly(
    pytester: pytest.Pytester, name: str, workers: tuple[str, ...]
) -> None:
    healthy(pytester.path).rename(pytester.path / name)
    reports = ("-v", "--binary-report", "sarif:all.sarif", "--junit-xml", "all.xml")
    result = run_command("--static", *reports, *workers, name)
    assert result.ret in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR}
    assert_all_harmless(result)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    inspected = run_command("inspect", name)
    assert inspected.ret in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR}
    assert_all_harmless(inspected)
    assert len(inspected.errlines) == 1
