"""What facts want is kept while a package is read: chosen by its list, and within one budget."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from binary_checks.model import ContentRequest, TreeEntry, VisitRequest
from binary_checks.trees import open_tree
from binary_checks.trees.kept_bytes import BoundedContentStore
from binary_checks.trees.members import WHOLE
from fixtures.build_conda import build_conda
from fixtures.build_wheel import build_wheel
from fixtures.fake_reader import FakeReader


def is_source(entry: TreeEntry) -> bool:
    return entry.name.endswith(".py")


def is_library(entry: TreeEntry) -> bool:
    return entry.name.endswith(".so")


LARGE = "x" * (WHOLE + 1)
SOURCES = ContentRequest(chooses=is_source, longest=10 << 20)


def read(path: Path, *wants: ContentRequest) -> BoundedContentStore:
    kept = BoundedContentStore(wants)
    with closing(open_tree(path)) as tree:
        tree.visit(FakeReader(), VisitRequest(store=kept))
    return kept


def sizes(kept: BoundedContentStore, names: Sequence[str]) -> list[int | None]:
    found = [kept.find(name) for name in names]
    return [None if content is None else len(content) for content in found]


def build(folder: Path, **members: str) -> Path:
    return build_wheel(folder, members={f"demo/{name}": text for name, text in members.items()})


@pytest.mark.parametrize("most", [1, 1 << 30])
def test_small_and_large_members_are_kept_in_memory_or_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("binary_checks.trees.kept_bytes._IN_MEMORY", most)
    path = build(tmp_path, **{"a.py": "import b", "b.py": LARGE, "c.txt": "no source"})
    with closing(read(path, SOURCES)) as kept:
        assert kept.find("demo/a.py") == b"import b"
        assert kept.find("demo/b.py") == LARGE.encode()
        assert kept.find("demo/c.txt") is None


def test_a_folder_and_a_stream_keep_the_same(tmp_path: Path) -> None:
    pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")
    names = ("lib/a.py", "lib/b.py")
    path = build_conda(tmp_path / "conda", members={names[0]: "import b", names[1]: LARGE})
    with closing(read(path, SOURCES)) as kept:
        assert sizes(kept, names) == [8, len(LARGE)]
    (tmp_path / "lib").mkdir()
    for name, text in zip(names, ("import b", LARGE), strict=True):
        (tmp_path / name).write_text(text)
    with closing(read(tmp_path, SOURCES)) as kept:
        assert sizes(kept, names) == [8, len(LARGE)]


def test_what_is_longer_than_wanted_is_not_kept(tmp_path: Path) -> None:
    path = build(tmp_path, **{"a.py": "1234", "b.py": "12345"})
    with closing(read(path, ContentRequest(chooses=is_source, longest=4))) as kept:
        assert sizes(kept, ("demo/a.py", "demo/b.py")) == [4, None]


def test_nothing_is_kept_for_a_fact_that_asks_only_beside_libraries(tmp_path: Path) -> None:
    want = ContentRequest(chooses=is_source, longest=99, only_with=is_library)
    with closing(read(build(tmp_path, **{"a.py": "1"}), want)) as kept:
        assert kept.find("demo/a.py") is None
    with closing(read(build(tmp_path, **{"a.py": "1", "b.so": ""}), want)) as kept:
        assert kept.find("demo/a.py") == b"1"


def test_members_are_charged_by_their_listed_sizes_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binary_checks.trees.kept_bytes._MOST", len(LARGE) + 4)
    path = build(tmp_path, **{"a.py": "1234", "b.py": "12345" + LARGE, "c.py": LARGE, "d.py": "1"})
    with closing(read(path, SOURCES)) as kept:
        names = tuple(f"demo/{name}.py" for name in "abcd")
        assert sizes(kept, names) == [4, None, len(LARGE), None]


def test_of_two_members_of_one_name_the_last_is_kept(tmp_path: Path) -> None:
    path = build(tmp_path, **{"a.py": "first", "b.py": "second"})
    content = path.read_bytes().replace(b"demo/b.py", b"demo/a.py")
    path.write_bytes(content)
    with closing(read(path, SOURCES)) as kept:
        assert kept.find("demo/a.py") == b"second"


def test_broken_members_are_not_kept(tmp_path: Path) -> None:
    path = build(tmp_path, **{"a.py": "first" * 99})
    content = path.read_bytes()
    start = content.index(b"demo/a.py") + len(b"demo/a.py")
    path.write_bytes(content[:start] + b"\xff" * 4 + content[start + 4 :])
    with closing(read(path, SOURCES)) as kept:
        assert kept.find("demo/a.py") is None
