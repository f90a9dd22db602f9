"""Which items there are, what they are called, and when nothing was verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.slow import slow
from tests.plugin.conftest import NAME, Run, faulty, healthy


def test_packages_in_a_walked_folder_are_left_alone(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path / "dist")
    pytester.makepyfile("def test_own(): pass")
    run(".").assert_outcomes(passed=1)


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_two_packages_of_one_name_outside_the_root_do_not_merge_and_stay_on_one_worker(
    pytester: pytest.Pytester, run: Run, tmp_path: Path, workers: list[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    one, two = faulty(elsewhere / "one"), healthy(elsewhere / "two")
    single = run(one, "-m", "linkage").parseoutcomes()
    result = run(one, two, "-v", "-m", "linkage", *workers)
    counts = result.parseoutcomes()
    assert sum(counts.get(k, 0) for k in ("passed", "failed", "skipped")) == 2 * sum(
        single.get(k, 0) for k in ("passed", "failed", "skipped")
    )
    assert counts["failed"] == single["failed"]
    text = result.stdout.str()
    assert f"one/{NAME}::absolute-search-path" in text
    assert f"two/{NAME}::absolute-search-path" in text
    judged_by = {
        (line.split("::")[0].split()[-1], line.split("]")[0])
        for line in result.outlines
        if line.startswith("[gw") and "::" in line
    }
    assert len(judged_by) == (2 if workers else 0)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("duplicate-rpath", f"not found: {NAME}::duplicate-rpath: it does not apply"),
        ("orphan-library", "orphan-library is off: enable it in a profile, or "),
        ("absolute-search-pth", "no check is called 'absolute-search-pth'; did you mean absolute-"),
    ],
)
def test_a_check_that_does_not_run_cannot_be_named(
    pytester: pytest.Pytester, run: Run, check: str, said: str
) -> None:
    healthy(pytester.path)
    result = run(f"{NAME}::{check}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line.startswith(f"ERROR: {said}")]


def test_packages_come_with_other_tests_and_once(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path)
    pytester.makepyfile(test_other="def test_other(): pass")
    result = run(NAME, ".", NAME, "test_other.py", "-v", "-k", "test_other or absolute-search-path")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2, deselected=result.parseoutcomes()["deselected"])


@pytest.mark.parametrize("workers", [[], *slow(["-n", "1"])], ids=["alone", "xdist"])
@pytest.mark.parametrize("selection", [["-k", "no_such_check"], ["-m", "runtime"]])
def test_nothing_inspected_is_never_green(
    pytester: pytest.Pytester, run: Run, selection: list[str], workers: list[str]
) -> None:
    healthy(pytester.path)
    result = run(NAME, *selection, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"{NAME}: nothing was verified (*)"])


def test_the_profile_may_say_that_there_are_objects(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyprojecttoml("[tool.binary_checks]\nobjects = 1\n")
    result = run(healthy(pytester.path, members={"demo/__init__.py": ""}))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"{NAME}: nothing was verified (0 object files*"])
    assert result.parseoutcomes()["deselected"] > 0  # what runs the package


def test_without_packages_the_plugin_is_silent(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_own(): pass")
    result = run(static=False)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*binary_checks:*")
    result.stdout.no_fnmatch_line("*= binary_checks =*")


def test_ids_are_shown_from_the_folder_wherever_packages_lie(
    pytester: pytest.Pytester, run: Run, tmp_path: Path
) -> None:
    outside = faulty(tmp_path / "elsewhere")
    beside = faulty(pytester.path / "beside")
    faulty(pytester.path / "below" / "dist")
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nminversion = '8.0'\n")
    rooted = ("--rootdir", str(pytester.path), "-c", str(pytester.path / "pyproject.toml"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(pytester.path / "below")
        result = run(beside, outside, f"dist/{NAME}", "-rf", "-k", "absolute-search-path", *rooted)
    shown = [line for line in result.outlines if line.startswith("FAILED ")]
    assert [line.split()[1] for line in shown] == [
        f"beside/{NAME}::absolute-search-path",
        f"elsewhere/{NAME}::absolute-search-path",
        f"dist/{NAME}::absolute-search-path",
    ]


def test_the_folder_of_a_package_is_not_walked(pytester: pytest.Pytester, run: Run) -> None:
    """Nobody is offered what lies beside it, and no conftest.py on the way to another is run."""
    healthy(pytester.path / "dist")
    (pytester.path / "dist/test_beside.py").write_text("raise SystemExit('it ran')\n")
    (pytester.path / "tests").mkdir()
    (pytester.path / "tests/test_own.py").write_text("def test_own(): pass\n")
    pytester.makeconftest(
        "def pytest_collect_file(file_path): print('offered', file_path.name)\n"
        "def pytest_collect_directory(path): print('offered', path.name)\n"
    )
    alone = run(f"dist/{NAME}", "-s")
    alone.stdout.no_fnmatch_line("offered *")
    mixed = run(f"dist/{NAME}", "tests/test_own.py", "-s", "-k", "test_own")
    mixed.stdout.fnmatch_lines(["*offered test_own.py"])
    mixed.stdout.no_fnmatch_line("*offered test_beside.py")
    mixed.stdout.no_fnmatch_line("*offered *.whl")


def test_assertions_of_tests_beside_packages_are_explained(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    pytester.makepyfile(test_own="def test_own():\n    one = 1\n    assert one == 2\n")
    result = run(NAME, "test_own.py", "-k", "test_own")
    result.stdout.fnmatch_lines(["E *assert 1 == 2"])


def test_without_packages_no_room_is_loaded(pytester: pytest.Pytester) -> None:
    """Every pytest of a user's would pay for them."""
    pytester.makepyfile(
        """
        import sys

        def test_own(request):
            loaded = [name for name in sys.modules if name.startswith("binary_checks.")]
            assert set(loaded) <= {
                "binary_checks.options", "binary_checks.plugin", "binary_checks.plugin.options"
            }
            assert request.config.pluginmanager.hasplugin("binary_checks")
        """
    )
    named = ("test_without_packages_no_room_is_loaded.py", ".")
    apart = pytester.runpytest_subprocess("--binary-static", *named)
    apart.assert_outcomes(passed=1)
