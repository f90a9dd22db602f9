"""The two ABIs of libstdc++ are told apart by mangled names, namespace by namespace."""

from __future__ import annotations

import pytest

from binary_checks.checks import cxx_abi
from binary_checks.model import ElfFile, Kind, NotLooked, Problem, Wheel
from binary_checks.objects import read_objects
from fixtures.samples import read_sample
from fixtures.values import elf_file, symbols, wheel
from tests.objects.byte_sources import Bytes

STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
NEW = (f"_ZN3c103logERK{STRING}", f"_ZN3c104failERK{STRING}", "_ZNK3c101S4nameB5cxx11Ev")
OLD = ("_ZN3c104oldfERKSs", "_ZN3c105old_fERKSsSt4listIiSaIiEE", "_ZN3c106listedESt4listIiSaIiEE")
NEUTRAL = (
    "_ZN3c104viewESt17basic_string_viewIcSt11char_traitsIcEE",
    "_ZN3c1012getSslSocketEv",
    "_ZN3c103vecESt6vectorIiSaIiEE",
    "_ZN3c104libcERKNSt3__112basic_stringIcNS0_11char_traitsIcEENS0_9allocatorIcEEEE",
    "printf",
)


def _library(path: str, *names: str, imports: tuple[str, ...] = ()) -> ElfFile:
    return elf_file(path, exports=symbols(*names), imports=symbols(*imports))


def _package(*objects: ElfFile) -> Wheel:
    return wheel(objects=objects)


def test_two_objects_that_disagree_are_told_with_their_symbols() -> None:
    package = _package(_library("demo/a.so", *NEW), _library("demo/b.so", imports=OLD))
    assert list(cxx_abi.mixed_cxx_abi(package)) == [
        Problem(
            sentence="namespace c10 has both C++ ABIs: "
            f"new (std::__cxx11::string) in 3 symbols of demo/a.so ({NEW[0]} and 2 more); "
            f"old (std::string as Ss) in 3 symbols of demo/b.so ({OLD[0]} and 2 more)"
        )
    ]


def test_the_samples_of_both_abis_disagree() -> None:
    found = tuple(
        item
        for name in ("cxx_abi_new.so", "cxx_abi_old.so")
        for item in read_objects(f"demo/{name}", Bytes(read_sample(name)))
        if isinstance(item, ElfFile)
    )
    (problem,) = cxx_abi.mixed_cxx_abi(_package(*found))
    assert "namespace demo has both C++ ABIs" in str(problem)
    assert list(cxx_abi.mixed_cxx_abi(_package(found[0]))) == []


@pytest.mark.parametrize(
    "objects",
    [
        (_library("a.so", *NEW, *NEUTRAL),),
        (_library("a.so", *OLD, *NEUTRAL),),
        (_library("a.so", *NEW), _library("demo.libs/b.so", *OLD)),  # grafted
        (_library("a.so", *NEW), _library("b.so", *(name.replace("3c10", "3cnn") for name in OLD))),
        (_library("a.so", *NEW), _library("b.so", OLD[0])),  # one symbol is no evidence
        (_library("a.so", *NEW), _library("b.so", "_ZNSs6appendERKSs", "_ZNSs6assignERKSs")),
        (_library("a.so", *NEW), elf_file("b.o", kind=Kind.RELOCATABLE, exports=symbols(*OLD))),
    ],
)
def test_what_does_not_disagree_is_quiet(objects: tuple[ElfFile, ...]) -> None:
    assert list(cxx_abi.mixed_cxx_abi(_package(*objects))) == []


def test_given_namespaces_are_judged_together_and_alone() -> None:
    other = tuple(name.replace("3c10", "2at") for name in OLD)
    package = _package(_library("a.so", *NEW, *other))
    assert list(cxx_abi.mixed_cxx_abi(package)) == []
    assert len(list(cxx_abi.mixed_cxx_abi(package, namespaces=("c10", "at")))) == 1
    assert list(cxx_abi.mixed_cxx_abi(package, namespaces=("torch",))) == []


def test_the_abi_that_is_not_expected_is_told() -> None:
    package = _package(_library("a.so", *OLD))
    assert list(cxx_abi.unexpected_cxx_abi(package, expected=True)) == [
        Problem(
            path="a.so",
            sentence="has the old (std::string as Ss) ABI: " + ", ".join(sorted(OLD)),
        )
    ]
    assert list(cxx_abi.unexpected_cxx_abi(package, expected=False)) == []
    assert list(cxx_abi.unexpected_cxx_abi(package)) == []


def test_no_evidence_is_no_pass() -> None:
    package = _package(_library("a.so", *NEUTRAL))
    assert list(cxx_abi.unexpected_cxx_abi(package, expected=True, namespaces=("c10",))) == [
        NotLooked(sentence="fewer than 2 symbols in c10 tell the C++ ABI")
    ]
