"""The contents of members come from the one pass; what was not wanted is read once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.errors import Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.model import Member, Package, Tree
from binary_checks.sources.file import FileSource
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel

CODE = {"demo/__init__.py": "import demo.b", "demo/b.py": "x = 1", "demo/data.json": "{}"}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The package files that were opened, each as often as it was."""
    found: list[Path] = []
    usual = FileSource.open

    def open_tree(source: FileSource) -> Tree:
        found.append(source.path)
        return usual(source)

    monkeypatch.setattr(FileSource, "open", open_tree)
    return found


def find(package: Package, *names: str) -> list[Member]:
    return [each for name in names for each in package.members if each.archive_name == name]


def test_wanted_members_take_no_second_look(tmp_path: Path, opened: list[Path]) -> None:
    path = build_wheel(tmp_path, members={**CODE, "demo/lib.so": build_elf()})
    with examine(path) as facts:
        members = find(facts.get(Package), "demo/__init__.py", "demo/b.py")
        found = dict(facts.get(MemberContents).each(members))
        assert [found[each] for each in members] == [b"import demo.b", b"x = 1"]
    assert opened == [path]


@pytest.mark.parametrize(
    ("more", "room"), [({}, 1 << 20), ({"demo/lib.so": build_elf()}, len(CODE["demo/__init__.py"]))]
)
def test_what_was_not_wanted_or_found_no_room_is_read_again_all_in_one_look(
    tmp_path: Path,
    opened: list[Path],
    more: dict[str, bytes],
    room: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("binary_checks.trees.kept_bytes._MOST", room)
    path = build_wheel(tmp_path, members={**CODE, **more})
    with examine(path) as facts:
        members = find(facts.get(Package), *CODE)
        found = dict(facts.get(MemberContents).each(members))
        assert [found[each] for each in members] == [text.encode() for text in CODE.values()]
    assert opened == [path, path]


def test_a_broken_member_says_so_and_takes_no_second_look(
    tmp_path: Path, opened: list[Path]
) -> None:
    path = build_wheel(tmp_path, members={"demo/b.py": "x = 1\n" * 99})
    content = path.read_bytes()
    start = content.index(b"demo/b.py") + len(b"demo/b.py")
    path.write_bytes(content[:start] + b"\xff" * 4 + content[start + 4 :])
    with examine(path) as facts:
        (member,) = find(facts.get(Package), "demo/b.py")
        with pytest.raises(Unavailable, match=r"^it cannot be read: its compressed data"):
            facts.get(MemberContents).read(member)
    assert opened == [path]
