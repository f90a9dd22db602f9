"""Whatever a package file is, its report is one clear line, and the exit status the contract's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.build_wheel import OMIT, Entry
from tests.plugin.conftest import NAME, Run, healthy


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
