"""A profile sets the level of a check's problems, for all paths or some."""

from __future__ import annotations

from pathlib import Path

from binary_checks.declaring import find_checks
from binary_checks.model import Level
from binary_checks.profile import Profile, load_profile, validate

CHECKS = {check.id: check for check in find_checks()}


def load(folder: Path, text: str, name: str = "own.toml") -> Profile:
    (folder / name).write_text(text, encoding="utf-8")
    return validate(load_profile(str(folder / name)), CHECKS.values())


def level(profile: Profile, path: str = "", own: Level = Level.ERROR) -> Level:
    return profile.level_of("executable-stack", path, own)


def test_without_a_word_a_problem_matters_as_its_check_says() -> None:
    assert level(Profile()) is Level.ERROR
    assert level(Profile(), own=Level.WARNING) is Level.WARNING


def test_a_level_of_a_check_is_that_of_all_its_problems(tmp_path: Path) -> None:
    profile = load(tmp_path, "[levels]\nexecutable-stack = 'warning'\n")
    assert level(profile, "any/path.so") is Level.WARNING
    assert profile.level_of("missing-library", "any/path.so", Level.ERROR) is Level.ERROR
    graver = load(tmp_path, "[levels]\nexecutable-stack = 'error'\n")
    assert level(graver, own=Level.WARNING) is Level.ERROR


def test_the_first_glob_that_matches_counts(tmp_path: Path) -> None:
    profile = load(
        tmp_path,
        "[levels.executable-stack]\n'demo/old/*' = 'off'\n'demo/*' = 'warning'\n",
    )
    assert level(profile, "demo/old/a.so") is Level.OFF
    assert level(profile, "demo/a.so") is Level.WARNING
    assert level(profile, "other/a.so") is Level.ERROR


def test_strict_makes_every_warning_an_error_and_leaves_off_what_is_off(tmp_path: Path) -> None:
    table = "[levels.executable-stack]\n'a' = 'off'\n'*' = 'warning'\n"
    strict = Profile(strict=True, levels=load(tmp_path, table).levels)
    assert level(strict, "b") is Level.ERROR
    assert level(strict, "a") is Level.OFF
    assert strict.level_of("another", "", Level.WARNING) is Level.ERROR


def test_a_check_that_is_off_everywhere_does_not_run(tmp_path: Path) -> None:
    everywhere = load(tmp_path, "[levels]\nexecutable-stack = 'off'\n")
    somewhere = load(tmp_path, "[levels.executable-stack]\n'demo/*' = 'off'\n")
    assert not everywhere.selects(CHECKS["executable-stack"])
    assert somewhere.selects(CHECKS["executable-stack"])


def test_a_level_enables_a_check_that_is_off_by_default(tmp_path: Path) -> None:
    check = CHECKS["debug-information"]
    assert not Profile().selects(check)
    assert load(tmp_path, "[levels]\ndebug-information = 'warning'\n").selects(check)
    assert not load(tmp_path, "[levels.debug-information]\n'a/*' = 'off'\n").selects(check)


def test_the_levels_of_an_extended_profile_hold_where_no_own_one_does(tmp_path: Path) -> None:
    load(tmp_path, "[levels.executable-stack]\n'a/*' = 'off'\n'b/*' = 'warning'\n", "base.toml")
    profile = load(tmp_path, "extends = 'base.toml'\n[levels.executable-stack]\n'a/*' = 'error'\n")
    assert level(profile, "a/x", Level.WARNING) is Level.ERROR
    assert level(profile, "b/x") is Level.WARNING
