"""Abbreviations of the standard library are found in mangled names; identifiers are skipped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.model import function_of, is_other_abi, names_old_abi, readable_name


@pytest.mark.parametrize(
    "mangled",
    [
        "_ZN3c101fERKSs",
        "_Z1fSs",
        "_ZN3c101fESbIwSt11char_traitsIwESaIwEE",
        "_ZN3c101fESt4listIiSaIiEE",
        "_ZN1a1fILi5EEEvSs",  # 5 is a value, not a length
        "_ZN1a1fILb1ELin12EEEvSs",
        "_ZN1a1fILNS_1eE9EEEvSs",
        "_ZN1a1fIL1e9EEEvSs",
        "_ZN1a1fILS0_9EEEvSs",
        "_ZN1aC1ERKSs",
        "_ZN1aD2ESs",
        "_ZZN1a1fEvENKUlvE0_clESs",
        "_ZZN1a1fEvENKUlvE12_clESs",  # 12 numbers a lambda and is not a length
        "_ZThn16_N1a1fESs",
        "_ZTv0_n24_N1a1fESs",
        "_ZN1a1fERA10_KcSs",
        "_ZN1aL3barESs",
        "_ZN1a1fIT_S1_EEvSs",
        "_ZTVN1a1bISsEE",
        "_ZGVZN1a1fESsE1x",
    ],
)
def test_the_old_abi_is_found(mangled: str) -> None:
    assert names_old_abi(mangled)


@pytest.mark.parametrize(
    "mangled",
    [
        "_ZN3c109getSslKeyEv",
        "_ZN3c1010St4listingEv",
        "_ZN3c101fERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEENS0_4listIiSaIiEE",
        "_ZN3c101fESt17basic_string_viewIcSt11char_traitsIcEE",
        "_ZN3c101fENSt3__112basic_stringIcEE",
        "_ZN1a1fILi5EEEv5Sslib",
        "_Z5fSs",  # an identifier longer than the rest of the name
        "_ZN3c101fEi.Ss.part.0",
        "Ss",
        "",
    ],
)
def test_everything_else_is_not(mangled: str) -> None:
    assert not names_old_abi(mangled)


@given(st.text(alphabet="_ZNSTLIEXJFUDCABabcst0123456789.", max_size=60))
def test_noise_is_taken_apart_to_its_end(noise: str) -> None:
    assert names_old_abi(f"_Z{noise}") in (True, False)


STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
PAIRS = [  # one function mangled by g++ 12 with _GLIBCXX_USE_CXX11_ABI=0 and =1
    ("_Z2f2Ss", f"_Z2f2{STRING}"),
    ("_ZN1a1fERKSs", f"_ZN1a1fERK{STRING}"),
    ("_ZN1a1SC1ERKSs", f"_ZN1a1SC1ERK{STRING}"),
    ("_ZN1a1gEi", "_ZN1a1gB5cxx11Ei"),
    ("_ZNK1a1S1mEv", "_ZNK1a1S1mB5cxx11Ev"),
    ("_ZN1a1hEiSt6vectorISsSaISsEE", f"_ZN1a1hEiSt6vectorI{STRING}SaIS6_EE"),
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_one_function_under_both_abis_is_recognised(old: str, new: str) -> None:
    assert is_other_abi(old, new)
    assert is_other_abi(new, old)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("_ZN1a1fERKSs", "_ZN1a1fERKSs"),
        ("_ZN1a1gB5cxx11Ei", "_ZN1a1gB5cxx11Ei"),
        ("_ZN1a1fERKSs", f"_ZN1a1gERK{STRING}"),
        ("_ZN1a1fEi", f"_ZN1a1fERK{STRING}"),  # an overload
        ("Ss", "cxx11"),
    ],
)
def test_other_functions_are_not(one: str, other: str) -> None:
    assert not is_other_abi(one, other)


@pytest.mark.parametrize(
    ("mangled", "function"),
    [
        ("_ZN1a1gB5cxx11Ei", "_ZN1a1g"),
        ("_Z2f2Ss", "_Z2f2"),
        ("_ZN1a1fIiEEvT_", ""),  # a template
        ("_ZN", ""),
        ("_Z", ""),
    ],
)
def test_the_name_of_a_function_goes_without_its_parameters(mangled: str, function: str) -> None:
    assert function_of(mangled) == function


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZN3c104impl12PyObjectSlot9has_pyobjEv", "c10::impl::PyObjectSlot::has_pyobj"),
        ("_ZNK2at6Tensor3dimEv", "at::Tensor::dim"),
        ("_ZN5arrow6BufferC1Ev", "arrow::Buffer::Buffer"),
        ("_ZN5arrow6BufferD0Ev", "arrow::Buffer::~Buffer"),
        ("_Z19isMainPyInterpreterv", "isMainPyInterpreter"),
        ("_ZN2at6Tensor8data_ptrIfEEPT_v", "at::Tensor::data_ptr"),
        ("?Close@Reader@io@arrow@@QEAAXXZ", "arrow::io::Reader::Close"),
        ("??0Buffer@arrow@@QEAA@XZ", "arrow::Buffer::Buffer"),
        ("??1Buffer@arrow@@QEAA@XZ", "arrow::Buffer::~Buffer"),
        ("??$f@H@arrow@@YAXH@Z", "??$f@H@arrow@@YAXH@Z"),
        ("_ZNSt6vectorIiE4pushEi", "_ZNSt6vectorIiE4pushEi"),
        ("_ZN999x", "_ZN999x"),
        ("_ZN", "_ZN"),
        ("cudaMalloc", "cudaMalloc"),
    ],
)
def test_plain_names_are_readable(mangled: str, name: str) -> None:
    assert readable_name(mangled) == name
