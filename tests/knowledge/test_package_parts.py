from __future__ import annotations

from collections.abc import Iterable

import pytest

from binary_checks.knowledge.inventory import PARTS, PartSize, measure_parts
from binary_checks.model import (
    DeviceCode,
    DeviceKind,
    Format,
    Kind,
    Layout,
    MalformedObject,
    Member,
    ObjectFile,
    Wheel,
)
from fixtures.values import elf_file, macho_file, member, wheel

SITE = "lib/python3.12/site-packages"


def sizes(members: Iterable[Member], objects: Iterable[ObjectFile] = ()) -> dict[str, int]:
    """Return the parts of a wheel with only these members."""
    layout = Layout(site_packages=SITE, headers="include/site/python3.12/demo")
    package = wheel(members=members, objects=objects, layout=layout)
    own = {each.path for each in members}
    kept = tuple(each for each in package.members if each.path in own)
    measured = measure_parts(Wheel(**{**_fields(package), "members": kept}))
    return {part: found.size for part, found in measured.items()}


def _fields(package: Wheel) -> dict[str, object]:
    return {
        name: getattr(package, name) for name in ("path", "objects", "layout", "tags", "dist_info")
    }


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (f"{SITE}/demo/__init__.py", "Python"),
        (f"{SITE}/demo/__init__.pyi", "Python"),
        (f"{SITE}/demo/include/demo.HPP", "headers"),
        ("include/site/python3.12/demo/odd_name", "headers"),
        (f"{SITE}/demo-1.0.dist-info/METADATA", "metadata"),
        (f"{SITE}/demo-1.0.dist-info/licenses/setup.py", "metadata"),
        (f"{SITE}/info/__init__.py", "Python"),
        (f"{SITE}/demo/kernels.metallib", "device code"),
        (f"{SITE}/demo/demo.pdb", "debug information"),
        (f"{SITE}/demo/_native.so.dSYM/Contents/Info.plist", "debug information"),
        (f"{SITE}/demo/demo.lib", "native code"),
        (f"{SITE}/demo/table.npz", "data"),
        ("share/doc/demo", "data"),
    ],
)
def test_a_file_belongs_to_one_part(path: str, part: str) -> None:
    assert sizes([member(path, b"12345")]) == {part: 5}


def test_the_folder_info_of_a_conda_package_is_metadata() -> None:
    package = wheel(layout=Layout(site_packages=SITE, climbs=False))
    about = member("info/index.json", b"{}")
    assert measure_parts(Wheel(**{**_fields(package), "members": (about,)})) == {
        "metadata": PartSize(files=1, size=2)
    }


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (f"{SITE}/demo/_native.so", "native code"),
        ("bin/demo", "native code"),
        (f"{SITE}/demo.libs/libz-0c8a1f2e.so.1", "bundled libraries"),
        (f"{SITE}/demo/.dylibs/libz.1.dylib", "bundled libraries"),
        (f"{SITE}/demo/libz-0c8a1f2e.so.1", "bundled libraries"),
    ],
)
def test_an_object_is_the_packages_own_or_a_bundled_one(path: str, part: str) -> None:
    assert sizes([member(path, b"x" * 90)], [elf_file(path, size=90)]) == {part: 90}


def test_an_object_is_split_into_code_device_code_and_debug_information() -> None:
    path = f"{SITE}/demo/_native.so"
    code = DeviceCode(kind=DeviceKind.SASS, architecture="sm_90", count=1, bytes=60, compressed=0)
    item = elf_file(path, size=100, device_code=(code,), debug_bytes=30)
    found = sizes([member(path, b"x" * 100)], [item])
    assert found == {"native code": 10, "device code": 60, "debug information": 30}


def test_what_an_object_says_of_itself_never_adds_up_to_more_than_the_file() -> None:
    path = f"{SITE}/demo/_native.so"
    found = sizes([member(path, b"x" * 50)], [elf_file(path, size=50, debug_bytes=1 << 40)])
    assert sum(found.values()) == 50


def test_the_slices_of_a_fat_file_count_once() -> None:
    path = f"{SITE}/demo/_native.so"
    slices = [macho_file(path, size=20), macho_file(path, size=20, architecture="aarch64")]
    assert sizes([member(path, b"x" * 50)], slices) == {"native code": 50}


def test_a_companion_of_debug_information_is_all_that() -> None:
    path = f"{SITE}/demo/_native.so.dbg"
    item = elf_file(path, size=70, kind=Kind.DEBUG)
    assert sizes([member(path, b"x" * 70)], [item]) == {"debug information": 70}


def test_a_malformed_object_is_native_code_all_the_same() -> None:
    path = f"{SITE}/demo/_native.so"
    broken = MalformedObject(path=path, format=Format.ELF, offset=0, reason="cut")
    fields = {**_fields(wheel()), "members": (member(path, b"123"),), "malformed": (broken,)}
    assert measure_parts(Wheel(**fields)) == {"native code": PartSize(files=1, size=3)}


def test_links_and_folders_have_no_bytes() -> None:
    link = member("lib/libz.so", b"", size=9, target="libz.so.1")
    folder = member(f"{SITE}/demo/", b"", size=9, archive_name="demo/")
    assert sizes([link, folder]) == {}


def test_parts_come_in_their_order() -> None:
    members = [member("share/x", b"1"), member(f"{SITE}/demo/x.py", b"1")]
    assert list(sizes(members)) == [part for part in PARTS if part in ("Python", "data")]
