"""A few pieces of each object's device code are decompressed for the toolkit that made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.model import DeviceToolkits, ToolkitSample
from binary_checks.objects.device import entries
from binary_checks.objects.device.entries import NotInstalled
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_fatbin_sample

pytest.importorskip("zstandard")
pytest.importorskip("lz4.block")

LIBRARY = "lib/python3.11/site-packages/demo/libdemo.so"
OLD, NEW = read_fatbin_sample("toolkit_11.8.fatbin"), read_fatbin_sample("toolkit_13.5.fatbin")


def look(folder: Path, fatbin: bytes) -> ToolkitSample:
    library = build_elf(sections={".nv_fatbin": fatbin})
    with examine(build_wheel(folder, members={"demo/libdemo.so": library})) as facts:
        (found,) = facts.get(DeviceToolkits).samples
    return found


def test_toolkits_and_versions_of_ptx_are_counted(tmp_path: Path) -> None:
    found = look(tmp_path, NEW + OLD + NEW)
    assert found.path == LIBRARY
    assert [version for version, _ in found.toolkits] == ["13.5", "11.8"]
    assert {version for version, _ in found.ptx} == {"9.5", "7.8"}
    assert found.seen == found.total
    assert not found.unread


def test_the_sample_is_spread_over_all_of_a_large_object(tmp_path: Path) -> None:
    """The last of many containers shows that most are another toolkit's, and not all are read."""
    found = look(tmp_path, OLD * 40 + NEW * 40)
    counted = dict(found.toolkits)
    assert 0 < sum(counted.values()) <= 16
    assert counted["13.5"] >= 4
    assert counted["11.8"] >= 4
    assert found.seen < found.total


def test_what_would_decompress_it_is_named_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(*_: object) -> None:
        raise NotInstalled("zstandard is not installed", "device")

    monkeypatch.setattr(entries, "_find_zstandard", lack)
    found = look(tmp_path, read_fatbin_sample("compressed_default.fatbin"))
    assert found.unread == "zstandard is not installed: pip install binary-checks[device]"
    assert found.seen < found.total


def test_code_that_is_damaged_is_said_to_be_unread(tmp_path: Path) -> None:
    content = bytearray(NEW)
    start = content.index(b"\x28\xb5\x2f\xfd")  # the first frame of Zstandard
    content[start + 8 : start + 24] = bytes(16)
    found = look(tmp_path, bytes(content))
    assert found.unread
    assert found.seen < found.total
