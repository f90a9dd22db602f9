"""The kernels that a compiler made of one source file are compared between architectures."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.gather import kernel_gaps
from binary_checks.model.missing_kernels import KernelGaps, ObjectGaps
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import CUBIN, container, entry
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_fatbin_sample

OLDER, NEWER = (read_fatbin_sample(f"{name}.cubin") for name in ("sm_80", "sm_90"))
OTHER = NEWER.replace(b"add_one", b"sub_one")


def find(folder: Path, fatbin: bytes) -> ObjectGaps:
    library = build_elf(sections={".nv_fatbin": fatbin})
    with examine(build_wheel(folder, members={"demo/libdemo.so": library})) as facts:
        (found,) = facts.get(KernelGaps).objects
    return found


def test_a_kernel_that_one_architecture_lacks(tmp_path: Path) -> None:
    source_file = container(entry(CUBIN, 80, OLDER), entry(CUBIN, 90, OTHER))
    found = find(tmp_path, source_file)
    assert [(each.name, each.lacking, each.having) for each in found.gaps] == [
        ("add_one", ("sm_90",), ("sm_80",)),
        ("sub_one", ("sm_80",), ("sm_90",)),
    ]
    assert found.containers == 1


def test_two_source_files_are_not_compared_with_each_other(tmp_path: Path) -> None:
    one = container(entry(CUBIN, 80, OLDER), entry(CUBIN, 90, NEWER))
    found = find(tmp_path, one + container(entry(CUBIN, 90, OTHER)))
    assert (found.gaps, found.containers, found.unread) == ((), 1, ())


def test_suffixes_of_one_architecture_share_its_kernels(tmp_path: Path) -> None:
    special = read_fatbin_sample("sm_90a.cubin").replace(b"add_one", b"sub_one")
    source_file = container(entry(CUBIN, 90, NEWER), entry(CUBIN, 90, special))
    assert find(tmp_path, source_file).gaps == ()


def test_a_container_with_a_broken_cubin_is_not_compared(tmp_path: Path) -> None:
    source_file = container(entry(CUBIN, 80, OLDER), entry(CUBIN, 90, b"no cubin"))
    found = find(tmp_path, source_file)
    assert (found.gaps, found.containers) == ((), 0)
    (reason,) = found.unread
    assert "it is no cubin" in reason


def test_no_more_is_unpacked_than_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_gaps, "_MOST_UNPACKED", len(OLDER))
    found = find(tmp_path, container(entry(CUBIN, 80, OLDER), entry(CUBIN, 90, OTHER)))
    assert found.gaps == ()
    assert found.unread == (f"the package's device code unpacks to more than {len(OLDER)} bytes",)


def test_no_more_names_are_compared_than_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name is looked for in the code for each architecture."""
    monkeypatch.setattr(kernel_gaps, "_MOST_STEPS", 7)
    source_file = container(entry(CUBIN, 80, OLDER), entry(CUBIN, 90, OTHER))
    found = find(tmp_path, source_file * 2)
    assert (len(found.gaps), found.containers) == (2, 1)
    assert found.unread == ("comparing them takes more than 7 steps",)
