from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.fuzz import macho_fields, pe_fields, target_macho
from fixtures.fuzz.readers import Lief, Llvm
from fixtures.fuzz.targets import KINDS, Kind
from fixtures.samples import read_macho_sample, read_pe_sample

PE, MACHO = read_pe_sample("plain.dll"), read_macho_sample("plain.dylib")


@pytest.fixture(scope="module")
def llvm() -> Iterator[Llvm]:
    try:
        llvm = Llvm("llvm-readobj", ["--file-headers", "--sections"])
    except LookupError as lack:
        pytest.skip(str(lack))
    yield llvm
    llvm.close()


def test_llvm_names_its_error_and_goes_on(llvm: Llvm) -> None:
    assert llvm.read(PE) == ""
    assert "not recognized as a valid object file" in llvm.read(b"nothing at all")
    assert "malformed object" in llvm.read(MACHO[:0x100])
    assert llvm.read(MACHO) == ""


def test_lief_says_what_it_does_not_parse() -> None:
    lief = Lief("MachO")
    assert lief.read(MACHO) == ""
    assert lief.read(b"nothing at all") == "does not parse it"
    lief.close()


def test_fields_have_the_names_of_the_specifications() -> None:
    names = {field.name for field in pe_fields.find_fields(PE)}
    assert {"SectionAlignment", "directory import RVA", "section 0 SizeOfRawData"} <= names
    names = {field.name for field in macho_fields.find_fields(MACHO)}
    assert {"cputype", "filetype", "segment vmaddr", "symbol n_strx", "bind byte 0"} <= names


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_seed_has_its_own_name_and_is_not_empty(kind: Kind) -> None:
    seeds = list(kind.find_seeds(None))
    assert len({seed.name for seed in seeds}) == len(seeds) > 0
    assert all(seed.content for seed in seeds)


def test_only_what_is_green_is_asked_about() -> None:
    target = target_macho.Target()
    seed = target_macho.make_seed("plain.dylib", MACHO)
    (green, red) = target.ask(seed, [MACHO, MACHO[:99]], [bool(target.problems(seed, MACHO)), True])
    target.close()
    assert green is not None
    assert green.accepted
    assert red is None
