from __future__ import annotations

import pytest

from binary_checks.checks.crosscheck import readers_disagree
from binary_checks.errors import NotApplicable, ReadersDisagree
from binary_checks.model import Disagreement, NoOpinion, Note, NotInspected, SecondOpinion
from fixtures.values import wheel

PATH = wheel().layout.place("demo/a.so")
AGREED = SecondOpinion(libraries=("LIEF 1.0.0", "pefile 2024.8.26"), objects=3, compared=1_200)


def disagreement(fact: str) -> Disagreement:
    return Disagreement(
        path=PATH, library="LIEF 1.0.0", fact=fact, ours="liba.so.1", theirs="nothing more"
    )


def test_readers_that_agree_are_a_note() -> None:
    sentence = "1,200 facts of 3 objects read the same in LIEF 1.0.0, pefile 2024.8.26"
    assert list(readers_disagree(AGREED, wheel())) == [Note(sentence=sentence)]
    with pytest.raises(NotApplicable, match="no ELF, Mach-O or PE object in the package"):
        list(readers_disagree(SecondOpinion(), wheel()))


def test_a_disagreement_is_an_error_that_names_both_answers() -> None:
    opinion = SecondOpinion(disagreements=(disagreement("needed"), disagreement("imports")))
    with pytest.raises(ReadersDisagree) as raised:
        list(readers_disagree(opinion, wheel()))
    assert raised.value.lines == (
        "demo/a.so: readers disagree about needed: we read liba.so.1, LIEF 1.0.0 reads nothing "
        "more",
        "demo/a.so: readers disagree about imports: we read liba.so.1, LIEF 1.0.0 reads nothing "
        "more",
    )
    assert str(raised.value).endswith("LIEF 1.0.0 reads nothing more (and 1 more)")


def test_a_library_that_says_nothing_was_not_asked_twice() -> None:
    gap = NoOpinion(path="demo/a.so", library="LIEF 1.0.0", reason="no answer within 60 s")
    found = list(readers_disagree(SecondOpinion(missing=(gap,)), wheel()))
    sentence = "second opinion unavailable: LIEF 1.0.0: no answer within 60 s"
    assert found == [NotInspected(path="demo/a.so", sentence=sentence)]


def test_a_fact_that_a_library_does_not_know_of_a_file_is_a_note() -> None:
    gap = NoOpinion(path="demo/a.so", library="pyelftools 0.33", fact="imports", reason="why")
    opinion = SecondOpinion(objects=1, compared=1, libraries=("LIEF 1.0.0",), missing=(gap,))
    first, _ = readers_disagree(opinion, wheel())
    assert first == Note(path="demo/a.so", sentence="pyelftools 0.33 on imports: why")
