"""Every report that was asked for is written, and can be made again from the result document."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from binary_checks.documents.result import describe_results, write_results
from binary_checks.model import RunResult
from fixtures.build_conda import build_conda
from fixtures.build_cpp_archive import build_cpp_archive
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.package_index import PackageIndex
from fixtures.runs import PROFILE
from fixtures.slow import slow
from tests.plugin.conftest import IN_A_WORKER, TRY_AGAIN, Run, command, faulty, healthy, run_command

FORMATS = ("terminal", "json", "sarif", "junit", "markdown")

MINE = """
from binary_checks import check
from binary_checks.errors import GatherError
from binary_checks.model import Level, Note, NotInspected, Problem, Wheel

@check(level=Level.WARNING)
def unusual(wheel: Wheel):
    "A wheel is unusual."
    yield Problem(path="demo/x", sentence="is unusual")

@check
def breaks(wheel: Wheel):
    "A check breaks."
    raise KeyError("gone")
    yield

@check
def lacks_network(wheel: Wheel):
    "A check needs what is not there."
    raise GatherError("no network")
    yield
"""


@pytest.fixture
def own(pytester: pytest.Pytester) -> None:
    (pytester.path / "conftest.py").write_text(MINE)


def ask_for(*formats: str) -> list[str]:
    return [part for name in formats for part in ("--binary-report", f"{name}:out.{name}")]


def result(folder: Path) -> dict[str, Any]:
    document = json.loads((folder / "out.json").read_text("ascii"))
    jsonschema.Draft202012Validator(describe_results()).validate(document)
    return dict(document)


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    (package,) = result(folder)["packages"]
    return {entry["check"]: entry for entry in package["entries"]}


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "workers"])
def test_each_report_is_made_again_from_the_document_byte_by_byte(
    pytester: pytest.Pytester, run: Run, own: None, workers: tuple[str, ...]
) -> None:
    broken = pytester.path / "other-1.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    package = faulty(pytester.path)
    assert run(package, broken, *ask_for(*FORMATS), *workers).ret == pytest.ExitCode.TESTS_FAILED
    assert result(pytester.path)["exit_code"] == 1
    for name in FORMATS:
        again = command(pytester.path, "report", "out.json", "--format", name)
        assert again.stdout == (pytester.path / f"out.{name}").read_text("utf-8"), name
    usual = command(pytester.path, "report", "out.json").stdout
    assert usual == (pytester.path / "out.terminal").read_text("utf-8")


def test_the_document_says_which_package_and_what_of_it(
    pytester: pytest.Pytester, run: Run, own: None
) -> None:
    path = faulty(pytester.path)
    run(path, *ask_for("json"), "-k", "absolute-search-path or unusual")
    document = result(pytester.path)
    assert "places" not in document
    (package,) = document["packages"]
    assert (package["name"], package["version"], package["verdict"]) == ("demo", "1.0", "failed")
    assert package["size"] == path.stat().st_size
    assert len(package["sha256"]) == 64
    found = entries(pytester.path)
    (problem,) = found["absolute-search-path"]["problems"]
    assert "/tmp/build" in problem["sentence"]
    assert found["unusual"]["level"] == "warning"
    assert found["unusual"]["warnings"] == [
        {"path": "demo/x", "sentence": "is unusual", "level": "warning"}
    ]


def test_the_document_says_when_the_run_ended_and_where_packages_were_to_run(
    pytester: pytest.Pytester, run: Run
) -> None:
    began = datetime.now(timezone.utc).replace(microsecond=0)
    run(faulty(pytester.path), *ask_for("json"), "-m", "archive", static=False)
    document = result(pytester.path)
    assert began <= datetime.fromisoformat(document["ended"]) <= datetime.now(timezone.utc)
    assert document["places"] == ["venv"]


@pytest.mark.parametrize(
    ("named", "asked", "selected"),
    [
        ("", (), None),
        ("", ("-m", "archive"), None),
        ("", ("-k", "record or archive"), "-k record or archive"),
        ("::record-is-wrong", (), "PACKAGE::record-is-wrong"),
    ],
)
def test_the_document_says_if_only_some_checks_of_a_family_were_selected(
    pytester: pytest.Pytester, run: Run, named: str, asked: tuple[str, ...], selected: str | None
) -> None:
    run(f"{faulty(pytester.path)}{named}", *ask_for("json"), *asked)
    assert result(pytester.path).get("selected") == selected


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_one_examination_writes_results_and_facts(
    pytester: pytest.Pytester, run: Run, workers: tuple[str, ...]
) -> None:
    path = healthy(pytester.path)
    assert run(path, *ask_for("json", "facts"), *workers).ret == pytest.ExitCode.OK
    inspected = command(pytester.path, "inspect", "--json", path)
    assert (pytester.path / "out.facts").read_text("utf-8") == inspected.stdout


def build_libtorch(folder: Path) -> Path:
    library = {"lib/libtorch.so": build_elf(soname="libtorch.so")}
    name = "libtorch-shared-with-deps-2.9.0+cpu.zip"
    return build_cpp_archive(folder, library, name=name, top="libtorch")


@pytest.mark.slow
@pytest.mark.parametrize("build", [build_conda, build_libtorch], ids=["conda", "libtorch"])
def test_results_and_facts_are_of_the_same_bytes_whatever_the_kind(
    pytester: pytest.Pytester, run: Run, build: Callable[[Path], Path]
) -> None:
    path = build(pytester.path)
    run(path, "-m", "not runtime", *ask_for("json", "facts"))
    _demand_both(pytester.path, path)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "workers"])
def test_results_and_facts_of_a_published_package_are_of_its_bytes(
    pytester: pytest.Pytester, run: Run, index: PackageIndex, workers: tuple[str, ...]
) -> None:
    path = healthy(pytester.path / "dist")
    url = index.offer(path, "demo")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    run(f"{url}#sha256={sha256}", "-m", "not runtime", *ask_for("json", "facts"), *workers)
    _demand_both(pytester.path, path)


def _demand_both(folder: Path, package: Path) -> None:
    """Both documents say that they are about this package."""
    sha256 = hashlib.sha256(package.read_bytes()).hexdigest()
    facts = json.loads((folder / "out.facts").read_text("ascii"))["package"]
    (judged,) = (each for each in result(folder)["packages"] if not each.get("parts"))
    assert (facts["sha256"], judged["sha256"]) == (sha256, sha256)
    assert facts["file_name"] == judged["file_name"] == package.name


def test_facts_of_several_packages_need_a_folder(pytester: pytest.Pytester, run: Run) -> None:
    paths = healthy(pytester.path), healthy(pytester.path, name="other")
    refused = run(*paths, *ask_for("facts"))
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "name a folder, with / at its end" in refused.stderr.str()
    one = ("-k", "absolute-search-path")
    assert run(*paths, *one, "--binary-report", "facts:all/").ret == pytest.ExitCode.OK
    assert len(list((pytester.path / "all").iterdir())) == 2


LOST = ("--binary-report", "sarif:/proc/all.sarif")
"""A report in a folder that nobody can make."""
on_linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux has that folder")


@on_linux
@pytest.mark.parametrize(
    "options",
    [(), ("-x",), *slow((("-n", "1"),), (("--maxfail=3",),))],
    ids=["", "-x", "-n", "--maxfail"],
)
def test_a_report_that_is_lost_ends_a_run_without_problems_with_6(
    pytester: pytest.Pytester, run: Run, options: tuple[str, ...]
) -> None:
    one = ("-k", "absolute-search-path")
    ended = run(healthy(pytester.path), *one, *LOST, *ask_for("json"), *options)
    assert ended.ret == TRY_AGAIN
    (line,) = result(pytester.path)["complaints"]
    assert line in ended.outlines
    assert line.endswith("cannot be written: No such file or directory")
    assert result(pytester.path)["exit_code"] == TRY_AGAIN


@on_linux
def test_a_report_that_is_lost_hides_no_problem(pytester: pytest.Pytester, run: Run) -> None:
    ended = run(faulty(pytester.path), *LOST, *ask_for("json"))
    assert ended.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
@pytest.mark.parametrize(
    ("selected", "status"),
    [
        ("lacks", TRY_AGAIN),
        ("breaks", pytest.ExitCode.INTERNAL_ERROR),
        ("lacks or breaks", pytest.ExitCode.INTERNAL_ERROR),
        ("lacks or breaks or absolute", pytest.ExitCode.TESTS_FAILED),
        ("unusual", pytest.ExitCode.OK),
    ],
)
def test_the_exit_code_says_whose_fault_it_is(
    pytester: pytest.Pytester, run: Run, selected: str, status: int, workers: tuple[str, ...]
) -> None:
    ended = run(faulty(pytester.path), "-k", selected, *ask_for("json"), *workers)
    assert ended.ret == status
    assert result(pytester.path)["exit_code"] == status


def test_the_first_error_ends_the_run_as_the_last_one_would(
    pytester: pytest.Pytester, run: Run, own: None
) -> None:
    assert run(healthy(pytester.path), "-k", "lacks", "-x").ret == TRY_AGAIN
    assert run(healthy(pytester.path), "-k", "lacks", "--maxfail=2").ret == TRY_AGAIN


def test_a_foreign_test_that_fails_keeps_its_exit_code(
    pytester: pytest.Pytester, run: Run, own: None
) -> None:
    pytester.makepyfile(test_own="def test_it(): assert False")
    ended = run(healthy(pytester.path), "test_own.py", "-k", "lacks or test_it")
    assert ended.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_a_check_with_warnings_alone_passes_and_is_shown_as_warned(
    pytester: pytest.Pytester, run: Run, own: None, workers: tuple[str, ...]
) -> None:
    package = healthy(pytester.path)
    ended = run(package, "-k", "unusual", "-v", "--junit-xml", "all.xml", *workers)
    assert ended.ret == pytest.ExitCode.OK
    assert ended.parseoutcomes()["warned"] == 1
    assert "WARNED" in ended.stdout.str()
    assert f"warning: unusual: {package.name}: demo/x: is unusual" in ended.outlines
    junit = (pytester.path / "all.xml").read_text("utf-8")
    assert f'<property name="warning" value="unusual: {package.name}: demo/x: is unusual"' in junit


@pytest.mark.parametrize(("strict", "outcome"), [((), "warned"), (("--binary-strict",), "failed")])
def test_litter_fails_a_strict_run_alone(
    pytester: pytest.Pytester, run: Run, strict: tuple[str, ...], outcome: str
) -> None:
    litter = {"demo/__init__.py": "", "demo/__pycache__/a.cpython-311.pyc": b"x", ".gitignore": ""}
    package = build_wheel(pytester.path, members=litter, tags=["py3-none-any"])
    ended = run(package, "-k", "bytecode-in-wheel or version-control-litter", *strict)
    assert {**ended.parseoutcomes(), "deselected": 0} == {outcome: 2, "deselected": 0}
    assert ended.ret == (pytest.ExitCode.TESTS_FAILED if strict else pytest.ExitCode.OK)
    problems = [line for line in ended.outlines if line.startswith("bytecode-in-wheel: ")]
    assert len(problems) == len(strict)  # a warning has another prefix


def test_a_profile_turns_an_error_into_a_warning_for_some_paths(
    pytester: pytest.Pytester, run: Run
) -> None:
    package = faulty(pytester.path)
    (pytester.path / "own.toml").write_text("[levels.absolute-search-path]\n'demo/*' = 'warning'\n")
    chosen = ("-k", "absolute-search-path", *ask_for("json"))
    assert run(package, "--binary-profile", "own.toml", *chosen).ret == pytest.ExitCode.OK
    assert entries(pytester.path)["absolute-search-path"]["outcome"] == "warned"


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (("--format", "sarif"), 4, "binary-checks: report: the following arguments are required:*"),
        (("gone.json", "--format", "sarif"), 4, "binary-checks: gone.json: cannot be read: *"),
        (
            ("out.json", "--format", "facts"),
            4,
            "binary-checks: report: a result document has no facts",
        ),
        (("out.json", "--format", "srif"), 4, "binary-checks: *'srif'; did you mean sarif?"),
        (
            ("out.json", "--format", "sarif", "--output", "."),
            4,
            "*: .: a folder; name a file in it",
        ),
        (("out.json", "--format", "sarif", "--output", "out.json/x"), 4, "*: there is no folder *"),
    ],
)
def test_a_report_that_cannot_be_made_again_is_one_line(
    pytester: pytest.Pytester, arguments: tuple[str, ...], status: int, line: str
) -> None:
    document = "".join(write_results(RunResult(exit_code=0, profile=PROFILE)))
    (pytester.path / "out.json").write_text(document)
    ended = run_command("report", *arguments)
    assert ended.ret == status
    ended.stderr.fnmatch_lines([line])
    assert len(ended.errlines) == 1


# The page of a run, and the same page made again from its documents.


def rewrite(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command(folder, "report", "out.json", "--format", *options)


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_the_page_is_made_again_from_results_and_facts(
    pytester: pytest.Pytester, run: Run, workers: tuple[str, ...]
) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("squarify")
    wanted = [
        f"--binary-report={each}" for each in ("html:out.html", "json:out.json", "facts:all/")
    ]
    run(faulty(pytester.path), healthy(pytester.path, name="other"), *wanted, *workers)
    page = (pytester.path / "out.html").read_text("utf-8")
    assert page.count('<svg class="graph"') == 2
    facts = [f"--facts={path}" for path in sorted((pytester.path / "all").iterdir())]
    assert rewrite(pytester.path, "html", *facts).stdout == page
    without = rewrite(pytester.path, "html").stdout
    assert "which has no facts of packages" in without
    assert '<svg class="graph"' not in without


def test_facts_of_another_package_are_refused(pytester: pytest.Pytester, run: Run) -> None:
    one = ("-k", "absolute-search-path", "--binary-report")
    run(healthy(pytester.path), *one, "json:out.json")
    run(healthy(pytester.path, name="other"), *one, "facts:other.json")
    ended = rewrite(pytester.path, "html", "--facts", "other.json")
    assert ended.returncode == 4
    assert ended.stderr == (
        "binary-checks: report: --facts other.json: it describes no package of the "
        "result document\n"
    )
    ended = rewrite(pytester.path, "sarif", "--facts", "other.json")
    assert ended.stderr == "binary-checks: report: --facts: sarif shows no facts\n"
