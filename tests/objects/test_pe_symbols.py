"""The symbol tables of a PE image give the same answer for many names as for each."""

from __future__ import annotations

import pytest

from binary_checks.model import PeFile, Symbols
from binary_checks.objects import read_objects
from fixtures.samples import expected_pe_facts, read_pe_sample
from tests.objects.byte_sources import Bytes


@pytest.mark.parametrize("name", sorted(expected_pe_facts()))
def test_groups_of_symbols_are_those_of_the_symbols_themselves(name: str) -> None:
    for item in read_objects(name, Bytes(read_pe_sample(name))):
        assert isinstance(item, PeFile)
        plain = Symbols(item.imports)
        assert item.imports.strong == plain.strong
        assert item.exports.among(("", *item.exports.names)) == item.exports.names
