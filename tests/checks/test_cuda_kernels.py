from __future__ import annotations

import pytest

from binary_checks.checks.cuda.kernels import kernel_lacks_architecture
from binary_checks.errors import NotApplicable
from binary_checks.model import Note, NotInspected, Problem
from binary_checks.model.missing_kernels import KernelGap, KernelGaps, ObjectGaps


def gap(name: str, lacking: str = "sm_75") -> KernelGap:
    having = ("sm_80", "sm_90")
    return KernelGap(name=name, lacking=(lacking,), having=having, offset=64)


def gaps(*found: KernelGap, containers: int = 3, unread: tuple[str, ...] = ()) -> KernelGaps:
    item = ObjectGaps(path="demo/x.so", gaps=found, containers=containers, unread=unread)
    return KernelGaps(objects=(item,))


def test_kernels_that_one_architecture_lacks_are_one_line() -> None:
    (found,) = kernel_lacks_architecture(gaps(gap("_Z4tinyv"), gap("_Z5smallv")))
    assert found == Problem(
        path="demo/x.so",
        sentence="lacks 2 kernels for sm_75 that are there for sm_80, sm_90: _Z4tinyv and 1 more "
        '(container at offset 64); calling it there fails with "invalid device function"',
    )


def test_each_architecture_that_lacks_some_is_a_line() -> None:
    found = list(kernel_lacks_architecture(gaps(gap("_Z1av"), gap("_Z1av", "sm_70"))))
    assert len(found) == 2


def test_kernels_may_be_exempt_by_their_names() -> None:
    """As torch's tinygemm kernels are, which use instructions of sm_80."""
    (found,) = kernel_lacks_architecture(gaps(gap("_Z8tinygemmv")), exempt=("*tinygemm*",))
    assert found == Note(
        path="demo/x.so",
        sentence="1 kernel that an architecture lacks is exempt by the profile (the option exempt)",
    )


def test_kernels_that_all_architectures_have_are_fine() -> None:
    assert list(kernel_lacks_architecture(gaps())) == []


def test_code_that_could_not_be_read_is_a_gap() -> None:
    (found,) = kernel_lacks_architecture(gaps(containers=0, unread=("it is cut",)))
    sentence = "not all kernels were compared: it is cut"
    assert found == NotInspected(path="demo/x.so", sentence=sentence)


def test_code_for_one_architecture_has_nothing_to_compare() -> None:
    for found in (KernelGaps(), gaps(containers=0)):
        with pytest.raises(NotApplicable):
            list(kernel_lacks_architecture(found))
