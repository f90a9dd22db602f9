"""Inputs of cells are frozen with the plan, and unreadable ones are reported."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.nights import make_plan
from binary_checks.fleet.stored_nights import write_plan
from fixtures.package_index import PackageIndex
from tests.fleet.nights.made_plans import (
    CELLS,
    digest,
    index,
    offer,
    plan,
)

pytest.importorskip("urllib3", reason="no urllib3, which asks servers")
__all__ = ["index"]  # a fixture


def test_profiles_known_problems_and_causes_are_frozen_with_all_that_they_name(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "own.toml").write_text('extends = "base.toml"\nchecks = ["own.py"]\n')
    (tmp_path / "conf" / "base.toml").write_text('disable = ["missing-library"]\n')
    (tmp_path / "conf" / "own.py").write_text("# no checks\n")
    (tmp_path / "known.toml").write_text(
        '[[known_problems]]\ncheck = "missing-library"\nreason = "x"\n'
    )
    text = (
        '[night]\nknown_problems = "known.toml"\n'
        f'{CELLS}[[run]]\nwhen = "project=demo"\nprofile = "conf/own.toml"\n'
    )
    made = plan(tmp_path, text)
    frozen = {path: made.frozen[sha256] for path, sha256 in made.plan.profiles.items()}
    assert frozen.keys() == {"conf/own.toml", "conf/base.toml", "conf/own.py"}
    assert frozen["conf/base.toml"] == b'disable = ["missing-library"]\n'
    assert made.plan.cells[0].profile == "conf/own.toml"
    assert made.plan.profiles["conf/own.toml"] == digest(tmp_path / "conf" / "own.toml")
    assert made.plan.known_sha256 == digest(tmp_path / "known.toml")
    assert made.frozen[made.plan.cells_sha256] == text.encode()
    assert all(hashlib.sha256(each).hexdigest() == name for name, each in made.frozen.items())


def test_of_profiles_of_one_name_each_cell_has_its_own(index: PackageIndex, tmp_path: Path) -> None:
    offer(index, tmp_path, "py3-none-any")
    (tmp_path / "gpu").mkdir()
    for path in ("gpu/own.toml", "own.toml"):
        (tmp_path / path).write_text('disable = ["missing-library"]\n')
    text = f'{CELLS}[[run]]\nwhen = "project=demo"\nprofile = "./own.toml"\n'
    text += '[[run]]\nwhen = "python=3.12"\nprofile = "gpu/own.toml"\n'
    made = plan(tmp_path, text).plan
    assert {each.cell.python: each.profile for each in made.cells} == {
        "3.11": "own.toml",
        "3.12": "gpu/own.toml",
    }


def test_causes_are_frozen_and_bad_ones_end_the_plan(index: PackageIndex, tmp_path: Path) -> None:
    (tmp_path / "causes.toml").write_text("")
    made = plan(tmp_path, '[night]\ncauses = "causes.toml"\n' + CELLS)
    assert made.plan.causes_sha256 == digest(tmp_path / "causes.toml")
    (tmp_path / "causes.toml").write_text("[[cause]]\n")
    with pytest.raises(ProfileError, match=r"causes\.toml:1: unknown key 'cause'"):
        plan(tmp_path, '[night]\ncauses = "causes.toml"\n' + CELLS)


def test_without_known_problems_that_can_be_read_no_waiver_holds_and_the_plan_says_so(
    index: PackageIndex, tmp_path: Path
) -> None:
    (tmp_path / "known.toml").write_text("[[known_problem]]\n")
    made = plan(tmp_path, '[night]\nknown_problems = "known.toml"\n' + CELLS).plan
    assert made.known_sha256 == ""
    assert "unknown key 'known_problem'; did you mean 'known_problems'?" in made.known_complaint


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('profile = "nowhere.toml"', "No such file"),
        ('profile = "torhc"', "neither a shipped profile nor a .toml file"),
    ],
)
def test_a_profile_that_is_not_there_ends_the_plan(rule: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=said):
        plan(tmp_path, f'{CELLS}[[run]]\nwhen = "project=demo"\n{rule}\n')


def test_a_night_is_a_day(tmp_path: Path) -> None:
    (tmp_path / "cells.toml").write_text(CELLS)
    matrix = read_cells(tmp_path / "cells.toml")
    for night in ("20261120", "2026-11-31", "tonight"):
        with pytest.raises(ProfileError, match="not a date"):
            make_plan(matrix, night)


LIST = """
issued = 2026-11-01
valid_until = 2126-11-01
[[known_problems]]
check = "missing-library"
reason = "x"
"""


def test_a_list_behind_a_url_is_fetched_once_and_frozen(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    index.conduct["/known.toml"].body = LIST.encode()
    url = f"{index.url}/known.toml"
    made = plan(tmp_path, f'[night]\nknown_problems = "{url}?token=s3cret"\n{CELLS}')
    assert made.frozen[made.plan.known_sha256] == LIST.encode()
    assert (made.plan.known_source, made.plan.known_remark) == (url, "")
    assert len([each for each in index.asked if "known.toml" in each]) == 1
    assert b"s3cret" not in write_plan(made.plan)
    index.conduct["/known.toml"].failures = [500] * 9
    again = plan(tmp_path, f'[night]\nknown_problems = "{url}?token=s3cret"\n{CELLS}')
    assert again.plan.known_sha256 == made.plan.known_sha256
    assert "answers 500" in again.plan.known_remark


def test_without_its_list_a_night_has_no_waiver_and_says_why(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    index.conduct["/known.toml"].body = b"valid_until = 2025-11-01"
    url, pinned = f"{index.url}/known.toml", f"{index.url}/known.toml#sha256={'0' * 64}"
    made = plan(tmp_path, f'[night]\nknown_problems = "{url}"\n{CELLS}').plan
    assert made.known_sha256 == ""
    assert made.known_complaint == (f"known list unavailable: {url}: it was valid until 2025-11-01")
    made = plan(tmp_path, f'[night]\nknown_problems = "{pinned}"\n{CELLS}').plan
    assert made.known_sha256 == ""
    assert f"not {'0' * 64} as requested" in made.known_complaint
