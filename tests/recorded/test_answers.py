"""The inputs of all tests, and their neighbours, are answered as before."""

from __future__ import annotations

import sys

import pytest

from fixtures.recorded.digests import PARTS, find_changed

pytest.importorskip("zstandard")
pytest.importorskip("lz4.block")
ADVICE = """\
{count} of the recorded {kind} are answered otherwise, the first is {first}. Compare
`python -m fixtures.recorded show {kind} {first}` in a checkout of the earlier commit with this one;
if it is as intended, `python -m fixtures.recorded keep`.
"""


@pytest.mark.parametrize("part", range(PARTS))
def test_objects_are_read_as_before(part: int) -> None:
    changed = find_changed("objects", part)
    assert not changed, _advise("objects", changed)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="its csv reads a RECORD with NUL otherwise")
@pytest.mark.parametrize("part", range(PARTS))
def test_archives_are_read_as_before(part: int) -> None:
    changed = find_changed("archives", part)
    assert not changed, _advise("archives", changed)


@pytest.mark.parametrize("part", range(PARTS))
def test_facts_are_judged_as_before(part: int) -> None:
    changed = find_changed("calls", part)
    assert not changed, _advise("calls", changed)


def _advise(kind: str, changed: list[int]) -> str:
    return ADVICE.format(count=len(changed), kind=kind, first=changed[0])
