"""A sample of a package's PTX is chosen by its sizes and decompressed, each content once."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.errors import NotApplicable
from binary_checks.gather.device_reading import sample_ptx
from binary_checks.gather.member_contents import MemberContents
from binary_checks.model import Package, PtxRequest, PtxTexts
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import LZ4, PTX, archive, compressed_entry, container, entry
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_fatbin_sample

SITE = "lib/python3.11/site-packages"


def text(name: str, *, target: str = "sm_90", size: int = 0) -> bytes:
    """One text of PTX, padded as nvcc pads it; a comment makes it larger."""
    start = f".version 8.8\n.target {target}\n.address_size 64\n// {name}{'-' * size}\n".encode()
    return start + bytes(8 - len(start) % 8)


def ptx(content: bytes, architecture: int = 90) -> bytes:
    return entry(PTX, architecture, content)


def library(*entries: bytes) -> bytes:
    return build_elf(sections={".nv_fatbin": container(*entries)})


def read(folder: Path, members: dict[str, bytes], most: int = 1_000_000) -> PtxTexts:
    with examine(build_wheel(folder, members=dict(members))) as facts:
        contents = facts.get(MemberContents)
        return sample_ptx(facts.get(Package), contents, PtxRequest(bytes=most))


def test_equal_texts_of_several_objects_are_one_and_a_member_of_an_archive_is_named(
    tmp_path: Path,
) -> None:
    same = library(ptx(text("one")), ptx(text("two", target="sm_90a")))
    found = read(tmp_path, {"demo/a.so": same, "demo/b.so": same, "demo/c.so": library()})
    assert found.found == 2
    assert found.size == len(text("one")) + len(text("two", target="sm_90a"))
    assert {each.path for each in found.texts} == {f"{SITE}/demo/a.so"}
    assert [(each.architecture, each.version) for each in found.texts] == [
        ("sm_90", "8.8"),
        ("sm_90a", "8.8"),
    ]
    assert found.texts[0].content == text("one").rstrip(b"\0")
    found = read(tmp_path, {"demo/libk.a": archive(k_o=library(ptx(text("one"))))})
    assert [(each.path, each.member) for each in found.texts] == [(f"{SITE}/demo/libk.a", "k.o")]


def test_what_the_budget_does_not_hold_is_counted_and_left(tmp_path: Path) -> None:
    entries = (ptx(text("small"), 121), ptx(text("large", size=5000), 121))
    found = read(tmp_path, {"demo/a.so": library(*entries)}, most=1000)
    assert (len(found.texts), found.found, found.unread) == (1, 2, ())
    assert b"small" in found.texts[0].content


def test_compressed_text_is_decompressed(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    sample = build_elf(sections={".nv_fatbin": read_fatbin_sample("toolkit_13.5.fatbin")})
    (found,) = read(tmp_path, {"demo/a.so": sample}).texts
    assert (found.architecture, found.version) == ("sm_120f", "9.5")
    assert b".target sm_120f\n" in found.content and found.content.endswith(b"}\n")


def test_what_cannot_be_read_is_told_with_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("lz4.block")
    entries = (
        compressed_entry(b"\xff" * 64, 300, LZ4, kind=PTX),
        ptx(b"no directives at all" + bytes(4)),
    )
    found = read(tmp_path, {"demo/a.so": library(*entries)})
    assert (found.texts, found.found) == ((), 2)
    assert [(path, each.count) for path, each in found.unread] == [(f"{SITE}/demo/a.so", 1)] * 2
    assert "LZ4 block is broken" in found.unread[0][1].reason
    assert "it is not PTX" in found.unread[1][1].reason


def test_a_package_without_ptx_is_not_asked_about_it(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo/a.so": build_elf()})
    with examine(path) as facts, pytest.raises(NotApplicable, match="no PTX in the package"):
        facts.get(PtxTexts)
