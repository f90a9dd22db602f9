from __future__ import annotations

import io
import zipfile

import pytest

from fixtures.fuzz.zip_parts import take_apart
from fixtures.fuzz.zip_seeds import find_structures

SEEDS = {seed.name: seed.content for seed in find_structures(None)}


@pytest.mark.parametrize("name", SEEDS)
def test_an_archive_taken_apart_is_written_as_it_was(name: str) -> None:
    assert take_apart(SEEDS[name]).write() == SEEDS[name]


def test_offsets_follow_from_the_parts() -> None:
    content = next(iter(SEEDS.values()))
    parts = take_apart(content)
    parts.prefix, parts.end64, parts.locator = b"prefix", {}, {}
    parts.members[0].comment = b"of a member"
    parts.comment = b"of the archive"
    with zipfile.ZipFile(io.BytesIO(parts.write())) as archive:
        assert archive.testzip() is None
        assert archive.comment == b"of the archive"
        assert archive.infolist()[0].comment == b"of a member"
        assert archive.infolist()[0].header_offset == 6
