"""What a new user types: help, version, the list of checks, typing errors, paths that are none."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from binary_checks import __version__
from binary_checks.command import main
from binary_checks.command.helping import HELP
from fixtures.build_wheel import build_wheel
from tests.plugin.conftest import NAME, TRY_AGAIN, command, faulty, healthy, start_command


def complaints(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.removeprefix("binary-checks: ") for line in result.stderr.splitlines() if line]


def test_the_help_fits_one_screen_and_is_an_error_if_nothing_was_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for asked in ("--help", "-h", "help"):
        assert main([asked]) == 0
        assert capsys.readouterr().out == HELP
    assert main([]) == 4
    assert capsys.readouterr() == ("", HELP)
    lines = HELP.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80


def test_every_option_of_the_help_is_one(tmp_path: Path) -> None:
    result = command(tmp_path, "--help-pytest", "-n", "0")
    assert result.returncode == 0
    named = set(re.findall(r"--[a-z][a-z-]+", HELP)) - {"--help-pytest", "--list"}
    assert [] == [each for each in named if each not in result.stdout]


@pytest.mark.parametrize("asked", ["--version", "-V"])
def test_its_own_version_comes_first(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([asked]) == 0
    assert capsys.readouterr().out.startswith(f"binary-checks {__version__} (pytest ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspct", NAME], "inspct: neither a package nor a subcommand; did you mean inspect?"),
        (["inspect", "--jsn", NAME], "inspect: unknown option --jsn; did you mean --json?"),
        (["--list", "-m", "linkag"], "-m linkag: no such family; did you mean linkage?"),
    ],
)
def test_a_mistyped_subcommand_suggests_the_nearest_one(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 4
    assert capsys.readouterr().err == f"binary-checks: {said}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--statc"], "unknown option --statc; did you mean --static?"),
        (["--nmuprocesses=2"], "unknown option --nmuprocesses; did you mean --numprocesses?"),
        (["--zzzzzz"], "unknown option --zzzzzz"),
        (["--profile"], "argument --profile: expected one argument"),
        (["-m", "linkge"], "-m linkge: linkge: no such family; did you mean linkage?"),
        (["-m", "not linkage and ap"], "-m not linkage and ap: ap: no such family; there are "),
        (
            ["-k", "missng-library"],
            "-k: no check is called 'missng-library'; did you mean missing-",
        ),
        (["--junit-xml=gone/x.xml"], "--junit-xml: gone/x.xml: there is no folder gone: make it"),
        (["--require=linkge"], "--require linkge: no such family; did you mean"),
        ([f"{NAME}::missing-libary"], "no check is called 'missing-libary'; did you mean missing"),
        (["--facts", "a/gone.json"], "a/gone.json: cannot be read: "),  # as it was written
        (["--known-problems", "a/gone.toml"], "known problems a/gone.toml: "),
        (["--profile", "a/gone.toml"], "profile a/gone.toml: "),
        (["--with", "a/gone.whl"], "no such file or folder: a/gone.whl"),
    ],
)
def test_a_mistyped_option_or_name_is_one_line(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    healthy(tmp_path)
    named = () if arguments[0].startswith(NAME) else (NAME,)
    result = command(tmp_path, "--static", *named, *arguments)
    (line,) = complaints(result)
    assert (result.returncode, result.stdout) == (4, "")
    assert line.startswith(said)


def test_a_family_is_explained_by_its_checks(tmp_path: Path) -> None:
    result = command(tmp_path, "--explain", "linkage")
    heading, _, *rows = result.stdout.splitlines()
    assert heading == "## linkage: needed libraries and where loaders search for them"
    assert "- libpython-linked: " in [row[:20] for row in rows]
    assert rows[-1].endswith("/checks/linkage.html")
    mistyped = command(tmp_path, "--explain", "linkag")
    assert complaints(mistyped) == ["no check is called 'linkag'; did you mean linkage?"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files that are no packages, beside one that is."""
    healthy(tmp_path / "dist")
    with tarfile.open(tmp_path / "demo-1.0.tar.gz", "w:gz") as sdist:
        sdist.addfile(tarfile.TarInfo("demo-1.0/PKG-INFO"))
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as archive:
        archive.writestr("a.txt", "a text")
    (tmp_path / "demo.tgz").write_bytes(gzip.compress(b"anything")[:10])
    for name in ("demo.egg", "setup.exe", "libx.a", "a.json", "a.txt"):
        (tmp_path / name).write_text("anything")
    (tmp_path / "empty").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").write_text("")
    return tmp_path


MISNAMED = {
    "gone.whl": "no such file",
    "./gone/../bad.whl": "no such file",
    "gone/*.whl": "no file matches",
    "empty": "a folder without packages or object files",
    "dist/": "a folder; name its packages: dist/*.whl",
    ".": "a folder; name its packages: ./*/*.whl",
    "project": "a folder with a project; build a wheel from it, and name the wheel",
    "demo-1.0.tar.gz": "a source distribution, in which nothing is built; judge a wheel that is "
    "built from it: pip wheel --no-deps demo-1.0.tar.gz (this runs its code)",
    "demo.tgz": "an archive that cannot be read: truncated: its compressed data end too early",
    "texts.zip": "an archive, but not a known package: neither a wheel, a conda package nor C++ "
    "libraries",
    "demo.egg": "not a package file; if it holds a distribution, convert it: "
    "wheel convert demo.egg",
    "setup.exe": "not a package file; if it holds a distribution, convert it: "
    "wheel convert setup.exe",
    "a.json": "not a package file; to make another report from a result, run "
    "binary-checks report a.json --format markdown",
    "libx.a": "an input for linkers, judged only as part of C++ libraries: name the folder or the "
    "archive with this file in 'lib' and headers in 'include'",
    "a.txt": "neither a package file nor an object file",
}


def test_each_path_that_is_no_package_is_one_line_that_says_what_to_do(folder: Path) -> None:
    result = command(folder, "--static", *MISNAMED)
    assert (result.returncode, result.stdout) == (4, "")
    lines = complaints(result)
    assert sorted(lines) == sorted(f"{name}: {said}" for name, said in MISNAMED.items())


def test_the_other_packages_are_judged_all_the_same(folder: Path) -> None:
    """Exit code 4 comes first in the contract, whatever was found in the others."""
    bad = faulty(folder / "bad").relative_to(folder)
    reports = ["--junit-xml=all.xml", "--report=json:all.json"]
    result = command(folder, "--static", "gone.whl", bad, "a.txt", *reports)
    assert result.returncode == 4
    assert "absolute-search-path: demo-1.0-" in result.stdout
    assert "gone.whl: no such file" in result.stdout.splitlines()
    assert "gone.whl: no such file" in (folder / "all.xml").read_text("utf-8")
    assert '"exit_code": 4' in (folder / "all.json").read_text("utf-8")


def test_a_pattern_that_no_shell_expanded_is_expanded(folder: Path) -> None:
    pattern = "dist/*.whl::absolute-search-path"
    result = command(folder, "--static", "-v", pattern)
    assert result.returncode == 0
    assert f"dist/{NAME}::absolute-search-path PASSED" in result.stdout


def test_the_list_has_every_check_with_its_level_and_family(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--list", "-m", "linkage"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["check", "level", "family"]
    assert {row.split()[2] for row in rows} == {"linkage"}
    levels = {row.split()[0]: row.split()[1] for row in rows}
    assert levels["dead-search-directory"] == "off"


def test_the_list_says_why_a_check_does_not_apply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = build_wheel(tmp_path, members={"demo/__init__.py": "raise SystemExit('it ran')"})
    assert main(["--list", str(path)]) == 0
    name, _, *rows, rest = capsys.readouterr().out.splitlines()
    assert name == str(path)
    said = {row.split()[0]: row.split(maxsplit=3)[3] for row in rows}
    assert said["record-is-wrong"] == "applies"
    assert said["import-fails"] == "runs the package"
    of_others = {
        *("embedded-test-fails", "overlinking-in-prefix"),  # of conda packages
        *("commits-differ-in-release", "broken-published-archive", "missing-mitigation"),
    }
    assert not of_others & said.keys()
    assert rest.endswith(" more are for other kinds of packages or objects: binary-checks --list")
    assert said["unexpected-tag"] == "off: a profile may enable it"
    table = "the profile names no module for it ([probes.gpu] module)"
    assert said["gpu-work-fails"] == f"not applicable: {table}"


def test_one_package_that_is_none_does_not_cancel_the_lists_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = healthy(tmp_path)
    broken = tmp_path / "bad-1.0-py3-none-any.whl"
    broken.write_bytes(b"no zip")
    assert main(["--list", "gone.whl", str(broken), str(path)]) == 4
    out, err = capsys.readouterr()
    assert out.startswith(f"{path}\n")
    first, second = err.splitlines()
    assert first == "binary-checks: gone.whl: no such file"
    assert second.startswith("binary-checks: bad-1.0-py3-none-any.whl: ")


def test_python_without_docstrings_and_assertions_judges_the_same(tmp_path: Path) -> None:
    """PYTHONOPTIMIZE=2: only the documentation of checks is lost, which is their docstrings."""
    path = faulty(tmp_path)
    found = []
    for run, level in ((command, ""), (start_command, "2")):
        judged = run(tmp_path, "--static", path, "--report=json:r.json", PYTHONOPTIMIZE=level)
        (package,) = json.loads((tmp_path / "r.json").read_text("utf-8"))["packages"]
        entries = [{**entry, "seconds": 0} for entry in package["entries"]]
        found.append((judged.returncode, judged.stderr, package["verdict"], entries))
    assert found[0] == found[1]


def test_a_process_that_may_open_few_files_says_so_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    wheel = faulty(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (12, hard))
    try:
        assert main(["--static", str(wheel)]) == TRY_AGAIN
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    line = "binary-checks: this process may open 12 files at once, but needs 32: raise ulimit -n"
    assert capsys.readouterr().err.splitlines() == [line]
