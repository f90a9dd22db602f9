"""What wine's loader refuses of mutated DLLs is red here too."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.model import Kind, PeFile
from binary_checks.objects import read_objects
from fixtures.oracles.loads_pe import PeLoader, find_lack
from fixtures.samples import read_pe_sample
from tests.objects.byte_sources import Bytes

LACK = find_lack() or ("" if importlib.util.find_spec("ziglang") else "there is no ziglang here")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(LACK), reason=LACK)]
ENTRY = slice(0xA0, 0xA4)  # in its place another address is code too, and it is run


def is_green(content: bytes) -> bool:
    (found,) = read_objects("a.dll", Bytes(content))
    is_library = isinstance(found, PeFile) and found.kind is Kind.SHARED
    return is_library and found.architecture == "x86_64" and not found.refusals


def mutants(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """The sample with another value for each aligned word of its headers."""
    for place in range(60, 0x280, 4):
        if place in range(64, 120) or place == ENTRY.start:
            continue  # the DOS program
        old = int.from_bytes(whole[place : place + 4], "little")
        for value in {0, 1, old + 0x1000, old - 0x1000, old * 2, 0x7FFF0000, 0xFFFFFFFF} - {old}:
            new = (value & 0xFFFFFFFF).to_bytes(4, "little")
            yield f"{place:#x} {old:#x} {value:#x}", whole[:place] + new + whole[place + 4 :]


@pytest.mark.parametrize("name", ["delayed.dll", "no_imports.dll"])
def test_what_wine_refuses_is_refused(name: str, tmp_path: Path) -> None:
    whole = read_pe_sample(name)
    assert is_green(whole)
    refused, missed = 0, []
    with PeLoader.start(tmp_path) as loader:
        assert loader.judge(whole).accepted
        for change, content in mutants(whole):
            answer = loader.judge(content)
            refused += not answer.accepted
            if not answer.accepted and is_green(content):
                missed.append(f"{change}: {answer.why}")
    assert refused > 50
    assert missed == []
