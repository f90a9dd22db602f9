from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.cuda.drivers import driver_library_in_layout, driver_library_needed
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    ElfFile,
    Finding,
    ImportOpenings,
    Linkage,
    Note,
    NotInspected,
    ObjectFile,
    OpenedNames,
    Problem,
)
from fixtures.linking import EXTENSION, GLIBC, dll, library, link, needs, target, windows
from fixtures.values import elf_file, only, pe_file, symbols, wheel

INIT = symbols("PyInit__native")
USED = symbols("cuInit", "nvmlInit_v2")
PYD = "demo/_native.cp311-win_amd64.pyd"
NONE_OPENED = ImportOpenings()


def extension(*needed: str, path: str = EXTENSION, **fields: Any) -> ElfFile:
    return library(path, *needed, exports=INIT, **{"imports": USED, **fields})


def judge(
    *objects: ObjectFile,
    linkage: Linkage | None = None,
    openings: ImportOpenings = NONE_OPENED,
) -> list[Finding]:
    linkage = linkage or link(*objects)
    return list(driver_library_needed(linkage, wheel(objects=objects), openings))


def problem(*objects: ObjectFile, linkage: Linkage | None = None) -> Problem:
    return only(Problem, judge(*objects, linkage=linkage))


def test_a_module_must_not_need_the_driver() -> None:
    assert judge(extension("libcuda.so.1")) == [
        Problem(
            path=EXTENSION,
            sentence="needs libcuda.so.1, which only the NVIDIA driver provides, and importing "
            "this file loads it: without a driver the import fails",
        )
    ]
    module = extension("libcuda.so.1")
    promising = target(libraries=GLIBC | {"libcuda.so.1"})  # it is still not everywhere
    assert problem(module, linkage=link(module, on=promising)).path == EXTENSION


def test_a_driver_of_which_nothing_is_used_is_left_out_by_the_linker() -> None:
    found = problem(extension("libcuda.so.1", imports=symbols("cudaMalloc", "nvmlInit_v2")))
    assert found.sentence.endswith(
        "the import fails; it uses no function of libcuda.so.1: link with -Wl,--as-needed"
    )
    assert found.command == "patchelf --remove-needed libcuda.so.1 {path}"
    used = problem(extension("libcuda.so.1", imports=symbols("cuMemAlloc_v2")))
    assert (used.sentence.endswith("the import fails"), used.command) == (True, "")


def test_the_way_to_the_driver_is_told_and_all_that_load_it_are_counted() -> None:
    found = problem(
        extension("libouter.so", runpath=("$ORIGIN",)),
        library("demo/libouter.so", "libinner.so", runpath=("$ORIGIN",)),
        library("demo/libinner.so", "libnvidia-ml.so.1", imports=USED),
    )
    assert found.path == "demo/libinner.so"
    assert found.sentence == (
        "needs libnvidia-ml.so.1, which only the NVIDIA driver provides, and importing "
        f"{EXTENSION} loads it, through {EXTENSION} -> demo/libouter.so -> "
        "demo/libinner.so: without a driver the import fails"
    )
    found = problem(
        extension("libinner.so", runpath=("$ORIGIN",)),
        extension("libinner.so", path="demo/_native.abi3.so", runpath=("$ORIGIN",)),
        library("demo/libinner.so", "libcuda.so.1"),
    )
    assert "(so does importing 1 more)" in found.sentence
    runtime = library("nvidia/lib/libnvx.so.1", "libcuda.so.1")
    beside = wheel("nvidia_x-1.0-py3-none-manylinux_2_17_x86_64.whl", objects=(runtime,))
    module = extension("libnvx.so.1", rpath=("$ORIGIN/../nvidia/lib",))
    found = problem(module, linkage=link(module, others=(beside,)))
    assert found.path == EXTENSION
    assert f"{EXTENSION} -> wheel:nvidia-x:nvidia/lib/libnvx.so.1" in found.sentence


def test_a_library_that_no_module_needs_may_need_the_driver() -> None:
    helper = library("demo/lib/libnvrtc_helper.so", "libcuda.so.1")
    assert judge(extension(), helper) == [
        Note(
            path=helper.path,
            sentence="needs libcuda.so.1: no import loads it; opening it requires a driver",
        )
    ]


def test_what_is_opened_at_import_counts_as_imported() -> None:
    globe = library("torch/lib/libtorch_global_deps.so", "libcuda.so.1")
    assert problem(globe).path == globe.path
    helper = library("demo/lib/libdemo.so", "libcuda.so.1")
    found = driver_library_needed(
        link(helper),
        wheel(objects=(helper,)),
        NONE_OPENED,
        opened_at_import=("demo/lib/*",),
    )
    assert [type(finding) for finding in found] == [Problem]


HELPER = library("demo/lib/libdemo_cuda.so", "libcuda.so.1", imports=USED)
OPENED = frozenset({HELPER.path})


def test_a_library_that_the_package_opens_while_it_is_imported_counts() -> None:
    assert judge(extension(), HELPER, openings=ImportOpenings(demanded=OPENED)) == [
        Problem(
            path=HELPER.path,
            sentence="needs libcuda.so.1, which only the NVIDIA driver provides, and the package's "
            "own code, opening this file during the import, loads it: without a driver the import "
            "fails",
        )
    ]


@pytest.mark.parametrize(
    ("openings", "kind", "how"),
    [
        (ImportOpenings(), Note, "no import loads it; opening it requires a driver"),
        (
            ImportOpenings(tried=OPENED),
            Note,
            "the package's own code opens it, and continues if there is no driver",
        ),
        (
            ImportOpenings(unfollowed=OPENED),
            NotInspected,
            "the package's own code names it, but it is not known where the code opens it",
        ),
    ],
    ids=["later", "tried", "not followed"],
)
def test_one_that_it_opens_later_or_goes_on_without_is_noted(
    openings: ImportOpenings, kind: type[Note | NotInspected], how: str
) -> None:
    found = judge(extension(), HELPER, openings=openings)
    assert found == [kind(path=HELPER.path, sentence=f"needs libcuda.so.1: {how}")]
    module = extension("libcuda.so.1")  # opened by its path alone, and may fail
    assert only(Note, judge(module, openings=ImportOpenings(tried=frozenset({module.path}))))


def test_a_dll_of_the_driver_may_be_delayed_only_and_visual_cpps_runtime_needs_none() -> None:
    eager = dll(PYD, "nvcuda.dll", "KERNEL32.dll", exports=INIT)
    assert problem(eager, linkage=link(eager, on=windows())).path == PYD
    delayed = pe_file(PYD, needed=needs("nvcuda.dll", delayed=True), exports=INIT)
    assert judge(delayed, linkage=link(delayed, on=windows())) == []
    module = dll(PYD, "cudart64_12.dll", "MSVCP140.dll", exports=INIT)
    runtime = dll("demo/cudart64_12.dll", "KERNEL32.dll")
    assert judge(module, runtime, linkage=link(module, runtime, on=windows())) == []


def test_libraries_of_unknown_needs_may_need_the_driver_and_eight_are_named() -> None:
    names = ["libcublas.so.12", *(f"libpart{number}.so.1" for number in range(8))]
    eight, nine = (only(NotInspected, judge(extension(*names[:n]))).sentence for n in (8, 9))
    assert all(name in eight for name in names[:8])
    assert f"{names[7]} and 1 more are unknown" in nine
    module = extension("libcublas.so.12", rpath=("$ORIGIN/../nvidia/cublas/lib",))
    assert only(NotInspected, judge(module)).sentence.startswith(
        "the dependencies of libcublas.so.12 are unknown, and may include the driver"
    )


def test_a_cuda_build_without_the_driver_is_fine_and_one_without_cuda_not_judged() -> None:
    runtime = library("demo/libcudart.so.12", "libc.so.6")
    assert judge(extension("libcudart.so.12", rpath=("$ORIGIN",)), runtime) == []
    with pytest.raises(NotApplicable, match="nothing in it relates to CUDA"):
        judge(extension("libc.so.6"))


CALLS = symbols("cuInit", "cuDeviceGet", "cuDriverGetVersion")


def stub(path: str, **fields: Any) -> ElfFile:
    return elf_file(path, **{"name": "libcuda.so.1", "exports": CALLS, "size": 9000, **fields})


def judge_layout(*objects: ObjectFile, code: ImportOpenings = NONE_OPENED) -> list[Finding]:
    return list(driver_library_in_layout(link(*objects), wheel(objects=objects), code))


def test_a_shipped_driver_hides_the_users_under_any_name_and_though_nothing_needs_it() -> None:
    objects = (extension("libcuda.so.1", rpath=("$ORIGIN/lib",)), stub("demo/lib/libcuda.so.1"))
    assert judge_layout(*objects) == [
        Problem(
            path=EXTENSION,
            sentence="needs libcuda.so.1 and finds demo/lib/libcuda.so.1 (rpath): it hides the "
            "user's driver, the only one that matches the kernel module",
        )
    ]
    assert judge(*objects) == []
    graft = stub("demo.libs/libcuda-1a2b3c4d.so.1", name="libcuda-1a2b3c4d.so.1")  # renamed
    module = extension("libcuda-1a2b3c4d.so.1", rpath=("$ORIGIN/../demo.libs",))
    found = only(Problem, judge_layout(module, graft))
    assert found.path == EXTENSION
    assert found.sentence.startswith("needs libcuda-1a2b3c4d.so.1 and finds demo.libs/")
    copy = only(Problem, judge_layout(stub("demo/lib/libcuda.so.1", size=25_000_000)))
    assert copy.sentence == (
        "is a copy of libcuda.so.1 in place of the user's driver: only the user's own matches the "
        "kernel module; leave it out"
    )


def test_a_stub_that_only_a_linker_finds_hides_nothing() -> None:
    objects = (extension("libcuda.so.1", rpath=("$ORIGIN/stubs",)), stub("demo/stubs/libcuda.so"))
    assert judge_layout(*objects) == [
        Note(
            path="demo/stubs/libcuda.so",
            sentence="is a stub of libcuda.so.1 whose 3 functions all fail, for linkers: "
            "nothing here opens it",
        )
    ]


def test_a_stub_for_linkers_that_code_opens_hides_the_driver() -> None:
    shipped = stub("demo/stubs/libcuda.so")
    opening = ImportOpenings(later=frozenset({shipped.path}))
    assert only(Problem, judge_layout(shipped, code=opening))
    opener = extension(runpath=("$ORIGIN/stubs",), opened=OpenedNames(names=("libcuda.so",)))
    by_search = only(Problem, judge_layout(opener, shipped))
    assert f"{EXTENSION} opens it by that name and searches its folder" in by_search.sentence
    elsewhere = extension(runpath=("$ORIGIN/lib",), opened=OpenedNames(names=("libcuda.so",)))
    assert [type(each) for each in judge_layout(elsewhere, shipped)] == [Note]


def test_a_stub_under_another_name_is_told_by_what_it_exports() -> None:
    other = stub("demo/lib/libnodriver.so", name="libnodriver.so")
    assert [type(each) for each in judge_layout(other)] == [Note]
    module = extension("libnodriver.so", rpath=("$ORIGIN/lib",))
    found = only(Problem, judge_layout(module, other))
    assert found.path == other.path
    assert found.sentence.startswith("is a stub of libcuda.so.1 whose 3 functions all fail, in")


@pytest.mark.parametrize(
    "fields",
    [
        {"opened": OpenedNames(names=("libcuda.so.1",))},  # it forwards each call to the user's
        {"needed": needs("libcuda.so.1")},
        {"size": 25_000_000},
        {"exports": symbols("cuInit", "demo_run")},
    ],
)
def test_what_calls_the_drivers_functions_by_name_is_no_stub(fields: dict[str, Any]) -> None:
    shim = stub("demo/lib/libshim.so", **{"name": "libshim.so", **fields})
    module = extension("libshim.so", "libcudart.so.12", rpath=("$ORIGIN/lib",))
    assert judge_layout(module, shim, library("demo/lib/libcudart.so.12")) == []
