"""A file that has the name of a library and is no object is malformed."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.checks.hardening import malformed_object
from binary_checks.model import Format, MalformedObject, Problem, UnreadObject
from binary_checks.packages import open_package
from fixtures.build_wheel import build_wheel
from tests.objects.byte_sources import Bytes

DOS = b"MZ".ljust(200, b"\0")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
HEAD = b"/".ljust(48) + b"0".ljust(10) + b"`\n"  # header of an empty member of a static archive
SCRIPT = b"/* GNU ld script */\nGROUP ( /lib/libc.so.6 AS_NEEDED ( ld.so ) )\n"


@pytest.mark.parametrize(
    ("path", "content", "format_", "reason"),
    [
        ("demo/a.dll", DOS, Format.PE, "(200 bytes that begin with b'MZ"),
        ("demo/a.pyd", b"", Format.PE, "it is empty"),
        ("demo/A.DLL", POINTER, Format.PE, "it is not in PE format (56 bytes, a git-lfs pointer)"),
        ("demo/liba.so.1", POINTER, Format.ELF, "(56 bytes, a git-lfs pointer)"),
        ("demo/liba.so.1", b"", Format.ELF, "it is not in ELF format (it is empty)"),
        ("demo/liba.dylib", b"text", Format.MACHO, "(4 bytes of text that begin with b'text')"),
        ("demo/liba.dylib", bytes(64) + b"a", Format.MACHO, "(65 bytes that begin with zeros)"),
        ("demo/liba.dylib", bytes(63) + b"a", Format.MACHO, "(64 bytes that begin with b'\\x00"),
        ("demo/liba.dylib", b"\x1f", Format.MACHO, "(1 bytes that begin with b'\\x1f')"),
        ("demo/liba.so", b"\x80\2\n", Format.ELF, "(3 bytes that begin with b'\\x80"),
        ("demo/liba.so", b"!<arch>\n" + HEAD, Format.ELF, "a static archive"),
        ("demo/liba.so", b"!<thin>\n" + HEAD, Format.ELF, "a thin archive"),
        ("demo/a.abi3.so", SCRIPT, Format.ELF, "of text that begin with b'/* GNU ld script'"),
        ("demo/a.cpython-311-x86_64-linux-gnu.so", b"", Format.ELF, "it is empty"),
    ],
)
def test_what_a_loader_is_asked_to_open_and_is_no_object(
    path: str, content: bytes, format_: Format, reason: str
) -> None:
    (found,) = objects.read_objects(path, Bytes(content))
    assert isinstance(found, MalformedObject)
    assert (found.format, found.offset) == (format_, 0)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("demo/libc.so", SCRIPT),
        ("demo/libncurses.so", b"INPUT(libncurses.so.6 -ltinfo)\n"),
        ("demo/libSystem.dylib", b"--- !tapi-tbd\ntbd-version: 4\n"),
        ("demo/._plugin.dylib", b"\0\5\x16\7\0\2\0\0Mac OS X        "),
        ("demo/a.so.txt", POINTER),
        ("demo/a.exe", DOS),
        ("demo/libso", POINTER),
    ],
)
def test_what_only_linkers_or_nobody_opens(path: str, content: bytes) -> None:
    assert objects.read_objects(path, Bytes(content)) == ()


def test_a_wheel_with_such_a_file_is_not_fit(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, members={"demo/a.pyd": POINTER})
    (problem,) = malformed_object(open_package(wheel, objects))
    assert isinstance(problem, Problem)
    assert problem.path == "lib/python3.11/site-packages/demo/a.pyd"
    assert problem.sentence.startswith(
        "is not in PE format (56 bytes, a git-lfs pointer): no loader"
    )
    fit = build_wheel(tmp_path, members={"demo/a.txt": POINTER})
    assert list(malformed_object(open_package(fit, objects))) == []


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"<bigaf>\n", "an archive of AIX"),
        (b"\x01\xf7\0\5", "an XCOFF object of AIX"),
    ],
)
def test_what_another_system_loads_is_not_inspected(head: bytes, what: str) -> None:
    path = "demo/_native.so"
    assert objects.read_objects(path, Bytes(head + bytes(60))) == (
        UnreadObject(path=path, format=Format.ELF, reason=f"it is {what}, which is not read"),
    )
