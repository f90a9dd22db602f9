"""PTX runs on later GPUs, code for one GPU does not; a sample has the smallest and largest PTX."""

from __future__ import annotations

import pytest

from binary_checks.knowledge.device_code import (
    PtxSize,
    choose_targets,
    choose_texts,
    find_reachable,
    limit_targets,
)

KNOWN = tuple(f"sm_{n}" for n in (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121))


@pytest.mark.parametrize(
    ("architecture", "reachable"),
    [
        ("sm_110", ("sm_110", "sm_120", "sm_121")),
        ("sm_95", ("sm_100", "sm_103", "sm_107", "sm_110", "sm_120", "sm_121")),
        ("sm_90a", ("sm_90a",)),
        ("sm_100f", ("sm_100", "sm_103", "sm_107")),
        ("sm_103f", ("sm_103", "sm_107")),
        ("sm_120f", ("sm_120", "sm_121")),
        ("sm_130", ()),
        ("sm_130a", ()),
        ("sm_130f", ()),
        ("gfx90a", ()),
        ("", ()),
    ],
)
def test_ptx_reaches_the_gpus_that_come_after_its_own(
    architecture: str, reachable: tuple[str, ...]
) -> None:
    assert find_reachable(architecture, KNOWN) == reachable


def test_the_newest_gpu_of_each_major_version_stands_for_it() -> None:
    assert choose_targets("sm_80", KNOWN) == ("sm_89", "sm_90", "sm_107", "sm_110", "sm_121")
    assert choose_targets("sm_120", KNOWN) == ("sm_121",)
    assert choose_targets("sm_100f", KNOWN) == ("sm_107",)
    assert choose_targets("sm_100a", KNOWN) == ("sm_100a",)
    assert choose_targets("sm_121", ("sm_90",)) == ()


def test_a_sample_has_the_smallest_and_the_largest_that_the_budget_holds() -> None:
    sizes = [PtxSize("sm_120", size) for size in (500, 10, 900, 20, 5000)]
    assert choose_texts(sizes, 10_000) == (0, 1, 2, 3, 4)
    assert choose_texts(sizes, 1_000) == (1, 2, 3)
    assert choose_texts(sizes, 5) == ()
    assert choose_texts((), 5) == ()
    assert choose_texts([PtxSize("sm_80", 10), PtxSize("sm_120", 40)], 60) == (1,)  # the newer one


def test_a_text_costs_its_size_for_every_target() -> None:
    two = [PtxSize("sm_80", 10), PtxSize("sm_80", 10)]
    assert choose_texts(two, 99) == (0,)
    assert choose_texts(two, 100) == (0, 1)
    assert choose_texts([PtxSize("sm_999", 10)], 10) == (0,)


def test_a_text_that_is_large_by_itself_is_compiled_for_the_newest_alone() -> None:
    assert limit_targets(("sm_90", "sm_121"), 10, 20) == ("sm_90", "sm_121")
    assert limit_targets(("sm_90", "sm_121"), 11, 20) == ("sm_121",)
    assert limit_targets((), 11, 20) == ()
    assert choose_texts([PtxSize("sm_80", 49)], 49) == (0,)
    assert choose_texts([PtxSize("sm_80", 50)], 49) == ()
