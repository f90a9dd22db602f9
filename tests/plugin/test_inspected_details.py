"""``inspect --device-details`` as a user runs it: the inside of code for GPUs, only if asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binary_checks.documents.facts import restore
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import ZSTD, compressed_entry, container
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_fatbin_sample

pytest.importorskip("zstandard")
pytest.importorskip("lz4.block")
from tests.plugin.conftest import command


def inspect(folder: Path, *words: str) -> str:
    fatbin = read_fatbin_sample("toolkit_13.5.fatbin") + read_fatbin_sample("toolkit_11.8.fatbin")
    fatbin += container(compressed_entry(b"\x28\xb5\x2f\xfd cut", 100, ZSTD))
    members = {"demo/libdemo.so": build_elf(sections={".nv_fatbin": fatbin})}
    return inspect_wheel(build_wheel(folder, members=dict(members)), *words)


def inspect_wheel(wheel: Path, *words: str) -> str:
    run = command(wheel.parent, "inspect", *words, wheel)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_the_summary_names_toolkits_drivers_and_ptx(tmp_path: Path) -> None:
    shown = inspect(tmp_path, "--device-details")
    for said in (
        "machine code of CUDA 11.8: 2 cubins for sm_75, sm_80; runs on driver 450.80.02 and later",
        "machine code of CUDA 13.5: 2 cubins for sm_75, sm_90a; runs on driver 580 and later",
        "PTX 7.8: 1 text for sm_80; compiled by driver ",
        "PTX 9.5: 1 text for sm_120f",
        "broken: 1 entry at byte ",
    ):
        assert said in shown


def test_the_document_has_them_in_a_table_of_its_own_and_is_read_back(tmp_path: Path) -> None:
    text = inspect(tmp_path, "--json", "--device-details")
    document = json.loads(text)
    (details,) = document["device_details"]
    assert "device_details" not in json.loads(inspect(tmp_path, "--json"))
    assert [group["toolkit"] for group in details["cubins"]] == ["11.8", "13.5", "11.8", "13.5"]
    assert (details["entries"], details["inspected"]) == (7, 7)
    (tmp_path / "facts.json").write_text(text)
    assert restore(tmp_path / "facts.json").package.name == "demo"


def test_all_code_is_decompressed_for_it_not_a_sample(tmp_path: Path) -> None:
    """20 containers with two cubins and a text of PTX each: a sample has 16 of a kind."""
    fatbin = read_fatbin_sample("toolkit_13.5.fatbin") * 20
    members = {"demo/libdemo.so": build_elf(sections={".nv_fatbin": fatbin})}
    text = inspect_wheel(build_wheel(tmp_path, members=dict(members)), "--json", "--device-details")
    (details,) = json.loads(text)["device_details"]
    assert (details["entries"], details["inspected"]) == (60, 60)
