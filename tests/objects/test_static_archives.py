"""Static archives are read for the device code in their members, whichever compiler made them."""

from __future__ import annotations

import struct

import pytest

from binary_checks.model import Format, Kind, MalformedObject, StaticArchive, UnreadObject
from binary_checks.objects import read_objects
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import archive, coff, container, entry
from tests.objects.byte_sources import Bytes
from tests.objects.device_codes import entries, groups, read_device

BOTH = container(entry(architecture=75), entry(architecture=90))
NEWER = container(entry(architecture=90))
ONE = build_elf(kind="relocatable", sections={".nv_fatbin": BOTH})
OTHER = build_elf(kind="relocatable", sections={".nv_fatbin": NEWER})


def test_members_are_read_and_their_containers_numbered_together() -> None:
    found = read_device(archive(one_o=ONE, text_o=b"no object", other_o=OTHER))
    assert isinstance(found, StaticArchive)
    assert (found.format, found.kind) == (Format.ARCHIVE, Kind.RELOCATABLE)
    assert groups(found) == [("sass sm_75, sass sm_90", 1, 0), ("sass sm_90", 1, 1)]


@pytest.mark.parametrize("section", [".nv_fatb", ".nv_fatbin"])
def test_members_for_windows_are_read(section: str) -> None:
    content = archive(one_obj=coff({".text": bytes(8), section: BOTH}))
    assert entries(read_device(content)) == {"sass sm_75": 1, "sass sm_90": 1}


def read_plain(content: bytes) -> StaticArchive:
    (found,) = read_objects("a.a", Bytes(content))
    assert isinstance(found, StaticArchive)
    assert found.is_plain
    return found


def test_members_that_are_alike_are_counted() -> None:
    plain, other = build_elf(kind="relocatable"), build_elf(kind="relocatable", machine="aarch64")
    found = read_plain(archive(one_o=plain, two_o=plain, three_o=other, text=b"no object at all!"))
    rows = [(each.format, each.architecture, each.count, each.first) for each in found.members]
    assert rows == [
        ("", "", 1, "text"),
        ("ELF", "aarch64", 1, "three.o"),
        ("ELF", "x86_64", 2, "one.o"),
    ]
    assert not found.indexed


def test_members_of_other_systems_are_told_apart() -> None:
    gcc = build_elf(kind="relocatable", sections={".gnu.lto_a": b"a"})
    head = b"\0\0\xff\xff\1\0\x64\x86\0\0\0\0"
    found = read_plain(
        archive(
            one_obj=coff({})[:20],
            cut_obj=coff({})[:19],
            import_obj=b"\0\0\xff\xff\0\0\x64\x86".ljust(20, b"\0"),
            big_obj=b"\0\0\xff\xff\2\0\x64\xaa".ljust(80, b"\0"),
            gl_obj=head + bytes.fromhex("38feb30ca5d9ab4dac9bd6b6222653c2"),
            gcc_o=gcc,
            slim_o=gcc.replace(struct.pack("<IQ", 1, 6), struct.pack("<IQ", 1, 2)),  # no code
            bitcode_o=b"BC\xc0\xde" + bytes(40),
            mac_o=struct.pack("<8I", 0xFEEDFACF, 0x0100000C, 0, 1, 0, 0, 0, 0),
        )
    )
    rows = {each.first: (each.format, each.architecture, each.note) for each in found.members}
    assert rows == {
        "one.obj": ("COFF", "x86_64", ""),
        "cut.obj": ("", "", ""),
        "import.obj": ("import", "x86_64", ""),
        "big.obj": ("COFF", "aarch64", ""),
        "gl.obj": ("COFF", "x86_64", "Visual C++'s own code for link-time optimisation"),
        "gcc.o": ("ELF", "x86_64", ""),
        "slim.o": ("ELF", "x86_64", "GCC's own code for link-time optimisation"),
        "bitcode.o": ("LLVM bitcode", "", ""),
        "mac.o": ("Mach-O", "aarch64", ""),
    }


def index(*names: str) -> bytes:
    """Build the index that ar writes: number of names, offsets of members, names."""
    blob = b"".join(name.encode() + b"\0" for name in names)
    return struct.pack(">I", len(names)) + bytes(4 * len(names)) + blob


def test_the_index_tells_which_strings_the_functions_have() -> None:
    names = index(
        "main",
        "_ZN4demo3newENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        "_ZN4demo4nameB5cxx11Ev",
        f"_ZN4demo300{'o' * 300}ESs",
        "_ZN4demo9getSslKeyEv",  # contains the letters, and is no std::string
        # a function of the standard library
        "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE3fooEv",
        "_ZNSs4swapERSs",
    )
    content = archive(index=names, one_o=build_elf(kind="relocatable"))
    found = read_plain(content.replace(b"index/", b"/     ", 1))
    assert found.indexed
    assert (found.strings.new, found.strings.old) == (2, 1)
    assert found.strings.new_example.startswith("_ZN4demo3newE")
    assert found.strings.old_example == f"_ZN4demo300{'o' * 289}"


def test_a_thin_archive_names_files() -> None:
    names = archive(names=b"/build/one.o/\ntwo.o/\n").replace(b"names/", b"//    ", 1)
    head = archive(x=b"").removeprefix(b"!<arch>\n")
    members = head.replace(b"x/", b"/0") + head.replace(b"x/ ", b"/14")
    found = read_plain((names + members).replace(b"!<arch>", b"!<thin>"))
    assert found.thin == ("/build/one.o", "two.o")


def test_an_archive_under_the_name_of_a_library_is_none() -> None:
    for content in (archive(one_o=build_elf(kind="relocatable")), b"!<thin>\n"):
        (found,) = read_objects("a.so", Bytes(content))
        assert isinstance(found, MalformedObject)


def test_names_of_bsd_stand_before_the_contents() -> None:
    found = read_device(archive(one_o=b"n" * 264 + ONE).replace(b"one.o/", b"#1/264", 1))
    assert entries(found)["sass sm_90"] == 1
    assert found.device_containers[0].member == "n" * 256  # its beginning


def test_a_member_that_is_broken_is_a_fault_of_an_archive_with_device_code() -> None:
    (fault,) = read_device(archive(bad_o=ONE[:200], other_o=OTHER)).device_faults
    assert fault.offset == 68
    assert "a member that cannot be read" in fault.reason


def test_the_first_member_with_device_code_is_named() -> None:
    found = read_device(archive(text_o=b"no object", one_o=ONE, two_o=ONE, other_o=OTHER))
    assert [group.member for group in found.device_containers] == ["one.o", "other.o"]
    bsd = archive(one_o=b"long_name.o\0\0\0\0\0" + ONE).replace(b"one.o/", b"#1/16 ", 1)
    assert [group.member for group in read_device(bsd).device_containers] == ["long_name.o"]
    gnu = archive(names_o=b"a_rather_long_name.o/\nb.o/\n\n", one_o=ONE)
    gnu = gnu.replace(b"names.o/", b"//      ", 1).replace(b"one.o/", b"/0    ", 1)
    assert [group.member for group in read_device(gnu).device_containers] == [
        "a_rather_long_name.o"
    ]


def test_an_archive_of_which_a_member_is_broken_is_unread_where_no_other_has_device_code() -> None:
    (found,) = read_objects("a.a", Bytes(archive(bad_o=ONE[:200], text_o=b"no object")))
    assert isinstance(found, UnreadObject)
    assert found.reason.startswith("at offset 68: a member that cannot be read")


def test_an_archive_cut_at_any_length_is_malformed_or_ends_between_members() -> None:
    content = archive(one_o=ONE, other_o=OTHER)
    ends = {8, 68 + len(ONE), 68 + len(ONE) + len(ONE) % 2}
    for length in range(8, len(content) - len(OTHER) % 2):
        found = read_objects("a.a", Bytes(content[:length]))
        rest = min(length - end for end in ends if end <= length)
        assert rest < 60 or isinstance(found[0], MalformedObject)


@pytest.mark.parametrize("size", [b"12x       ", b"99999999  ", b"-1        "])
def test_a_member_of_an_impossible_size_is_malformed(size: bytes) -> None:
    content = archive(one_o=ONE)
    (found,) = read_objects("a.a", Bytes(content[:56] + size + content[66:]))
    assert isinstance(found, MalformedObject)
    assert found.offset == 8


def test_an_archive_that_ends_within_the_head_of_a_member_is_malformed() -> None:
    """Linkers refuse it; single padding bytes or newlines at the end do not matter."""
    whole = archive(one_o=build_elf(kind="relocatable"))
    (found,) = read_objects("a.a", Bytes(whole + b"two.o/   0"))
    assert isinstance(found, MalformedObject)
    assert found.reason == "it ends within the header of a member"
    read_plain(whole + b"\n\n")
