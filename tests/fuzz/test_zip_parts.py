from __future__ import annotations

import io
import zipfile

from fixtures.fuzz.zip_parts import take_apart
from fixtures.fuzz.zip_seeds import find_structures


def test_offsets_follow_from_the_parts() -> None:
    parts = take_apart(next(find_structures(None)).content)
    parts.prefix, parts.end64, parts.locator = b"prefix", {}, {}
    parts.members[0].comment = b"of a member"
    parts.comment = b"of the archive"
    with zipfile.ZipFile(io.BytesIO(parts.write())) as archive:
        assert archive.testzip() is None
        assert archive.comment == b"of the archive"
        assert archive.infolist()[0].comment == b"of a member"
        assert archive.infolist()[0].header_offset == 6
