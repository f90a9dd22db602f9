"""The names that objects may open are those that readelf prints, over published wheels."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.model import ElfFile
from binary_checks.packages import open_package
from tests.oracles.downloads import download

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf on this host"),
]
LINUX = tuple(f"manylinux_2_{minor}_x86_64" for minor in (34, 28, 27, 24, 17, 12, 5))
WHEELS = [
    "intel-openmp==2026.2.0",
    "nvidia-cuda-nvrtc==13.5.37",
    "pillow==13.0.0",
    "pyarrow==26.0.1",
    "scipy==1.15.3",
    "tbb==2023.2.0",
]
_SECTION = re.compile(
    r"^  \[ *\d+\] (?P<name>\S+) +PROGBITS +[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ [0-9a-f]+ +A[MS]* ", re.M
)
_STRING = re.compile(r"^  \[ *[0-9a-f]+\]  (?P<text>lib\S+)$", re.M)
_NAME = re.compile(r"lib[\w+.-]+?\.so(?:\.[0-9]+)*", re.ASCII)
_TABLES = (".interp", ".eh_frame", ".gcc_except_table", ".nv", "__nv")


def readelf(*arguments: str | Path) -> str:
    command = ["readelf", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode("latin-1")


def names_by_readelf(file: Path) -> Iterator[str]:
    for section in _SECTION.finditer(readelf("-SW", file)):
        if not section["name"].startswith(_TABLES):
            for string in _STRING.finditer(readelf("-p", section["name"], file)):
                if _NAME.fullmatch(string["text"]):
                    yield string["text"]


def test_no_name_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared = 0
    for wheel in download(tmp_path, LINUX, WHEELS):
        package = open_package(wheel, objects)
        archive_names = {member.path: member.archive_name for member in package.members}
        for item in package.objects_of(ElfFile):
            if item.opened is None:
                continue
            with zipfile.ZipFile(wheel) as archive:
                (tmp_path / "object").write_bytes(archive.read(archive_names[item.path]))
            known = {item.name, *(need.name for need in item.needed)}
            theirs = set(names_by_readelf(tmp_path / "object")) - known
            assert (item.path, item.opened.unread) == (item.path, "")
            assert (item.path, set(item.opened.names)) == (item.path, theirs)
            compared, found = compared + 1, found + len(theirs)
    with capsys.disabled():
        print(f"\n{compared} objects that open libraries, {found} names")  # noqa: T201 - the figures
    assert compared > len(WHEELS)
    assert found > compared
