"""Conda packages say of themselves what their metadata says; whatever disagrees is a fact."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binary_checks.checks.archive import (
    duplicate_member_name,
    escaping_member_name,
    unreadable_member,
)
from binary_checks.checks.contents import case_collision
from binary_checks.errors import BinaryChecksError, GatherError, PackageError
from binary_checks.model import CondaPackage, Package, object_kinds
from binary_checks.packages import conda, open_package, preview
from binary_checks.trees import decompression
from fixtures.archive_entries import Entry
from fixtures.build_conda import OMIT, TarMember, build_conda
from fixtures.fake_reader import FakeReader
from fixtures.values import elf_file, macho_file

pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")

SITE = "lib/python3.11/site-packages"
DIGEST = hashlib.sha256(b"x").hexdigest()
MEMBERS: dict[str, bytes | str | TarMember] = {
    f"{SITE}/demo/__init__.py": "x = 1\n" * 20,
    f"{SITE}/demo/_native.so": b"\x7fELF" + bytes(100),
    "lib/libdemo.so.1.2": b"\x7fELF" + bytes(100),
    "lib/libdemo.so.1": TarMember(kind=b"2", target="libdemo.so.1.2"),
}
FORMATS = (".conda", ".tar.bz2")


def read(path: Path) -> Package:
    return open_package(path, FakeReader())


def problems(path: Path) -> list[str]:
    """What the checks of the archive say, each line with its path."""
    package = read(path)
    checks = (unreadable_member, duplicate_member_name, escaping_member_name, case_collision)
    found = [each for check in checks for each in check(package)]
    return [f"{each.path}: {each.sentence}" if each.path else each.sentence for each in found]


def refusal(path: Path) -> str:
    with pytest.raises(PackageError) as caught:
        read(path)
    reason = str(caught.value)
    assert reason.startswith(f"{path.name}: ")
    assert "\n" not in reason
    return reason.removeprefix(f"{path.name}: ")


@pytest.mark.parametrize("suffix", FORMATS)
def test_both_formats_hold_the_same(tmp_path: Path, suffix: Any) -> None:
    package = read(build_conda(tmp_path, members=MEMBERS, suffix=suffix))
    assert isinstance(package, CondaPackage)
    assert (package.name, package.version) == ("demo", "1.0")
    installed = {m.path for m in package.members if not m.path.startswith("info/")}
    assert installed == MEMBERS.keys()
    objects = [item.path for item in package.objects]
    assert objects == ["lib/libdemo.so.1.2", f"{SITE}/demo/_native.so"]
    assert {m.path: m.target for m in package.members if m.target} == {
        "lib/libdemo.so.1": "lib/libdemo.so.1.2"
    }
    assert package.layout.site_packages == SITE
    assert problems(package.path) == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_collection_looks_for_objects_of_every_format(tmp_path: Path, suffix: Any) -> None:
    found = preview(build_conda(tmp_path, members=MEMBERS, suffix=suffix), FakeReader())
    assert found.kind is CondaPackage
    assert found.formats == object_kinds().keys()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_package_cut_at_any_length_is_one_line_or_a_fault(tmp_path: Path, suffix: Any) -> None:
    path = build_conda(tmp_path, members=MEMBERS, suffix=suffix)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        try:
            (problem,) = problems(path)
        except PackageError as error:
            problem = str(error)
        assert problem
        assert "\n" not in problem


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(FORMATS),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4),
)
def test_bytes_that_are_wrong_anywhere_are_a_fault_or_one_line(
    tmp_path: Path, suffix: Any, changes: list[tuple[int, int]]
) -> None:
    path = build_conda(tmp_path, members=MEMBERS, suffix=suffix)
    whole = bytearray(path.read_bytes())
    for place, change in changes:
        whole[place % len(whole)] ^= change
    path.write_bytes(whole)
    try:
        read(path)
    except BinaryChecksError as error:
        assert "\n" not in str(error)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 255)), max_size=4), st.integers(0))
def test_a_tar_that_is_wrong_anywhere_is_a_fault_or_one_line(
    tmp_path: Path, changes: list[tuple[int, int]], length: int
) -> None:
    def damage(tar: bytes) -> bytes:
        damaged = bytearray(tar)
        for place, value in changes:
            damaged[place % len(damaged)] = value
        return bytes(damaged[: length % len(damaged)] if length else damaged)

    path = build_conda(tmp_path, members=MEMBERS, change_tar=damage)
    try:
        read(path)
    except BinaryChecksError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("suffix", "reason"),
    [
        (".conda", "truncated: it has no end-of-central-directory record"),
        (".tar.bz2", "truncated: its compressed data end too early"),
    ],
)
def test_a_truncated_package_says_so(tmp_path: Path, suffix: Any, reason: str) -> None:
    path = build_conda(tmp_path, members=MEMBERS, suffix=suffix, truncate=-40)
    assert refusal(path) == reason


def test_an_inner_archive_that_is_cut_is_named(tmp_path: Path) -> None:
    path = build_conda(tmp_path, members=MEMBERS, change_packed=lambda packed: packed[:-5])
    inner = "pkg-demo-1.0-py311h0123abc_0.tar.zst"
    assert refusal(path) == f"{inner}: truncated: its compressed data end too early"


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_bomb_is_not_unpacked(
    tmp_path: Path, suffix: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompression, "_HARMLESS", 1 << 20)
    path = build_conda(tmp_path, members={"share/zeros": bytes(40 << 20)}, suffix=suffix)
    assert "which is not read" in refusal(path)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("../outside", "its name contains .."),
        ("/etc/passwd", "its name is absolute"),
        ("lib\\a", "its name contains a backslash"),
        ("C:/a", "its name begins with a drive letter"),
        ("./lib/a", "its name has an empty or . component"),
    ],
)
@pytest.mark.parametrize("suffix", FORMATS)
def test_names_that_lead_out_of_the_prefix_are_problems(
    tmp_path: Path, suffix: Any, name: str, fault: str
) -> None:
    path = build_conda(tmp_path, members={name: "x"}, suffix=suffix)
    assert problems(path) == [f"{name}: {fault}"]


@pytest.mark.parametrize(
    ("member", "fault"),
    [
        (
            TarMember("lib/a", kind=b"2", target="/etc/passwd"),
            "lib/a: it links to /etc/passwd, outside of the package",
        ),
        (
            TarMember("lib/a", kind=b"2", target="../../x"),
            "lib/a: it links to ../x, outside of the package",
        ),
        (
            TarMember("lib/a", kind=b"1", target="/etc/passwd"),
            "lib/a: it is a hard link to /etc/passwd, but no earlier member has this name",
        ),
        (TarMember(kind=b"3"), "lib/a: it is a character device, which no package installs"),
        (TarMember(kind=b"6"), "lib/a: it is a named pipe, which no package installs"),
    ],
)
def test_links_that_lead_out_and_devices_are_problems(
    tmp_path: Path, member: TarMember, fault: str
) -> None:
    found = problems(build_conda(tmp_path, members={"lib/a": member}))
    assert fault in found


def test_a_file_behind_a_symbolic_link_is_a_problem(tmp_path: Path) -> None:
    link = TarMember(kind=b"2", target="../share")
    path = build_conda(tmp_path, members={"lib/a": link, "lib/a/b": "x"})
    assert problems(path) == ["lib/a/b: its path leads through lib/a, which is a symbolic link"]


def test_a_hard_link_has_what_the_file_has(tmp_path: Path) -> None:
    members = {"bin/a": b"x" * 10, "bin/b": TarMember(kind=b"1", target="bin/a")}
    path = build_conda(tmp_path, members=members)
    assert problems(path) == []
    first, second = (m for m in read(path).members if m.path.startswith("bin/"))
    assert (second.size, second.sha256, second.target) == (10, first.sha256, "bin/a")


def test_two_members_of_one_name_are_a_problem(tmp_path: Path) -> None:
    path = build_conda(tmp_path, members={"a": "x"}, extra_members=[TarMember("a", b"x")])
    assert "a: 2 members have this name" in problems(path)


def test_what_is_installed_cannot_pass_for_what_is_said_of_it(tmp_path: Path) -> None:
    path = build_conda(tmp_path, extra_members=[TarMember("info/index.json", b"{}")])
    assert "its build is not a string" not in refusal(path)


def test_names_that_differ_in_case_alone_collide(tmp_path: Path) -> None:
    found = problems(build_conda(tmp_path, members={"share/A": "x", "share/a": "x"}))
    assert len(found) == 1
    assert found[0].startswith("share/a: differs only in case from share/A")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            {"sha256": "0" * 64},
            f"a: its SHA-256 is {DIGEST}, but info/paths.json states {'0' * 64}",
        ),
        ({"size_in_bytes": 7}, "a: it has 1 bytes, but info/paths.json states 7"),
        ({"sha256": None}, "a: info/paths.json states no hash"),
        ({"path_type": "softlink"}, "a: it is a file, but info/paths.json says 'softlink'"),
        (OMIT, "a: info/paths.json does not list it"),
    ],
)
def test_a_file_that_is_another_than_is_listed_is_a_problem(
    tmp_path: Path, change: Any, fault: str
) -> None:
    found = problems(build_conda(tmp_path, members={"a": "x"}, path_changes={"a": change}))
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_a_file_that_is_listed_and_not_there_is_a_problem(tmp_path: Path) -> None:
    path = build_conda(tmp_path, path_changes={"lib/gone.so": {"sha256": "0" * 64}})
    assert problems(path) == [
        "lib/gone.so: info/paths.json lists it, but the archive does not contain it"
    ]


@pytest.mark.parametrize(
    ("paths", "fault"),
    [
        (OMIT, "it has no info/paths.json: the files that it should contain are unknown"),
        (
            "[" * 100_000,
            "info/paths.json cannot be read: too deeply nested, or a number is too long",
        ),
        ("{}", "info/paths.json cannot be read: it lists no paths"),
        ('{"paths": [1]}', "info/paths.json: row 1 names no path"),
        (b"\xff", "info/paths.json cannot be read: it is not valid UTF-8 (at byte 0x0)"),
        ("", "info/paths.json cannot be read: it is not JSON (line 1)"),
        (
            "1" * 5000,
            "info/paths.json cannot be read: too deeply nested, or a number is too long",
        ),
        ("[" + "1," * 3_000_000, "info/paths.json cannot be read: it has more than 2000000 values"),
        (
            '{"paths": [{"_path": "b"}, {"_path": "b"}]}',
            "b: info/paths.json lists it more than once",
        ),
    ],
)
def test_a_list_of_paths_that_says_nothing_is_a_problem(
    tmp_path: Path, paths: Any, fault: str
) -> None:
    assert fault in problems(build_conda(tmp_path, paths=paths))


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (OMIT, "not a conda package: it has no info/index.json"),
        ("[]", "info/index.json cannot be read: it is not an object"),
        ("{", "info/index.json cannot be read: it is not JSON (line 1)"),
        ("{}", "info/index.json cannot be read: its name is not a string"),
        (
            "[" * 100_000,
            "info/index.json cannot be read: too deeply nested, or a number is too long",
        ),
        ("x" * (5 << 20), "info/index.json cannot be read: it has 5242880 bytes; at most"),
    ],
)
@pytest.mark.parametrize("suffix", FORMATS)
def test_without_its_index_it_is_no_package(
    tmp_path: Path, suffix: Any, index: Any, reason: str
) -> None:
    assert refusal(build_conda(tmp_path, index=index, suffix=suffix)).startswith(reason)


def test_depends_that_are_no_texts_are_refused(tmp_path: Path) -> None:
    path = build_conda(tmp_path, index_changes={"depends": [1]})
    assert refusal(path) == "info/index.json cannot be read: its depends is not a list of strings"


def test_a_renamed_package_says_so(tmp_path: Path) -> None:
    renamed = "linux-64-demo-1.0-py311h0123abc_0.tar.bz2"
    path = build_conda(tmp_path, filename=renamed, suffix=".tar.bz2")
    assert problems(path) == [
        "info/index.json describes demo-1.0-py311h0123abc_0, but the file's name does not match"
    ]


def test_the_archives_in_a_conda_are_called_like_the_file(tmp_path: Path) -> None:
    found = problems(build_conda(tmp_path, inner_name="other"))
    stem = "demo-1.0-py311h0123abc_0"
    assert found == [
        f"{part}-other.tar.zst: should be {part}-{stem}.tar.zst: the package was renamed"
        for part in ("info", "pkg")
    ]


def test_what_nobody_unpacks_is_a_problem(tmp_path: Path) -> None:
    path = build_conda(tmp_path, extra_entries=[Entry("payload.sh", b"x")])
    assert problems(path) == ["payload.sh: not part of a conda package, and no tool unpacks it"]


def test_a_part_whose_sum_is_wrong_is_a_problem(tmp_path: Path) -> None:
    path = build_conda(tmp_path, members=MEMBERS)
    whole = bytearray(path.read_bytes())
    at = whole.rindex(b"PK\1\2info-demo"[:4]) + 16  # the CRC-32 in the last entry of the directory
    whole[at] ^= 1
    path.write_bytes(whole)
    assert any("CRC-32" in each for each in problems(path))


def test_a_zip_without_its_parts_is_no_package(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0-0.conda"
    whole = build_conda(tmp_path / "x").read_bytes()
    path.write_bytes(whole.replace(b"info-", b"inf0-"))
    assert refusal(path) == "not a conda package: it has no info-*.tar.zst"


@pytest.mark.parametrize("name", ["a.conda", "a.tar.bz2"])
def test_another_file_is_no_package(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for content in (b"", b"hello", bytes(1000)):
        path.write_bytes(content)
        assert refusal(path)


def test_without_zstandard_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build_conda(tmp_path, members=MEMBERS)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert preview(path, FakeReader()).kind is CondaPackage
    with pytest.raises(GatherError, match=r"install binary-checks\[conda\]"):
        read(path)


def test_a_large_object_is_read_as_a_whole(tmp_path: Path) -> None:
    content = b"\x7fELF" + bytes(range(256)) * 8000
    reader = FakeReader(asked=((1_000_000, 256), (4, 10)))
    path = build_conda(tmp_path, members={"lib/a.so": content})
    package = open_package(path, reader)
    assert reader.seen == {"lib/a.so": [content[1_000_000:1_000_256], content[4:14]]}
    assert [item.size for item in package.objects] == [len(content)]


def test_a_search_path_below_the_placeholder_is_one_of_the_prefix() -> None:
    placeholder = "/opt/_h_env_placehold_placehold_plac"
    rows = {f"{SITE}/demo/a.so": conda._Row("hardlink", placeholder=placeholder)}
    elf = elf_file(f"{SITE}/demo/a.so", rpath=(f"{placeholder}/lib", "/opt/other"))
    found = conda._relocate(elf, rows)
    assert found.rpath == ("$ORIGIN/../../..", "/opt/other")  # type: ignore[union-attr]
    macho = macho_file(f"{SITE}/demo/a.so", rpaths=(f"{placeholder}/lib/",))
    found = conda._relocate(macho, rows)
    assert found.rpaths == ("@loader_path/../../..",)  # type: ignore[union-attr]
    assert conda._relocate(elf, {}) is elf
