"""Names in a sentence are few and short."""

from __future__ import annotations

from binary_checks.wording.sentences import find_remark, format_symbols, name_first


def test_the_first_names_are_shown_and_the_rest_counted() -> None:
    assert name_first(("a", "b")) == "a, b"
    assert name_first(("a", "b", "c", "d", "e")) == "a, b, c and 2 more"
    assert name_first(("a", "b"), 1) == "a and 1 more"


def test_long_names_are_cut_in_the_middle() -> None:
    beginning = "_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4find" + "P" * 200
    shown = name_first((f"{beginning}m", f"{beginning}j"))
    first, second = shown.split(", ")
    assert len(first) == len(second) == 160
    assert first.endswith("Pm")
    assert second.endswith("Pj")


def test_symbols_of_cpp_stay_different() -> None:
    beginning = "_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4findE"
    shown = format_symbols([f"{beginning}cm", f"{beginning}PKcmm"]).split(", ")
    assert [name[-6:] for name in shown] == ["findEcm"[-6:], "EPKcmm"]


def test_a_cut_remark_keeps_what_went_wrong() -> None:
    path = "/tmp/" + "folder/" * 40 + "libx.so.1"
    remark = find_remark(f"cannot load {path}: this version does not exist")
    assert len(remark) == 200
    assert remark.startswith("cannot load /tmp/")
    assert remark.endswith("libx.so.1: this version does not exist")
