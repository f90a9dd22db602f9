"""What a CUDA build says of its parts and of NVIDIA's libraries is judged where there is no GPU."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.cuda.toolkits import cuda_libraries_disagree, cuda_part_missing
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Answer,
    Code,
    CudaReport,
    CudaRequest,
    Ending,
    LibraryVersions,
    Note,
    NotInspected,
    Step,
)
from fixtures.values import say, wheel

VERSION, MAGMA, NCCL = Code("demo.cuda"), Code("demo.has_magma"), Code("demo.has_nccl()")
PARTS = {"magma": MAGMA, "nccl": NCCL}
ASKED = CudaRequest(version=VERSION, parts=PARTS)
PINNED = wheel(metadata=[("Requires-Dist", "nvidia-cudnn-cu12==9.10.2.21")])


def report(**fields: Any) -> CudaReport:
    told = {"python": "CPython 3.11.7", "system": "linux-x86_64", "step": Step(name="demo")}
    return CudaReport(**{**told, **fields})


def answering(**values: Any) -> CudaReport:
    questions = {"cuda": VERSION, "magma": MAGMA, "nccl": NCCL}
    answers = (Answer(question=questions[name], value=value) for name, value in values.items())
    return report(answers=tuple(answers))


def libraries(**fields: str) -> CudaReport:
    versions = (LibraryVersions(name="cudnn", **fields),)
    return report(versions=versions, versions_step=Step(name="versions"))


def test_cuda_part_missing_fires_on_a_part_that_is_not_there() -> None:
    found = cuda_part_missing(
        answering(cuda="13.2", magma=False, nccl=True), CudaRequest(parts=PARTS)
    )
    assert say(found) == ["the build lacks magma: demo.has_magma is False"]
    gone = report(answers=(Answer(question=MAGMA, error="AttributeError: has_magma"),))
    assert say(cuda_part_missing(gone, CudaRequest(parts={"magma": MAGMA}))) == [
        "magma: demo.has_magma raises AttributeError: has_magma"
    ]


def test_a_part_for_another_system_is_a_note_and_all_parts_are_fine() -> None:
    whole, part = (answering(cuda="13.2", magma=True, nccl=there) for there in (True, False))
    assert list(cuda_part_missing(whole, ASKED)) == []
    found = cuda_part_missing(part, ASKED, only={"nccl": ("windows-*", "macos-*")})
    assert list(found) == [Note(sentence="nccl is for windows-* and macos-* only")]
    for_this_one = cuda_part_missing(part, ASKED, only={"nccl": ("macos-*", "linux-*")})
    assert say(for_this_one) == ["the build lacks nccl: demo.has_nccl() is False"]


def test_a_build_for_no_cuda_is_to_have_no_part() -> None:
    with pytest.raises(NotApplicable, match=r"demo\.cuda is None: the build is not for CUDA"):
        list(cuda_part_missing(answering(cuda=None, magma=0), ASKED))
    with pytest.raises(NotApplicable, match="the build is not for CUDA"):
        list(cuda_libraries_disagree(report(), PINNED, ASKED))
    with pytest.raises(NotApplicable, match="has no expression for it"):
        list(cuda_part_missing(report(), CudaRequest()))


def test_what_could_not_be_asked_is_a_gap() -> None:
    dead = report(step=Step(name="demo", outcome=Ending.CRASHED), stage="import demo")
    ended = "was not evaluated: the process ended after import demo"
    assert list(cuda_part_missing(dead, CudaRequest(version=VERSION, parts={"magma": MAGMA}))) == [
        NotInspected(sentence=f"{MAGMA} {ended}")
    ]
    assert list(cuda_libraries_disagree(dead, PINNED, ASKED)) == [
        NotInspected(sentence=f"the version of each library {ended}")
    ]


def test_cuda_libraries_disagree_fires_on_what_is_loaded_and_on_what_is_installed() -> None:
    older = libraries(compiled="9.10.2", loaded="9.1.0", installed="9.10.2.21")
    assert say(cuda_libraries_disagree(older, PINNED, ASKED)) == [
        "cudnn 9.1.0 is loaded, but the package was built with 9.10.2",
        "cudnn 9.1.0 is loaded, but 9.10.2.21 is installed",
        "cudnn 9.1.0 is loaded, but the package requires 9.10.2.21",
    ]
    lying_there = libraries(compiled="9.10.2", installed="9.1.0.70")
    assert say(cuda_libraries_disagree(lying_there, PINNED, ASKED)) == [
        "cudnn 9.1.0.70 is installed, but the package was built with 9.10.2",
        "cudnn 9.1.0.70 is installed, but the package requires 9.10.2.21",
    ]
    newer = libraries(compiled="9.10.1", loaded="9.10.2")
    assert say(cuda_libraries_disagree(newer, wheel(), ASKED, newer=False)) == [
        "cudnn 9.10.2 is loaded, but the package was built with 9.10.1"
    ]


def test_cuda_libraries_disagree_fires_on_another_version_than_a_profile_expects() -> None:
    there = libraries(loaded="9.10.2", installed="9.10.2.21")
    older = {"expected": {"cudnn": "9.9"}, "asked": CudaRequest()}
    assert say(cuda_libraries_disagree(there, wheel(), **older)) == [
        "cudnn 9.10.2 is loaded, but the profile expects 9.9"
    ]
    same = {"expected": {"cudnn": "9.10"}, "asked": CudaRequest()}
    assert list(cuda_libraries_disagree(there, wheel(), **same)) == []


def test_cuda_libraries_disagree_fires_on_a_process_that_does_not_come_to_an_answer() -> None:
    step = Step(name="versions", outcome=Ending.RAISED, detail="AttributeError: _cudnn")
    assert say(cuda_libraries_disagree(report(versions_step=step), PINNED, ASKED)) == [
        "asking for the versions of NVIDIA's libraries raises AttributeError: _cudnn"
    ]


def test_cuda_libraries_disagree_is_quiet_when_they_agree() -> None:
    for same in (
        libraries(compiled="9.10.2", loaded="9.10.2", installed="9.10.2.21", pinned="9.10.2.21"),
        libraries(compiled="9.10.2", installed="9.10.2.21"),
        libraries(compiled="9.10.1", loaded="9.10.2"),
    ):
        assert list(cuda_libraries_disagree(same, PINNED, ASKED)) == []


def test_a_version_that_nobody_tells_is_a_gap() -> None:
    asked = {"cudnn": Code("demo.cudnn()"), "nccl": Code("demo.nccl()")}
    assert list(
        cuda_libraries_disagree(libraries(compiled="9.1.0"), wheel(), CudaRequest(compiled=asked))
    ) == [
        NotInspected(sentence="nccl: the package does not report the version it was built with"),
        NotInspected(sentence="cudnn: it is neither loaded nor installed"),
    ]
    none = report(versions_step=Step(name="versions"))
    with pytest.raises(NotApplicable, match="loads none of NVIDIA's libraries"):
        list(cuda_libraries_disagree(none, wheel(), ASKED))
