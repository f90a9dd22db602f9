"""What a root file system is, is read from its bytes, and no link leads out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import Unavailable
from binary_checks.model.root_filesystem import ImagePython
from binary_checks.places.images.root_folders import (
    find_loader,
    find_pythons,
    follow,
    read_libc,
    read_machine,
)
from fixtures.root_streams import elf_head


def write(path: Path, content: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def make_glibc(root: Path, version: str) -> None:
    write(root / "usr/lib64/ld-linux-x86-64.so.2", elf_head(bits=64, machine=62))
    banner = f"GNU C Library (Debian GLIBC {version}-1) stable release version {version}.\n"
    write(root / "usr/lib64/libc.so.6", b"\x7fELF\0" + banner.encode())
    (root / "lib64").symlink_to("usr/lib64")


def test_a_root_of_glibc_is_told_by_its_loader_and_its_libc(tmp_path: Path) -> None:
    make_glibc(tmp_path, "2.31")
    loader = find_loader(tmp_path)
    assert loader == "/lib64/ld-linux-x86-64.so.2"
    assert read_machine(tmp_path, loader) == "x86_64"
    assert read_libc(tmp_path, loader) == "glibc 2.31"


def test_a_root_of_musl_is_told_by_its_loader_which_is_its_libc(tmp_path: Path) -> None:
    libc = elf_head(bits=64, machine=183) + b"\0musl libc (aarch64)\nVersion %s\n\0001.2.5\0"
    write(tmp_path / "usr/lib/aarch64-linux-musl/libc.so", libc)
    (tmp_path / "lib").mkdir()
    link = tmp_path / "lib/ld-musl-aarch64.so.1"
    link.symlink_to("/usr/lib/aarch64-linux-musl/libc.so")
    assert find_loader(tmp_path) == "/lib/ld-musl-aarch64.so.1"
    assert read_machine(tmp_path, find_loader(tmp_path)) == "aarch64"
    assert read_libc(tmp_path, find_loader(tmp_path)) == "musl 1.2.5"


@pytest.mark.parametrize(
    ("bits", "machine", "big", "name"),
    [(64, 22, True, "s390x"), (32, 40, False, "armv7l"), (64, 243, False, "riscv64")],
)
def test_the_machine_is_read_in_either_byte_order(
    tmp_path: Path, bits: int, machine: int, big: bool, name: str
) -> None:
    write(tmp_path / "lib/ld64.so.1", elf_head(bits=bits, machine=machine, big=big))
    assert read_machine(tmp_path, "/lib/ld64.so.1") == name


def test_a_folder_without_a_loader_is_no_root(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no root file system of Linux"):
        find_loader(tmp_path)


def test_a_loader_whose_link_leads_nowhere_in_the_root_is_none(tmp_path: Path) -> None:
    """The host's own loader lies there, but not in the root."""
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64/ld-linux-x86-64.so.2").symlink_to("/lib64/ld-linux-x86-64.so.2")
    with pytest.raises(Unavailable, match="no dynamic loader"):
        find_loader(tmp_path)


def test_pythons_are_found_by_their_names(tmp_path: Path) -> None:
    write(tmp_path / "usr/bin/python3.9")
    write(tmp_path / "usr/bin/python3.9-config")
    write(tmp_path / "usr/local/bin/python3.13t")
    (tmp_path / "usr/bin/python3.8").symlink_to("/nowhere")
    assert find_pythons(tmp_path) == (
        ImagePython(path="/usr/bin/python3.9", version="3.9"),
        ImagePython(path="/usr/local/bin/python3.13t", version="3.13t"),
    )


def test_links_are_followed_as_in_the_root(tmp_path: Path) -> None:
    write(tmp_path / "usr/lib/real")
    (tmp_path / "lib").symlink_to("/usr/lib")
    (tmp_path / "up").symlink_to("../../../../usr/lib/real")
    (tmp_path / "loop").symlink_to("loop")
    assert follow(tmp_path, "/lib/real") == tmp_path / "usr/lib/real"
    assert follow(tmp_path, "up") == tmp_path / "usr/lib/real"
    assert follow(tmp_path, "loop") is None
    assert follow(tmp_path, "lib/other") is None
