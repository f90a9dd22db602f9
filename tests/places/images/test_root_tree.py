"""A root is unpacked from a stream that nobody vouches for, to the same tree each time."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from binary_checks.errors import GatherError
from binary_checks.model.root_filesystem import MOUNT_POINTS, ImagePackage
from binary_checks.places.images import root_tree
from binary_checks.places.images.root_tree import digest_tree, stamp_tree, unpack_root
from fixtures.root_streams import Entry, device, file, folder, link, stream


def unpack(root: Path, *entries: Entry) -> tuple[ImagePackage, ...]:
    return unpack_root(stream(entries), root)


def test_folders_files_and_links_are_unpacked_with_modes_of_ours(tmp_path: Path) -> None:
    root = tmp_path / "root"
    unpack(
        root,
        folder("./usr/"),
        file("./usr/bin/tool", b"x", mode=0o4755),
        file("./usr/bin/text", b"y", mode=0o600),
        link("./usr/bin/other", "tool"),
        link("./usr/bin/same", "usr/bin/text", hard=True),
    )
    assert (root / "usr/bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (root / "usr/bin/text").stat().st_mode & 0o7777 == 0o644
    assert (root / "usr/bin/other").readlink() == Path("tool")
    assert (root / "usr/bin/same").read_bytes() == b"y"


def test_packages_in_the_stream_are_named_with_their_hashes_and_stay_behind(
    tmp_path: Path,
) -> None:
    path = "var/cache/apt/archives/zlib1g_1%3a1.2.13.dfsg-1_amd64.deb"
    (found,) = unpack(tmp_path / "root", file(path, b"a package"))
    sha256 = hashlib.sha256(b"a package").hexdigest()
    assert str(found) == f"zlib1g=1:1.2.13.dfsg-1={sha256}"
    assert found.architecture == "amd64"
    assert not (tmp_path / "root" / "var").exists()


def test_what_belongs_to_a_machine_or_a_package_manager_stays_behind(tmp_path: Path) -> None:
    root = tmp_path / "root"
    unpack(
        root,
        device("dev/null"),
        device("usr/null"),
        file("etc/hostname", b"builder"),
        file("etc/resolv.conf", b"nameserver 10.0.0.1"),
        file("etc/apt/sources.list", b"deb http://mirror"),
        file("usr/share/doc/x/copyright", b"x"),
        file("usr/lib/python3/__pycache__/x.pyc", b"x"),
        file("usr/lib/x", b""),
    )
    left = {path.name for path in root.rglob("*") if path.is_file()}
    assert left == {"x", "passwd", "group", "hosts", "runner"}


def test_a_root_has_mount_points_and_the_links_of_a_merged_system(tmp_path: Path) -> None:
    root = tmp_path / "root"
    unpack(root, file("usr/lib64/ld-linux-x86-64.so.2"), folder("usr/lib"), folder("lib"))
    assert (root / "lib64").readlink() == Path("usr/lib64")
    assert not (root / "lib").is_symlink(), "a system that is not merged keeps its own"
    assert all((root / name).is_dir() for name in MOUNT_POINTS)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([file("../outside")], "an entry that leads elsewhere: ../outside"),
        ([file("/etc/passwd")], "an entry that leads elsewhere: /etc/passwd"),
        ([link("usr", "/etc"), file("usr/owned")], "a folder where a file or link lies: usr"),
        ([link("etc/x", "/outside"), file("etc/x", b"x")], "two entries of one name: etc/x"),
        ([link("x", "../outside", hard=True)], "a link that leads elsewhere: ../outside"),
        ([link("x", "usr/nothing", hard=True)], "a link that leads elsewhere: usr/nothing"),
        ([link("a", "/etc"), link("x", "a", hard=True)], "a link that leads elsewhere: a"),
        ([file("a"), file("a/b")], "a folder where a file or link lies: a"),
        ([link("etc", "/nothing")], "a link to nothing at etc"),
        ([link("mnt", "../outside")], "a link to nothing at mnt"),
        ([file("run")], "no folder at run"),
        ([file("a/" * 300 + "b")], "more than 200 folders in one another"),
    ],
)
def test_a_stream_that_leads_out_of_the_root_is_refused(
    tmp_path: Path, entries: list[Entry], said: str
) -> None:
    with pytest.raises(GatherError, match=said.replace(".", r"\.")):
        unpack(tmp_path / "root", *entries)
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_what_each_system_has_is_written_nowhere_but_into_the_root(tmp_path: Path) -> None:
    """Links of the root lead where its own processes find themselves, not where they point."""
    outside, root = Path("/srv/of-binary-checks-tests"), tmp_path / "root"
    inside = str(outside).lstrip("/")
    unpack(root, folder(inside), link("etc", str(outside)), link("mnt", str(outside)))
    assert not outside.exists()
    assert (root / inside / "passwd").is_file()


def test_a_stream_that_is_cut_off_or_none_at_all_is_refused(tmp_path: Path) -> None:
    whole = stream([file("usr/x", b"x" * 4096)])
    whole.truncate(2000)
    with pytest.raises(GatherError, match="cannot be read"):
        unpack_root(whole, tmp_path / "cut")
    with pytest.raises(GatherError, match="cannot be read"):
        unpack_root(stream([]).__class__(b""), tmp_path / "none")


def test_a_stream_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_tree, "MOST_ENTRIES", 3)
    with pytest.raises(GatherError, match="larger than any system"):
        unpack(tmp_path / "many", *(file(f"f{number}") for number in range(5)))
    monkeypatch.setattr(root_tree, "MOST_BYTES", 10)
    with pytest.raises(GatherError, match="larger than any system"):
        unpack(tmp_path / "large", file("f", b"x" * 11))


def test_the_same_entries_in_another_order_give_the_same_digest_and_stamp(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    entries = [file("usr/a", b"a"), file("etc/b", b"b"), link("usr/c", "a")]
    unpack(one, *entries)
    unpack(other, *reversed(entries))
    assert digest_tree(one) == digest_tree(other)
    assert stamp_tree(one) == stamp_tree(other)


def test_what_is_written_to_a_root_moves_digest_and_stamp(tmp_path: Path) -> None:
    root = tmp_path / "root"
    unpack(root, file("usr/a", b"a"), link("usr/c", "a"))
    digests, stamps = {digest_tree(root)}, {stamp_tree(root)}
    for change in (
        lambda: (root / "usr/a").write_bytes(b"b"),
        lambda: (root / "usr/new").write_bytes(b""),
        lambda: (root / "usr/a").chmod(0o755),
        (root / "usr/c").unlink,
        lambda: (root / "usr/c").symlink_to("new"),
    ):
        change()
        digests.add(digest_tree(root))
        stamps.add(stamp_tree(root))
    assert len(digests) == len(stamps) == 6


def test_who_owns_a_root_and_when_it_was_made_is_no_part_of_its_digest(tmp_path: Path) -> None:
    root = tmp_path / "root"
    unpack(root, file("usr/a", b"a"))
    before = digest_tree(root)
    os.utime(root / "usr/a", (5, 5))
    assert digest_tree(root) == before
    assert stamp_tree(root) != before
