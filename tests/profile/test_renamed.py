"""A profile may still use the id that a check had before it was renamed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from binary_checks.declaring import Check, check, find_checks, find_renamed
from binary_checks.errors import ProfileError
from binary_checks.model import Finding, Level, Problem, Wheel
from binary_checks.profile.fingerprint import identify_profile
from binary_checks.profile.found import say_renamed
from binary_checks.profile.reading import Profile, load_profile, validate


@check(enabled=False, formerly=("wrong-hue", "bad-colour"))
def wrong_colour(package: Wheel, *, colour: str = "", shades: int = 0) -> Iterator[Finding]:
    """The package has the wrong colour."""
    yield f"{package.name} is not {colour} in {shades} shades"


def load(folder: Path, text: str, name: str = "x.toml") -> Profile:
    (folder / name).write_text(text, encoding="utf-8")
    return validate(load_profile(str(folder / name)), [wrong_colour])


def test_every_table_of_a_profile_understands_a_former_id(tmp_path: Path) -> None:
    profile = load(
        tmp_path,
        """
        enable = ["bad-colour"]
        disable = ["wrong-hue"]
        [options.wrong-hue]
        colour = "red"
        [levels]
        wrong-hue = "warning"
        [[known_problems]]
        check = "wrong-hue"
        reason = "it is meant to be blue"
        """,
    )
    assert profile.enable == profile.disable == {"wrong-colour"}
    assert profile.options == {"wrong-colour": {"colour": "red"}}
    assert profile.level_of("wrong-colour", "", Level.ERROR) is Level.WARNING
    (known,) = profile.waivers("wrong-colour", "demo.whl")
    assert known.accepts(Problem(sentence="is blue"), date(2026, 1, 1))
    assert list(say_renamed("profile x.toml", profile.renamed)) == [
        "profile x.toml: bad-colour is called wrong-colour now",
        "profile x.toml: wrong-hue is called wrong-colour now",
    ]


def test_a_profile_with_present_ids_says_nothing_of_former_ones(tmp_path: Path) -> None:
    assert not load(tmp_path, "enable = ['wrong-colour']").renamed


def test_a_profile_is_the_same_one_under_either_id(tmp_path: Path) -> None:
    text = "[options.wrong-hue]\nshades = 3\n[levels]\nwrong-hue = 'warning'\n"
    before = load(tmp_path, text)
    after = load(tmp_path, text.replace("wrong-hue", "wrong-colour"))
    assert identify_profile(before) == identify_profile(after)


@pytest.mark.parametrize(
    ("base", "own"), [("wrong-hue", "wrong-colour"), ("wrong-colour", "wrong-hue")]
)
def test_a_profile_prevails_over_the_one_it_extends_under_either_id(
    tmp_path: Path, base: str, own: str
) -> None:
    load(
        tmp_path,
        f"[options.{base}]\ncolour = 'red'\nshades = 3\n[levels]\n{base} = 'off'\n",
        "base.toml",
    )
    profile = load(
        tmp_path,
        f"extends = 'base.toml'\n[options.{own}]\ncolour = 'blue'\n[levels]\n{own} = 'warning'\n",
    )
    assert profile.options == {"wrong-colour": {"colour": "blue", "shades": 3}}
    assert profile.level_of("wrong-colour", "", Level.ERROR) is Level.WARNING


def test_an_id_that_no_check_ever_had_is_still_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="unknown check 'wrong-shade'"):
        load(tmp_path, "enable = ['wrong-shade']")


def test_a_check_of_its_own_keeps_an_id_that_another_had_before() -> None:
    def wrong_hue(package: Wheel) -> Iterator[Finding]:
        yield f"{package.name} has the wrong hue"

    own: Check[[Wheel]] = check(wrong_hue)
    assert find_renamed([wrong_colour, own]) == {"bad-colour": "wrong-colour"}


def test_no_two_checks_of_ours_had_the_same_id_before() -> None:
    every = find_checks()
    former = [name for each in every for name in each.formerly]
    assert len(former) == len({*former} - {each.id for each in every})
