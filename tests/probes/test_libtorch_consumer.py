"""C++ programs are built against libtorch, assembled from a published wheel of torch.

100 MB are downloaded; the rest takes a minute on two cores.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.checks.consumer import other_cxx_abi_links, reached_target_absent
from binary_checks.errors import Unavailable
from binary_checks.model import (
    ConsumerReport,
    ConsumerUnit,
    Ending,
    Level,
    Problem,
)
from binary_checks.probes.consume_cpp.tools import find_candidates
from fixtures.libtorch_archive import assemble
from fixtures.values import say
from tests.oracles.downloads import pip
from tests.places.published import ON_LINUX
from tests.probes.test_consume_cpp import judge

pytestmark = [*ON_LINUX]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        find_candidates(os.environ)
    except Unavailable as lack:
        pytest.skip(str(lack))
    folder = tmp_path_factory.mktemp("libtorch")
    pip("download", "--no-deps", "--only-binary=:all:", "--dest", folder, "torch==2.13.0+cpu")
    (wheel,) = folder.glob("torch-*.whl")
    return assemble(wheel, folder / "archive")


@pytest.fixture(scope="module")
def report(archive: Path) -> ConsumerReport:
    """What became of every unit of the profile for torch."""
    with examine(archive, profile="torch", run=True) as facts:
        return facts.get(ConsumerReport)


def unit(report: ConsumerReport, name: str) -> ConsumerUnit:
    return next(each for each in report.units if each.name == name)


def test_every_unit_for_the_cpu_is_built_in_both_ways_and_runs(report: ConsumerReport) -> None:
    ran = {each.name: [b.last.outcome for b in each.builds] for each in report.units}
    assert ran.pop("xnnpack") == [Ending.EXITED] * 2  # built with USE_XNNPACK=OFF
    fit = [Ending.OK] * 2
    assert ran == dict.fromkeys(("example Torch", "frontend", "cxx-abi", "mkl"), fit)
    assert all(each.links for one in report.units for each in one.builds)
    assert [name for name, _ in report.elsewhere] == ["cuda", "cudnn", "magma"]


def test_it_is_found_where_it_was_moved_to(report: ConsumerReport) -> None:
    example = unit(report, "example Torch")
    assert {"share/cmake/Torch/TorchConfig.cmake", "share/cmake/Caffe2/Caffe2Targets.cmake"} <= {
        *example.reads
    }
    files = {each.name: each.file for each in example.targets}
    assert (files["torch"], files["c10"]) == ("lib/libtorch.so", "lib/libc10.so")
    assert {each.last.printed for each in example.builds} == {"2.13.0"}


def test_the_targets_of_tensorpipe_are_not_reached(report: ConsumerReport) -> None:
    """Two archives that TensorpipeTargets.cmake names are not there; no consumer reads it."""
    reads = {path for each in report.units for path in each.reads}
    assert not any("Tensorpipe" in path for path in reads)
    assert list(reached_target_absent(report)) == []


def test_the_other_abi_misses_what_the_profile_names(report: ConsumerReport) -> None:
    other = unit(report, "cxx-abi").other_abi
    assert other is not None
    assert other.last.undefined == ("_ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_RKSs",)
    assert list(other_cxx_abi_links(report)) == []


def test_nothing_is_wrong_but_what_is_known(report: ConsumerReport, archive: Path) -> None:
    found = judge(report, archive)
    assert found.keys() == {"run", "path"}
    assert say(found["run"]) == ["xnnpack does not run: it ends with exit status 1"]
    (path,) = found["path"]
    assert isinstance(path, Problem)
    assert path.level is Level.WARNING
    assert "get the search path /lib/intel64:/lib/intel64_win:/lib/win-x64: " in path.sentence
