from __future__ import annotations

import gzip
import hashlib
import re
import zipfile
from pathlib import Path

import pytest

from binary_checks.errors import RecordError
from binary_checks.fleet.tables.rows import highest_glibc, read_facts_rows
from tests.plugin.conftest import command

WHEELS = Path(__file__).parents[3] / "fixtures" / "samples" / "wheels"
WHEEL = WHEELS / "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"
SHA256 = hashlib.sha256(WHEEL.read_bytes()).hexdigest()
NIGHT = "2026-11-20"


@pytest.fixture(scope="module")
def facts() -> bytes:
    """The facts of a wheel, as `inspect` writes them."""
    return command(Path.cwd(), "inspect", WHEEL, "--json").stdout.encode()


def write(folder: Path, content: bytes) -> Path:
    path = folder / "facts.json.gz"
    path.write_bytes(gzip.compress(content))
    return path


def test_the_parts_of_a_wheel_are_all_of_its_bytes(facts: bytes, tmp_path: Path) -> None:
    objects, parts = read_facts_rows(write(tmp_path, facts), NIGHT, SHA256, "it")
    with zipfile.ZipFile(WHEEL) as archive:
        files = [each for each in archive.infolist() if not each.is_dir()]
    assert sum(row["size"] for row in parts) == sum(each.file_size for each in files)
    natives = {each.filename for each in files if ".so" in each.filename}
    assert {row["path"].partition("site-packages/")[2] for row in objects} == natives
    assert {row["sha256"] for row in objects} == {SHA256}
    assert any(row["needed"] for row in objects)
    assert {len(row["exports"]) for row in objects} == {16}


def test_exports_are_told_apart_by_their_names_whoever_wrote_them(
    facts: bytes, tmp_path: Path
) -> None:
    later = re.sub(rb'"written_by": "[^"]*"', b'"written_by": "binary-checks 9.9"', facts)
    other = facts.replace(b"PyInit_", b"PyOther_")
    assert facts not in (later, other)
    first, again, changed = (
        read_facts_rows(write(tmp_path, each), NIGHT, SHA256, "it")
        for each in (facts, later, other)
    )
    assert again == first
    assert [row["exports"] for row in changed[0]] != [row["exports"] for row in first[0]]


def test_a_document_that_is_not_the_facts_of_that_package_is_one_line(
    facts: bytes, tmp_path: Path
) -> None:
    for damaged, reason in (
        (facts[: len(facts) // 2], "not JSON"),
        (facts.replace(b'"format": "ELF"', b'"format": "odd"'), "unknown format 'odd'"),
        (facts.replace(SHA256.encode(), b"0" * 64), "another package"),
    ):
        with pytest.raises(RecordError, match=f"^facts/x: .*{reason}"):
            read_facts_rows(write(tmp_path, damaged), NIGHT, SHA256, "facts/x")


@pytest.mark.parametrize(
    ("nodes", "highest"),
    [
        (["GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.9"], "2.17"),
        (["GLIBC_2.34", "GLIBC_ABI_DT_RELR"], "2.36"),
        (["GLIBC_PRIVATE", "GCC_3.0", "GLIBCXX_3.4.30"], ""),
        (["GLIBC_2.99999999999"], ""),
        ([], ""),
    ],
)
def test_the_highest_version_of_glibc(nodes: list[str], highest: str) -> None:
    assert highest_glibc(nodes) == highest
