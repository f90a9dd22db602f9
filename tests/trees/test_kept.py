"""Bytes that are kept read the same from memory and from a file, wherever pieces end."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.model import ContentRequest
from binary_checks.trees import kept_bytes
from binary_checks.trees.kept_bytes import BoundedContentStore, ByteStore


@given(pieces=st.lists(st.binary(min_size=1, max_size=9), min_size=1), data=st.data())
@pytest.mark.parametrize("most", [1, 20, 1 << 20])
def test_any_range_is_what_was_appended(
    most: int, pieces: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(pieces)
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start, len(whole)))
    with pytest.MonkeyPatch.context() as patch, closing(ByteStore()) as found:
        patch.setattr(kept_bytes, "_IN_MEMORY", most)
        for piece in pieces:
            found.append(piece)
        assert found.read(start, end - start) == whole[start:end]


def test_where_the_disk_is_full_nothing_more_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not kept is read again: no verdict depends on it."""

    def refuse(self: ByteStore, piece: bytes) -> None:
        raise OSError(28, "No space left on device")

    entry: Any = SimpleNamespace(name="a.py", stored="a.py", size=1)
    kept_bytes = BoundedContentStore([ContentRequest(chooses=lambda _: True, longest=10)])
    kept_bytes.expect([entry])
    kept_bytes.keep(entry, b"a")
    assert kept_bytes.find("a.py") == b"a"
    monkeypatch.setattr(ByteStore, "append", refuse)
    kept_bytes.keep(entry, b"b")
    assert kept_bytes.find("a.py") is None
    kept_bytes.keep(entry, b"c")
    assert kept_bytes.find("a.py") is None
