from __future__ import annotations

import pytest

from binary_checks.checks.cuda.drivers import hijackable_library
from binary_checks.errors import NotApplicable
from binary_checks.loaders import simulate
from binary_checks.model import ElfFile, Finding, Note, NotInspected, Package, Problem
from fixtures.linking import EXTENSION, GLIBC, dll, extension, library, link, target, windows
from fixtures.values import symbols, wheel

RUNTIME = library("nvidia/lib/libcudart.so.12")
RUNPATH = (
    "finds {} by a RUNPATH: directories in LD_LIBRARY_PATH come first, and a library of "
    "another CUDA there replaces it; use patchelf --force-rpath"
)


def nvidia(*objects: ElfFile) -> Package:
    return wheel("nvidia_x_cu12-1.0-py3-none-manylinux_2_17_x86_64.whl", objects=objects)


def judge(*objects: ElfFile, beside: tuple[ElfFile, ...] = ()) -> list[Finding]:
    return list(
        hijackable_library(link(*objects, others=(nvidia(*beside),)), wheel(objects=objects))
    )


def test_what_a_runpath_leads_to_can_be_replaced() -> None:
    module = extension("libcudart.so.12", runpath=("$ORIGIN/../nvidia/lib",))
    assert judge(module, beside=(RUNTIME,)) == [
        Problem(path=EXTENSION, sentence=RUNPATH.format("libcudart.so.12"))
    ]


def test_what_an_rpath_leads_to_cannot() -> None:
    module = extension("libcudart.so.12", rpath=("$ORIGIN/../nvidia/lib",))
    assert judge(module, beside=(RUNTIME,)) == []


def test_what_is_loaded_by_then_cannot() -> None:
    paths = ("$ORIGIN", "$ORIGIN/../nvidia/lib")
    init = symbols("PyInit__native")
    module = extension("libcudart.so.12", "libdemo.so", rpath=paths, exports=init)
    other = library("demo/libdemo.so", "libcudart.so.12", runpath=("$ORIGIN/../nvidia/lib",))
    assert judge(module, other, beside=(RUNTIME,)) == []
    later = library("demo/libplugin.so", "libcudart.so.12", runpath=("$ORIGIN/../nvidia/lib",))
    assert judge(module, other, later, beside=(RUNTIME,)) == []


def test_a_required_wheel_that_lets_another_library_in_is_noted() -> None:
    """As nvidia-cusparse-cu12 does with libnvJitLink.so.12, which torch does not need itself."""
    sparse = library("nvidia/lib/libcusparse.so.12", "libnvJitLink.so.12", runpath=("$ORIGIN",))
    linker = library("nvidia/lib/libnvJitLink.so.12")
    module = extension("libcusparse.so.12", rpath=("$ORIGIN/../nvidia/lib",))
    assert judge(module, beside=(sparse, linker)) == [
        Note(
            path="wheel:nvidia-x-cu12:nvidia/lib/libcusparse.so.12",
            sentence=RUNPATH.format("libnvJitLink.so.12"),
        )
    ]
    safe = extension("libcusparse.so.12", "libnvJitLink.so.12", rpath=("$ORIGIN/../nvidia/lib",))
    assert judge(safe, beside=(sparse, linker)) == []


def test_what_the_system_alone_has_can_be_replaced() -> None:
    module = extension("libnccl.so.2")
    linkage = link(module, on=target(libraries=GLIBC | {"libnccl.so.2"}))
    (finding,) = hijackable_library(linkage, wheel(objects=(module,)))
    assert isinstance(finding, Problem)
    assert finding.sentence.startswith("finds libnccl.so.2 by only the system: ")


def test_a_name_that_only_this_wheel_has_cannot_be_replaced() -> None:
    name = "libcudart-1a2b3c4d.so.12"
    module = extension(name, runpath=("$ORIGIN/../demo.libs",))
    assert judge(module, library(f"demo.libs/{name}")) == []


def test_libraries_that_are_not_cudas_are_not_meant() -> None:
    module = extension("libx.so.1", "libcuda.so.1", runpath=("$ORIGIN",))
    assert judge(module, library("demo/libx.so.1")) == []


def test_how_a_required_library_finds_others_is_not_known() -> None:
    module = extension("libcusparse.so.12", runpath=("$ORIGIN/../nvidia/lib",))
    linkage = simulate(wheel(objects=(module,)), target(), requirements=("nvidia-cusparse-cu12",))
    problem, gap = hijackable_library(linkage, wheel(objects=(module,)))
    assert isinstance(problem, Problem)
    assert isinstance(gap, NotInspected)
    assert gap.sentence.startswith("the dependencies of libcusparse.so.12 are unknown")


def test_a_library_that_a_required_wheel_may_bring_can_be_replaced_by_a_runpath_alone() -> None:
    module = extension("libcusparse.so.12", rpath=("$ORIGIN/../nvidia/lib",))
    linkage = simulate(wheel(objects=(module,)), target(), requirements=("nvidia-cusparse-cu12",))
    (gap,) = hijackable_library(linkage, wheel(objects=(module,)))
    assert isinstance(gap, NotInspected)


def test_a_library_that_nobody_brings_cannot_be_replaced() -> None:
    assert judge(extension("libcusparse.so.12", runpath=("$ORIGIN/../nvidia/lib",))) == []


def test_windows_does_not_search_path() -> None:
    module = dll("demo/_native.pyd", "cudart64_12.dll")
    with pytest.raises(NotApplicable, match="Python does not search PATH for"):
        list(hijackable_library(link(module, on=windows()), wheel(objects=(module,))))
