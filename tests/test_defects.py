"""The list of defects is sound: each can be made, and names a check of ours."""

from __future__ import annotations

from collections import Counter

from binary_checks.declaring import find_checks
from binary_checks.model import UNREADABLE
from fixtures.defects.page import PAGE, format_thirty, read_thirty
from fixtures.defects.table import AREAS, read_defects, wheels_of
from fixtures.sweep.fetch import read_list

DEFECTS = read_defects()


def test_there_are_many_in_every_area() -> None:
    counts = Counter(defect.area for defect in DEFECTS)

    assert sum(counts.values()) >= 120
    assert counts.keys() == {*AREAS}


def test_each_has_a_name_says_what_users_see_and_can_be_made_of_a_wheel_of_the_sweep() -> None:
    names = Counter(defect.name for defect in DEFECTS)
    known = {check.id for check in find_checks()} | {UNREADABLE}
    small = tuple(defect for defect in DEFECTS if not defect.large)

    assert [name for name, count in names.items() if count > 1] == []
    assert [defect.name for defect in DEFECTS if not defect.users] == []
    assert [defect.name for defect in DEFECTS if defect.check not in known] == []
    assert all(callable(edit.function) for defect in DEFECTS for edit in defect.edits)
    assert wheels_of(small) <= {wheel.file for wheel in read_list()}


def test_the_page_shows_the_faults_of_someone_who_had_not_read_the_checks() -> None:
    section = "\n".join(format_thirty(read_thirty()))

    assert PAGE.read_text(encoding="utf-8").endswith(f"\n{section}\n")
    assert not [f for f in read_thirty() if f.static not in {"named", "other", "passes"}]
