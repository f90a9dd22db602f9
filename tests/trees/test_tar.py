"""A tar archive is read as Python's tarfile reads it; what tools read differently is refused."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binary_checks.errors import BrokenDataError
from binary_checks.trees import tar as tar_module
from binary_checks.trees.tar import TarEntry, TarStream
from fixtures.tar_members import TarMember, write_tar

DEMO = TarMember("lib/a.txt", b"hello")


def cut(data: bytes, length: int = 1000) -> Iterator[bytes]:
    return (data[at : at + length] for at in range(0, len(data), length))


def read(data: bytes, length: int = 1000) -> list[tuple[TarEntry, bytes]]:
    stream = TarStream(cut(data, length))
    return [(entry, b"".join(stream.content())) for entry in stream]


def faults_of(data: bytes) -> tuple[str, ...]:
    stream = TarStream(cut(data))
    faults = [fault for entry in stream for fault in entry.faults]
    return (*faults, *stream.faults)


def refusal(data: bytes) -> str:
    with pytest.raises(BrokenDataError) as caught:
        read(data)
    return str(caught.value)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=200)
TYPES = st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE])


@settings(max_examples=200, deadline=None)
@example([("/", tarfile.REGTYPE, b"x")], tarfile.PAX_FORMAT, 1000)
@given(
    st.lists(st.tuples(NAMES, TYPES, st.binary(max_size=1500)), max_size=5),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.integers(1, 2000),
)
def test_what_tarfile_writes_is_read_as_it_was(
    members: list[tuple[str, bytes, bytes]], form: int, length: int
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "x" * 150 if kind in {b"1", b"2"} else ""
            info.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(content))
    with tarfile.open(fileobj=io.BytesIO(buffer.getvalue())) as archive:
        infos = archive.getmembers()
    found = read(buffer.getvalue(), length)
    assert [e.name.rstrip("/") for e, _ in found] == [info.name.rstrip("/") for info in infos]
    assert [e.target for e, _ in found] == [info.linkname for info in infos]
    contents = [content if kind == tarfile.REGTYPE else b"" for _, kind, content in members]
    assert [content for _, content in found] == contents


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4), st.data())
def test_bytes_that_are_wrong_anywhere_are_read_or_refused(
    changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    whole = bytearray(write_tar([DEMO, TarMember("d" * 150, b"x" * 700, pax=(("mtime", "1"),))]))
    for place, value in changes:
        whole[place % len(whole)] = value
    try:
        read(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except BrokenDataError as error:
        assert "\n" not in str(error)


def test_every_length_that_cuts_a_member_is_refused() -> None:
    whole = write_tar([DEMO, TarMember("b", b"x" * 600)], ending=b"")
    for length in range(1, len(whole)):
        if length != 1024:  # where the first member ends, another tar could begin
            assert "truncated" in refusal(whole[:length])


@pytest.mark.parametrize(
    ("ending", "faults"),
    [
        (b"", ("it lacks the empty block that ends an archive",)),
        (bytes(1024) + b"\0\0hidden", ("6 bytes follow the end of the archive",)),
        (bytes(10_240), ()),
    ],
)
def test_what_follows_the_last_member(ending: bytes, faults: tuple[str, ...]) -> None:
    assert faults_of(write_tar([DEMO], ending=ending)) == faults


def test_a_size_that_is_in_pax_alone_counts() -> None:
    data = write_tar(
        [TarMember("a", b"x" * 512, declared_size=0, pax=(("size", "0" * 16 + "512"),)), DEMO]
    )
    assert [content for _, content in read(data)] == [b"x" * 512, b"hello"]


def test_a_binary_size_is_read() -> None:
    data = write_tar([TarMember("a", b"x" * 5, size_field=b"\x80" + bytes(10) + b"\5"), DEMO])
    assert [content for _, content in read(data)] == [b"x" * 5, b"hello"]


NO_SIZES = (b"\xff" * 12, b"-0000000001\0", b"99999999999\0", b"0x10" * 3)


@pytest.mark.parametrize(
    "member",
    [
        *(TarMember("a", size_field=field) for field in NO_SIZES),
        *(TarMember("a", pax=(("size", text),)) for text in ("x", "-1", "0" * 20)),
    ],
)
def test_a_size_that_is_none_is_refused(member: TarMember) -> None:
    assert "has an invalid number" in refusal(write_tar([member]))


@pytest.mark.parametrize(("name", "kind"), [("a/", b"\0"), ("a", b"5"), ("a/", b"5")])
def test_a_folder_is_known_by_its_type_or_else_by_its_slash(name: str, kind: bytes) -> None:
    ((entry, _),) = read(write_tar([TarMember(name, kind=kind)]))
    assert (entry.name, entry.mode) == ("a/", 0o040644)


def test_a_size_beyond_every_package_is_refused() -> None:
    data = write_tar([TarMember("a", size_field=b"\x80" + b"\xff" * 11)])
    assert "its members claim more than" in refusal(data)


@pytest.mark.parametrize("ending", [b"", bytes(1024)])
def test_a_header_that_announces_no_member_is_refused(ending: bytes) -> None:
    announced = TarMember("x", b"11 mtime=1\n", kind=b"x")
    assert refusal(write_tar([announced], ending=ending)) == (
        "truncated: it ends before a member that a header announces"
    )


def test_two_names_of_one_member_are_refused() -> None:
    long = [TarMember("././@LongLink", b"%b\0" % name, kind=b"L") for name in (b"one", b"two")]
    assert "contradicts the one before it" in refusal(write_tar([*long, DEMO]))


def test_headers_without_end_are_refused() -> None:
    header = TarMember("x", b"11 mtime=1\n", kind=b"x")
    assert len(read(write_tar([*[header] * 8, DEMO]))) == 1
    data = write_tar([*[header] * 9, DEMO])
    assert refusal(data) == "more than 8 headers stand before one member"


def test_a_global_comment_is_passed_over() -> None:
    assert faults_of(write_tar([TarMember("g", b"13 comment=a\n", kind=b"g"), DEMO])) == ()


@pytest.mark.parametrize("kind", [b"1", b"2", b"3", b"4", b"5", b"6"])
def test_data_behind_what_has_none_is_refused(kind: bytes) -> None:
    data = write_tar([TarMember("a", b"x" * 512, kind=kind, target="b"), DEMO])
    assert refusal(data).endswith("512 bytes of data follow it, but only files have data")


@pytest.mark.parametrize(
    ("member", "fault"),
    [
        (TarMember("a", kind=b"3"), "it is a character device, which no package installs"),
        (TarMember("a", kind=b"4"), "it is a block device, which no package installs"),
        (TarMember("a", kind=b"6"), "it is a named pipe, which no package installs"),
        (TarMember("a", kind=b"1"), "it is a link without a target"),
        (TarMember("a", kind=b"2"), "it is a link without a target"),
        (TarMember(b"\xff"), "its name is not valid UTF-8"),
        (TarMember("", b"x"), "it has no name"),
        (TarMember("a/", b"x"), "it is a file, but its name is a folder's"),
        (TarMember("a", pax=(("path", "b\0c"),)), "its name holds a NUL byte"),
        (
            TarMember("a", pax=(("GNU.sparse.major", "1"),)),
            "it is a sparse file, which tools read differently",
        ),
    ],
)
def test_a_member_that_no_package_should_have_is_a_fault(member: TarMember, fault: str) -> None:
    assert faults_of(write_tar([member])) == (fault,)


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (TarMember("a", kind=b"S"), "a: a sparse file, which tools read differently"),
        (TarMember("a", checksum=1), "there is no tar header at byte 0x0"),
        (TarMember("a", b"x" * 512, pax=(("size", "9"),)), "a: its headers disagree on its size"),
        (TarMember("././@LongLink", b"x" * 512, kind=b"L"), "the long name at byte 0x0 has no end"),
        (
            TarMember("g", b"10 path=a\n", kind=b"g"),
            "a global header in it sets the path of every member",
        ),
        (TarMember("a", kind=b"x", declared_size=1 << 20), "truncated: it ends inside a block"),
        (
            TarMember("a", kind=b"x", declared_size=(1 << 20) + 1),
            "a header in it claims 1048577 bytes of text",
        ),
    ],
)
def test_what_tools_read_differently_or_not_at_all_is_refused(member: TarMember, said: str) -> None:
    assert refusal(write_tar([member, DEMO])) == said


def test_a_checksum_of_signed_characters_is_read() -> None:
    name = b"\x7f\xc3\xa9"
    total = int(write_tar([TarMember(name, b"x")])[148:154], 8)
    ((entry, _),) = read(write_tar([TarMember(name, b"x", checksum=total - 2 * 256)]))
    assert entry.name == name.decode()


def test_a_name_in_two_fields_is_one() -> None:
    buffer, name = io.BytesIO(), f"{'d' * 60}/{'f' * 90}"
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo(name))
    ((entry, _),) = read(buffer.getvalue())
    assert entry.name == name


@pytest.mark.parametrize(
    "record", [b"12 mtime=1\n", b"8 mtime\n", b"10 mtime=1", b"x mtime=1\n", b"mtime=1\n"]
)
def test_a_broken_pax_record_is_refused(record: bytes) -> None:
    data = write_tar([TarMember("x", record, kind=b"x"), DEMO])
    assert refusal(data) == "the pax header at byte 0x0 is broken"


def test_members_and_their_names_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_module, "MAXIMUM_ENTRIES", 2)
    monkeypatch.setattr(tar_module, "_MAXIMUM_NAMES", 18)
    monkeypatch.setattr(tar_module, "MAXIMUM_SIZE", 10)
    assert len(read(write_tar([DEMO] * 2))) == 2
    assert refusal(write_tar([DEMO] * 3)) == "it has more than 2 members"
    monkeypatch.setattr(tar_module, "_MAXIMUM_NAMES", 17)
    assert refusal(write_tar([DEMO] * 2)) == "the names in it have more than 17 bytes"
