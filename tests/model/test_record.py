"""A wheel's RECORD and that of its installed copy have the same hash; others do not."""

from __future__ import annotations

import hashlib

import pytest

from binary_checks.model import RecordRow, hash_record

ABOUT = "demo-1.0.dist-info"


def row(path: str, content: str = "x") -> RecordRow:
    return RecordRow(path=path, hash=f"sha256={content}" if content else "", size=1)


OWN = (row("demo/__init__.py"), row(f"{ABOUT}/METADATA"))
BUILT = hash_record(ABOUT, (*OWN, RecordRow(path=f"{ABOUT}/RECORD")))


@pytest.mark.parametrize(
    "added",
    [
        row(f"{ABOUT}/INSTALLER"),
        row(f"{ABOUT}/REQUESTED"),
        row(f"{ABOUT}/direct_url.json"),
        row(f"{ABOUT}/uv_cache.json"),
        row("../../../bin/demo"),
        row("/usr/share/demo"),
        row("C:/Python/demo"),
        RecordRow(path="demo/__pycache__/__init__.cpython-311.pyc"),
    ],
    ids=lambda added: added.path,
)
def test_what_installers_add_does_not_count(added: RecordRow) -> None:
    assert hash_record(ABOUT, (added, *OWN)) == BUILT


def test_the_hash_is_that_of_sorted_lines_of_path_and_hash_and_size() -> None:
    sized = RecordRow(path="b.py", hash="sha256=x", size=12)
    unsized = RecordRow(path="a.py", hash="", size=None)
    lines = hashlib.sha256(b"a.py,,\nb.py,sha256=x,12").hexdigest()
    assert hash_record(ABOUT, (sized, unsized)) == lines


def test_what_a_scheme_puts_elsewhere_counts_where_it_lands() -> None:
    built = (row("demo-1.0.data/platlib/demo/a.so"), row("demo-1.0.data/scripts/demo"), *OWN)
    installed = (row("demo/a.so"), row("../../../bin/demo", "rewritten"), *OWN)
    assert hash_record(ABOUT, built) == hash_record(ABOUT, installed) != BUILT


@pytest.mark.parametrize(
    "rows",
    [
        OWN[:1],
        (*OWN, row("demo/more.py")),
        (row("demo/__init__.py", "y"), OWN[1]),
        (*OWN, row("demo/__pycache__/shipped.pyc")),
        (*OWN, row("demo/INSTALLER")),
    ],
)
def test_another_package_has_another(rows: tuple[RecordRow, ...]) -> None:
    assert hash_record(ABOUT, rows) != BUILT
