"""Files in a folder are visited as the members of an archive are, and none outside of it."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from binary_checks.errors import PackageError
from binary_checks.model import Tree, Visited, VisitRequest
from binary_checks.trees import open_tree
from binary_checks.trees.folder import FolderTree
from binary_checks.trees.members import WHOLE
from fixtures.fake_reader import FakeReader

ELF = b"\x7fELF"
CONTENTS = {
    "demo/a.so": ELF.ljust(200),
    "demo/large.so": ELF.ljust(3 * WHOLE),
    "demo/code.py": ELF.ljust(50),
    "demo/long.py": b"#" * (2 * WHOLE) + b"sought",
    "demo/text.txt": b"kept",
    "demo/other.txt": b"far too long",
}


def write(folder: Path) -> Path:
    for name, content in CONTENTS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def pack(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in CONTENTS.items():
            archive.writestr(name, content)
    return path


class Watching:
    """Collects what the sources are, in whatever pieces they come."""

    def __init__(self) -> None:
        self.seen: dict[str, bytes] = {}

    def watch(self, name: str) -> Callable[[bytes], object] | None:
        if not name.endswith(".py"):
            return None

        def see(piece: bytes) -> None:
            self.seen[name] = self.seen.get(name, b"") + piece

        return see


def visit(tree: Tree, wanted: VisitRequest) -> dict[str, Visited]:
    visited = tree.visit(FakeReader(), wanted)
    return {each.member.archive_name: each for each in visited}


def facts(visited: dict[str, Visited]) -> dict[str, object]:
    return {
        name: (v.member.path, v.member.size, v.member.sha256, v.member.faults, *v[1:])
        for name, v in visited.items()
    }


def test_a_folder_and_an_archive_give_the_same_visited_members(tmp_path: Path) -> None:
    once, twice = Watching(), Watching()
    wanted = VisitRequest(
        place=lambda name: f"lib/{name}",
        texts={"demo/text.txt": 4, "demo/other.txt": 400},
        watches=(once.watch, twice.watch),
    )
    folder, archive = open_tree(write(tmp_path / "folder")), open_tree(pack(tmp_path / "x.zip"))
    with closing(folder), closing(archive):
        found, seen = visit(folder, wanted), dict(once.seen)
        once.seen.clear()
        packed = visit(archive, wanted)
    assert facts(found) == facts(packed)
    sources = {name: content for name, content in CONTENTS.items() if name.endswith(".py")}
    assert seen == once.seen == sources
    assert twice.seen == {name: 2 * content for name, content in sources.items()}
    assert found["demo/text.txt"].content == b"kept"
    assert [each.path for each in found["demo/large.so"].objects] == ["lib/demo/large.so"]
    assert found["demo/code.py"].member.faults == (
        "its name is that of source code, but its first bytes are ELF",
    )
    for name, content in CONTENTS.items():
        assert found[name].member.sha256 == hashlib.sha256(content).hexdigest()


def test_a_text_longer_than_wanted_is_not_kept_and_a_fault(tmp_path: Path) -> None:
    (tmp_path / "METADATA").write_bytes(b"x" * (WHOLE + 1))
    (found,) = visit(open_tree(tmp_path), VisitRequest(texts={"METADATA": WHOLE})).values()
    assert found.content is None
    assert found.member.faults == (f"it has {WHOLE + 1} bytes; at most {WHOLE} are read",)


def test_a_member_is_read_alone_and_its_head_alone(tmp_path: Path) -> None:
    for tree in (open_tree(write(tmp_path / "folder")), open_tree(pack(tmp_path / "x.zip"))):
        with closing(tree):
            entry = tree.find("demo/long.py")
            assert entry is not None
            assert b"".join(tree.pieces(entry)) == CONTENTS["demo/long.py"]
            assert list(tree.heads([entry])) == [b"#" * 64]


def test_without_hashes_objects_are_read_all_the_same(tmp_path: Path) -> None:
    found = visit(open_tree(write(tmp_path)), VisitRequest(hashed=False))
    assert {each.member.sha256 for each in found.values()} == {""}
    assert [name for name, each in found.items() if each.objects] == [
        "demo/a.so",
        "demo/code.py",
        "demo/large.so",
    ]


def test_only_the_members_that_were_asked_for_are_visited(tmp_path: Path) -> None:
    for tree in (open_tree(write(tmp_path / "folder")), open_tree(pack(tmp_path / "x.zip"))):
        with closing(tree):
            only = [each for each in tree.entries() if each.name.endswith(".so")]
            assert set(visit(tree, VisitRequest(only=only))) == {"demo/a.so", "demo/large.so"}


@pytest.mark.skipif(os.name != "posix", reason="Windows has other absolute paths")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../../outside", "it is outside the environment"),
        ("/etc/passwd", "it is outside the environment"),
        ("demo/\0", "it is outside the environment"),
        ("demo/none", "LIST names it, and it is not there: No such file"),
        ("demo", "LIST names it, and it is not a regular file"),
        ("x" * 5000, "LIST names it, and it is not there: File name too long"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path, name: str, said: str) -> None:
    site = write(tmp_path / "env/site")
    (tmp_path / "outside").write_bytes(ELF)
    tree = FolderTree(site, root=site, within=tmp_path / "env", listed_by="LIST")
    (found,) = visit(tree, VisitRequest(only=[tree.find(name)])).values()
    assert found.objects == ()
    assert found.member.sha256 == ""
    assert said in found.member.faults[0]


def test_what_lies_beside_the_root_is_named_by_its_place_in_the_environment(tmp_path: Path) -> None:
    site, script = tmp_path / "env/site", tmp_path / "env/bin/demo"
    site.mkdir(parents=True)
    script.parent.mkdir()
    script.write_text("#!")
    tree = FolderTree(site, root=site, within=tmp_path / "env")
    entry = tree.find("../bin/demo")
    assert (entry.name, entry.stored, entry.size) == ("../bin/demo", "bin/demo", 2)


def test_a_file_of_no_known_form_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.unknown").write_bytes(b"text")
    for name, said in (
        ("x.unknown", "nor a known kind of archive"),
        ("gone.unknown", "no such file"),
    ):
        with pytest.raises(PackageError, match=said) as caught:
            open_tree(tmp_path / name)
        assert str(caught.value).startswith(f"{name}: ")


@pytest.mark.skipif(os.name == "nt", reason="neither FIFOs nor links for all")
def test_a_whole_folder_says_what_is_no_file_and_follows_no_circle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "lost").symlink_to("nowhere")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "here").symlink_to(".")
    with closing(open_tree(tmp_path)) as tree:
        visited = {
            each.member.path: each.member for each in tree.visit(FakeReader(), VisitRequest())
        }
    assert visited["fifo"].faults == ("it is not a regular file",)
    assert visited["circle"].target == "circle"
    assert visited["lost"].target == "nowhere"
    assert visited["up"].faults == (f"it links to {tmp_path.parent}, outside of the folder",)
    assert visited["here"].target == "."
