"""Whatever a package file is, its report is one clear line, and the exit status the contract's."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.build_wheel import OMIT, Entry
from tests.plugin.conftest import NAME, TRY_AGAIN, Run, healthy, run_command
from tests.test_safe_text import assert_harmless


def cut(folder: Path) -> Path:
    path = healthy(folder)
    path.write_bytes(path.read_bytes()[:-10])
    return path


def no_dist_info(folder: Path) -> Path:
    return healthy(folder, metadata=OMIT, wheel=OMIT, record=OMIT)


def two_dist_infos(folder: Path) -> Path:
    return healthy(folder, extra_entries=(Entry("other-1.0.dist-info/METADATA", b""),))


def encrypted_metadata(folder: Path) -> Path:
    entry = Entry("demo-1.0.dist-info/METADATA", b"secret", encrypted=True)
    return healthy(folder, metadata=OMIT, extra_entries=(entry,))


def a_name_that_says_nothing(folder: Path) -> Path:
    return healthy(folder).rename(folder / "demo.whl")


def no_bytes(folder: Path) -> Path:
    path = healthy(folder)
    path.write_bytes(b"")
    return path


UNREADABLE: list[tuple[Callable[[Path], Path], str]] = [
    (cut, "truncated: it has no end-of-central-directory record"),
    (no_bytes, "empty (0 bytes)"),
    (no_dist_info, "not a wheel: it has no *.dist-info folder"),
    (two_dist_infos, "it has 2 *.dist-info folders: *"),
    (encrypted_metadata, "demo-1.0.dist-info/METADATA cannot be read: it is encrypted"),
    (a_name_that_says_nothing, "its name is not NAME-VERSION-PYTHON-ABI-PLATFORM.whl"),
]


def test_an_unreadable_package_is_one_line_that_names_it_once_and_the_others_run(
    pytester: pytest.Pytester, run: Run
) -> None:
    paths = [build(pytester.path / build.__name__) for build, _ in UNREADABLE]
    result = run(*paths, healthy(pytester.path))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes()["passed"] > 5
    for path, (_, reason) in zip(paths, UNREADABLE, strict=True):
        result.stdout.fnmatch_lines([f"unreadable-package: {path.name}: {reason}"])
    told = [line for line in result.outlines if line.startswith("unreadable-package: ")]
    assert len(told) == len(paths)
    assert "Traceback" not in result.stdout.str()


def test_a_folder_that_is_called_like_a_package_is_a_usage_error(
    pytester: pytest.Pytester, run: Run
) -> None:
    (pytester.path / NAME).mkdir()
    result = run(NAME)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {NAME}: a folder without packages or object files" in result.errlines


def test_a_missing_package_is_a_usage_error_and_no_more(
    pytester: pytest.Pytester, run: Run
) -> None:
    result = run(NAME, "-n", "1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {NAME}: no such file" in result.errlines
    result.stdout.no_fnmatch_line("*nothing was verified*")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_link_to_a_package_is_a_package(pytester: pytest.Pytester, run: Run) -> None:
    target = healthy(pytester.path / "elsewhere")
    (pytester.path / NAME).symlink_to(target)
    assert run(NAME).ret == pytest.ExitCode.OK


def test_a_package_or_a_check_named_twice_runs_once(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path)
    item = f"{NAME}::absolute-search-path"
    run(item, item).assert_outcomes(passed=1)


def test_a_run_that_stops_early_does_not_complain_of_what_it_did_not_do(
    pytester: pytest.Pytester, run: Run
) -> None:
    (pytester.path / "bad-1.0-py3-none-any.whl").write_bytes(b"no zip")
    healthy(pytester.path)
    result = run("bad-1.0-py3-none-any.whl", NAME, "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*nothing was verified*")


# An option, a profile or a check of the user's own that cannot be followed is said in one line.


IMPORTS = "from binary_checks import check\nfrom binary_checks.model import Wheel\n\n@check\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--binary-with", "gone"], "no such file or folder: gone"),
        (["--binary-with", "notes.txt"], "--binary-with notes.txt: neither a package file nor"),
        (["--binary-python", "gone"], "no such file or folder: gone"),
        (["--binary-python", "."], "--binary-python .: not an executable program"),
        (
            ["--binary-require", "colour"],
            "--binary-require colour: no such family; there are android, arch",
        ),
        (["--binary-configuration", "python=x"], "--binary-configuration python=x: not understood"),
        (
            ["--binary-configuration", "python"],
            "--binary-configuration python: expected auto,",
        ),
        (["--binary-profile", ""], "profile '': neither a shipped profile nor a .toml file"),
        (["--binary-profile", "gone.toml"], "profile gone.toml: No such file"),
        (
            ["--binary-report", "sarif:gone/x.sarif"],
            "--binary-report: gone/x.sarif: there is no folder gone: make it first",
        ),
        (["--binary-report", "json:gone/x.json"], "--binary-report: gone/x.json: there is no"),
        (["--binary-report", "facts:gone/facts/"], "--binary-report: gone/facts/: there is no"),
        (
            ["--binary-write-known", "gone/known.toml"],
            "--binary-write-known: gone/known.toml: there is no folder",
        ),
        (["--binary-expect-set", "gone.txt"], "--binary-expect-set gone.txt: "),
        (
            ["--binary-requirements-folder", "notes.txt"],
            "--binary-requirements-folder notes.txt: not a folder",
        ),
        (["--binary-write-known", "."], "--binary-write-known: .: a folder; name a file in it"),
        (["--binary-report", "json:."], "--binary-report: .: a folder; name a file in it"),
    ],
)
def test_an_option_that_cannot_be_followed_is_a_usage_error(
    pytester: pytest.Pytester, options: list[str], message: str
) -> None:
    healthy(pytester.path)
    (pytester.path / "notes.txt").write_text("no wheel")
    with pytest.raises(pytest.UsageError, match=re.escape(message)):
        pytester.parseconfigure(NAME, *options)


def test_half_a_character_travels_between_processes(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path)
    (pytester.path / "my_checks.py").write_text(
        f"{IMPORTS}def mine(wheel: Wheel):\n    'Mine.'\n    yield '\\ud800'\n"
    )
    pytester.makepyprojecttoml("[tool.binary_checks]\nchecks = ['my_checks.py']\n")
    result = run(NAME, "-k", "mine", "-n", "1", "--binary-report", "sarif:report.sarif")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"mine: {NAME}: \\ud800" in result.outlines
    assert "\\\\ud800" in (pytester.path / "report.sarif").read_text("utf-8")


def test_a_package_given_beside_that_is_broken_is_not_the_judged_ones_fault(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    (pytester.path / "bad-1.0-py3-none-any.whl").write_bytes(b"no zip")
    check = "missing-library"
    result = run(f"{NAME}::{check}", "--binary-with", "bad-1.0-py3-none-any.whl")
    assert result.ret == TRY_AGAIN
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"{check}: {NAME}: given alongside the package: bad-1.0-*"])
    assert "Traceback" not in result.stdout.str()


def test_a_program_that_is_no_python_is_an_error_of_one_line(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    program = pytester.path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    if sys.platform == "win32":
        pytest.skip("scripts are no programs here")
    result = run(f"{NAME}::import-fails", "--binary-python", program, static=False)
    result.assert_outcomes(errors=1)
    line = f"import-fails: {NAME}: {program}: not a Python: it made no virtual environment"
    assert line in result.outlines


@pytest.mark.parametrize(
    "arguments",
    [
        ("--binary-profile", "a" * 5_000),
        ("--binary-profile", "a" * 300),
        ("--binary-python", "a" * 300),
        ("--binary-with", f"{'a/' * 2_000}x.whl"),
        ("--binary-require", "a" * 4_000),
        ("--binary-requirements-folder", "a" * 300),
        ("--binary-facts", "a" * 300),
        ("--binary-report", "sarif:a/" * 3_000),
        ("--binary-explain", "a" * 4_000),
        ("-k", "\x1b[31m\n::error::x"),
        ("--junit-xml=\x1b[31m\n##vso[task.complete]x",),
        ("a" * 300 + ".whl",),
        (f"{NAME}::{'a' * 300}",),
        ("--nonsense\x1b[31m",),
        ("inspect", "a" * 300 + ".whl"),
        ("inspect", NAME, "--binary-profile", "a" * 300),
        ("inspect", NAME, "--binary-with", "a" * 300),
        ("inspect", NAME, "--\u202e::error::"),
    ],
    ids=str,
)
def test_whatever_an_argument_is_it_is_refused_in_one_line(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    healthy(pytester.path)
    named = () if any(each.startswith((NAME, "a" * 300)) for each in arguments) else (NAME,)
    result = run_command(*arguments, *named)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = [line for line in (*result.outlines, *result.errlines) if ": " in line]
    (line,) = (line for line in told if line.startswith(("ERROR: ", "binary-checks: ")))
    assert len(line) <= 520
    assert_harmless(line)


@pytest.mark.parametrize(
    "line",
    [
        r'extends = "a\u0000b.toml"',
        f'extends = "{"a" * 5_000}"',
        f'extends = "{"a" * 5_000}.toml"',
        "timeout = 1" + "0" * 400,
        "timeout = 0x" + "f" * 5_000,
        "objects = 0x" + "f" * 5_000,
        "enable = [0x" + "f" * 5_000 + "]",
        "objects = " + "9" * 5_000,
        r'enable = ["\u001b::error::"]',
        '"\\u202e##[group]" = 1',
        '[options.unexpected-tag]\nexpected = "("',
        f'[options.unexpected-tag]\nexpected = "{"(" * 2_000}"',
        f'[[known_problems]]\ncheck = "{"a" * 5_000}"\nreason = "r"',
        f'enable = ["{"a" * 5_000}"]',
        f'"{"k" * 5_000}" = 1',
        f'[options."{"a" * 5_000}"]',
        'checks = ["gone.py"]',
    ],
    ids=lambda line: line[:40],
)
def test_whatever_a_profile_says_it_is_refused_in_one_line(
    pytester: pytest.Pytester, line: str
) -> None:
    healthy(pytester.path)
    (pytester.path / "own.toml").write_text(f"{line}\n")
    result = run_command("--binary-profile", "own.toml", NAME)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (told,) = (each for each in result.errlines if each)
    assert told.startswith(("binary-checks: profile ", "binary-checks: checks file gone.py: "))
    assert len(told) <= 520
    assert_harmless(told)
