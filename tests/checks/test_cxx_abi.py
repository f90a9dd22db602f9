"""The two ABIs of libstdc++ are told apart by mangled names, namespace by namespace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from binary_checks.checks import cxx_abi
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Dependency,
    ElfFile,
    Format,
    Kind,
    MachOFile,
    MalformedObject,
    NotInspected,
    ObjectFile,
    Problem,
    UnreadObject,
    Wheel,
)
from binary_checks.objects import read_objects
from binary_checks.wording.problem_lines import OF_CXX_ABI
from fixtures.samples import read_sample
from fixtures.values import elf_file, macho_file, only, pe_file, symbols, wheel
from tests.objects.byte_sources import Bytes

STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
NEW = (f"_ZN3c103logERK{STRING}", f"_ZN3c104failERK{STRING}", "_ZNK3c101S4nameB5cxx11Ev")
OLD = ("_ZN3c104oldfERKSs", "_ZN3c105old_fERKSsSt4listIiSaIiEE", "_ZN3c106listedESt4listIiSaIiEE")
NEUTRAL = (
    "_ZN3c104viewESt17basic_string_viewIcSt11char_traitsIcEE",
    "_ZN3c1012getSslSocketEv",
    f"_ZN{'9' * 5000}c10{STRING}",
    "_ZN3c103vecESt6vectorIiSaIiEE",
    "_ZN3c104libcERKNSt3__112basic_stringIcNS0_11char_traitsIcEENS0_9allocatorIcEEEE",
    "printf",
)


def _library(path: str, *names: str, imports: tuple[str, ...] = ()) -> ElfFile:
    return elf_file(path, exports=symbols(*names), imports=symbols(*imports))


def _macho(path: str, *names: str) -> MachOFile:
    gnu = (Dependency(name="@rpath/libstdc++.6.dylib"),)
    return macho_file(path, exports=symbols(*names), needed=gnu)


def _package(*objects: ElfFile) -> Wheel:
    return wheel(objects=objects)


def test_two_objects_that_disagree_are_told_with_their_symbols() -> None:
    package = _package(_library("demo/a.so", *NEW), _library("demo/b.so", imports=OLD))
    assert list(cxx_abi.mixed_cxx_abi(package)) == [
        Problem(
            sentence="namespace c10 has both C++ ABIs: "
            f"new (std::__cxx11::string) in 3 symbols of demo/a.so ({NEW[0]} and 2 more); "
            f"old (std::string as Ss) in 3 symbols of demo/b.so ({OLD[0]} and 2 more)",
            cause=OF_CXX_ABI,
        )
    ]


@pytest.mark.parametrize("other", ["/usr/lib/libc++.1.dylib", "@rpath/libc++.1.dylib"])
def test_names_of_objects_that_need_another_cxx_library_do_not_count(other: str) -> None:
    old = _macho("demo/b.so", *OLD)
    new = _macho("demo/a.so", *NEW)
    assert len(list(cxx_abi.mixed_cxx_abi(wheel(objects=(new, old))))) == 1
    apples = replace(old, needed=(Dependency(name=other),))
    for without in (apples, replace(old, needed=())):
        assert list(cxx_abi.mixed_cxx_abi(wheel(objects=(new, without)))) == []
    both = replace(apples, needed=(*apples.needed, *old.needed))
    assert len(list(cxx_abi.mixed_cxx_abi(wheel(objects=(new, both))))) == 1


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
    with pytest.raises(NotApplicable, match="does not say which ABI is expected"):
        list(cxx_abi.unexpected_cxx_abi(package))


@pytest.mark.parametrize("make", [pe_file, macho_file])
def test_mangled_names_tell_in_every_format(make: Callable[..., ObjectFile]) -> None:
    gnu = (Dependency(name="libstdc++-6.dll" if make is pe_file else "@rpath/libstdc++.6.dylib"),)
    new = make("demo/a", exports=symbols(*NEW), needed=gnu)
    objects = (new, make("demo/b", imports=symbols(*OLD), needed=gnu))
    assert len(list(cxx_abi.mixed_cxx_abi(wheel(objects=objects)))) == 1


def test_the_slices_of_a_fat_object_do_not_count_twice() -> None:
    slices = (replace(_macho("a", OLD[0]), architecture=name) for name in ("x86_64", "i686"))
    objects = (_macho("b", *NEW), *slices)
    assert list(cxx_abi.mixed_cxx_abi(wheel(objects=objects))) == []


def test_what_could_not_be_read_is_not_inspected() -> None:
    package = wheel(
        malformed=(
            MalformedObject(path="demo/a.so", format=Format.MACHO, offset=0, reason="cut short"),
        ),
        unread=(UnreadObject(path="demo.libs/b.so", format=Format.ELF, reason="too large"),),
    )
    gap = NotInspected(path="demo/a.so", sentence="cut short")
    assert list(cxx_abi.mixed_cxx_abi(package)) == [gap]
    assert next(cxx_abi.unexpected_cxx_abi(package, expected=True)) == gap


def test_a_package_with_nothing_of_its_own_is_not_applicable() -> None:
    package = _package(_library("demo.libs/b.so", *OLD))
    with pytest.raises(NotApplicable, match="no loadable object of the package's own"):
        list(cxx_abi.mixed_cxx_abi(package))
    with pytest.raises(NotApplicable, match="no loadable object of the package's own"):
        list(cxx_abi.unexpected_cxx_abi(package, expected=True))


@pytest.mark.parametrize("folder", ["demo.libs", "demo/.libs", "demo/.dylibs"])
def test_objects_in_the_folders_of_repair_tools_are_of_others(folder: str) -> None:
    package = _package(_library("demo/a.so", *NEW), _library(f"{folder}/b.so", *OLD))
    assert list(cxx_abi.mixed_cxx_abi(package)) == []
    assert list(cxx_abi.unexpected_cxx_abi(package, expected=True)) == []


def test_the_profile_says_how_much_evidence_is_enough() -> None:
    package = _package(_library("a.so", *NEW))
    assert list(cxx_abi.unexpected_cxx_abi(package, expected=True, at_least=3)) == []
    assert list(cxx_abi.unexpected_cxx_abi(package, expected=True, at_least=4)) == [
        NotInspected(
            sentence="fewer than 4 symbols in the package's own namespaces show the C++ ABI: 3"
        )
    ]
    neutral = _package(_library("a.so", *NEUTRAL))
    assert list(cxx_abi.unexpected_cxx_abi(neutral, expected=True, namespaces=("c10",))) == [
        NotInspected(sentence="fewer than 2 symbols in c10 show the C++ ABI: 0")
    ]


@pytest.mark.parametrize("library", [macho_file(exports=symbols(*NEUTRAL)), pe_file()])
def test_no_abi_is_expected_of_libraries_that_are_of_libstdcxx_in_no_way(
    library: ObjectFile,
) -> None:
    with pytest.raises(NotApplicable, match="only one std::string"):
        list(cxx_abi.unexpected_cxx_abi(wheel(objects=[library]), expected=True))
    of_it = wheel(objects=[library, _macho("demo/a.so", *OLD)])
    assert only(Problem, cxx_abi.unexpected_cxx_abi(of_it, expected=True))
