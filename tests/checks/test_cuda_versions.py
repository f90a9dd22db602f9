from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.cuda.cpu_builds import cuda_in_cpu_build
from binary_checks.checks.cuda.toolkits import (
    cuda_versions_differ,
    family_member_missing,
    rocm_versions_differ,
)
from binary_checks.checks.linkage.needed_libraries import missing_library
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.toolkit_claims import claim_by_package
from binary_checks.model import (
    DeviceContainers,
    DeviceKind,
    DeviceTarget,
    ElfFile,
    Finding,
    Format,
    GivenFamilies,
    Linkage,
    MalformedObject,
    NotInspected,
    Platform,
    Problem,
    StatedToolkits,
    ToolkitClaim,
    ToolkitSource,
    UnreadObject,
)
from binary_checks.wording.problem_lines import OF_CPU_LABEL, group_problems
from fixtures.linking import EXTENSION, extension, library, link, target
from fixtures.values import only, wheel

TAGS = "cp311-cp311-manylinux_2_17_x86_64.whl"


def judge(
    *objects: ElfFile,
    name: str = "demo-1.0",
    requires: tuple[str, ...] = (),
    linkage: Linkage | None = None,
    files: tuple[ToolkitClaim, ...] = (),
    check: Any = cuda_versions_differ,
) -> list[Finding]:
    metadata = tuple(("Requires-Dist", item) for item in requires)
    subject = wheel(f"{name}-{TAGS}", objects=objects, metadata=metadata)
    claims = (*claim_by_package(subject, target()), *files)
    return list(check(subject, linkage or link(*objects), StatedToolkits(claims=claims)))


def version_file(version: str, platform: Platform = Platform.CUDA) -> ToolkitClaim:
    return ToolkitClaim(
        platform=platform,
        version=version,
        source=ToolkitSource.FILE,
        evidence="demo/version.py (cuda = ...)",
        path="demo/version.py",
        detail=f"cuda = {version!r}",
    )


def told(findings: list[Finding]) -> list[str]:
    return [f"{each.path}: {each.sentence}" for each in findings if isinstance(each, Problem)]


def test_a_library_of_another_cuda_than_the_label_says() -> None:
    assert judge(extension("libcudart.so.13"), name="demo-1.0+cu126") == [
        Problem(
            path=EXTENSION,
            sentence="needs libcudart.so.13, of CUDA 13, while the version label +cu126 says CUDA "
            "12.6: libraries installed for one do not include the other",
            cause="the version label +cu126",
        )
    ]


@pytest.mark.parametrize("name", ["demo_cu12-1.0", "demo_cuda12x-1.0", "demo_cuda120-1.0"])
def test_a_name_says_the_version_too(name: str) -> None:
    assert len(judge(extension("libcublas.so.13"), name=name)) == 1
    assert judge(extension("libcublas.so.12"), name=name) == []


def test_objects_that_need_the_same_library_are_counted() -> None:
    other = library("demo/libother.so", "libcufft.so.12")
    finding = only(Problem, judge(extension("libcufft.so.12"), other, name="demo_cu12-1.0"))
    assert finding.sentence.startswith("needs libcufft.so.12 (as do 1 more), of CUDA 13, while")


@pytest.mark.parametrize(
    "requirement",
    [
        "nvidia-cublas-cu13>=13.1",
        "nvidia-cuda-runtime==13.0.48",
        "nvidia-cuda-runtime-cu12==12.4.127",
        "cuda-toolkit[cudart]==13.2.2; sys_platform == 'linux'",
    ],
)
def test_requirements_of_another_cuda_than_the_label_says(requirement: str) -> None:
    finding = only(Problem, judge(extension(), name="demo-1.0+cu126", requires=(requirement,)))
    assert finding.sentence.startswith("the version label +cu126 says CUDA 12.6, the requirement ")


@pytest.mark.parametrize(
    "requirements",
    [
        ("nvidia-cublas-cu12==12.6.4.1", "nvidia-cuda-runtime-cu12==12.6.77"),
        ("nvidia-cublas==13.1; sys_platform == 'win32'", "cupy-cuda13x; extra == 'test'"),
        ("nvidia-cublas-cu13; platform_system == 'Windows'", "nvidia-cuda-runtime>=12"),
    ],
)
def test_requirements_that_agree_or_do_not_apply_are_fine(requirements: tuple[str, ...]) -> None:
    objects = (extension("libcudart.so.12"),)
    assert judge(*objects, name="demo-1.0+cu126", requires=requirements) == []


def test_one_process_must_not_get_two_runtimes() -> None:
    torch = library("torch/lib/libtorch_cuda.so", "libcudart.so.13")
    beside = wheel("torch-2.0-cp311-cp311-manylinux_2_17_x86_64.whl", objects=(torch,))
    module = extension("libtorch_cuda.so", "libcudart.so.12", rpath=("$ORIGIN/../torch/lib",))
    assert judge(module, linkage=link(module, others=(beside,))) == [
        Problem(
            path=EXTENSION,
            sentence=f"loads CUDA 12 (libcudart.so.12, needed by {EXTENSION}) and CUDA 13 "
            "(libcudart.so.13, needed by wheel:torch:torch/lib/libtorch_cuda.so): each of the two "
            "runtimes has its own kernels, symbols and errors, and users install the libraries of "
            "both",
        )
    ]
    # what is loaded before counts too: extensions find torch's libraries without a search path
    module = extension("libtorch_cuda.so", "libcudart.so.12")
    finding = only(Problem, judge(module, linkage=link(module, others=(beside,))))
    assert "needed by wheel:torch:torch/lib/libtorch_cuda.so" in finding.sentence


def test_libraries_for_several_cudas_contradict_nothing() -> None:
    several = (
        library("demo/libdemo_cuda118.so", "libcudart.so.11.0"),
        library("demo/libdemo_cuda126.so", "libcudart.so.12"),
        library("demo/libdemo_cuda130.so", "libcudart.so.13"),
    )
    assert judge(*several) == []
    with pytest.raises(NotApplicable, match="nothing in it names a CUDA version"):
        judge(extension("libcusparse.so.12", "libcurand.so.10"))


@pytest.mark.parametrize("name", ["demo-1.0+cpu", "demo_cpu-1.0"])
def test_a_cpu_build_must_not_need_cuda(name: str) -> None:
    metadata = (("Requires-Dist", "nvidia-nccl-cu12; platform_system == 'Linux'"),)
    objects = (extension("libcudart.so.12", "libcuda.so.1"),)
    subject = wheel(f"{name}-{TAGS}", objects=objects, metadata=metadata)
    found = cuda_in_cpu_build(subject, link(*objects), target())
    assert [finding.sentence for finding in found if isinstance(finding, Problem)] == [
        "needs libcuda.so.1, libcudart.so.12, but the package is CPU-only",
        "requires nvidia-nccl-cu12, but it is CPU-only",
    ]


def judge_cpu(*objects: ElfFile, name: str = "demo-1.0+cpu") -> list[Finding]:
    return [*cuda_in_cpu_build(wheel(f"{name}-{TAGS}", objects=objects), link(*objects), target())]


def test_a_cpu_build_must_not_have_code_for_gpus_though_it_needs_no_library() -> None:
    """As a build for CUDA has none whose runtime is linked statically."""
    targets = (DeviceTarget(kind=DeviceKind.SASS, architecture="sm_90"),)
    code = DeviceContainers(targets=targets, count=3)
    built = extension("libc.so.6", "libcurl.so.4", device_containers=(code,))
    assert told(judge_cpu(built)) == [
        f"{EXTENSION}: has code for GPUs, but the package is CPU-only"
    ]
    assert judge_cpu(replace(built, device_containers=())) == []
    with pytest.raises(NotApplicable, match="neither its name nor its version label says"):
        judge_cpu(built, name="demo-1.0")


def test_files_of_a_cpu_build_that_need_cuda_are_reported_in_the_same_words() -> None:
    """A label on the wrong build is one fault, however many files and libraries show it."""
    one = library("demo/libone.so", "libcudart.so.12", "libcublas.so.12")
    other = library("demo/libother.so", "libcudart.so.12")
    words = "needs libraries of CUDA (libcublas.so.12, libcudart.so.12 in all)"
    assert told(judge_cpu(one, other)) == [
        f"demo/{name}: {words}, but the package is CPU-only"
        for name in ("libone.so", "libother.so")
    ]


def test_everything_that_contradicts_one_label_is_one_fault() -> None:
    targets = (DeviceTarget(kind=DeviceKind.SASS, architecture="sm_90"),)
    code = DeviceContainers(targets=targets, count=3)
    bundled = library("demo.libs/libnvjpeg.so.13", device_containers=(code,))
    module = extension("libc10_cuda.so", "libcudart.so.13", "libnvjpeg.so.13")
    name, objects = "demo-1.0+cpu", (bundled, module)
    subject, linkage = wheel(f"{name}-{TAGS}", objects=objects), link(*objects)
    found = [
        *cuda_in_cpu_build(subject, linkage, target()),
        *judge(*objects, name=name, files=(version_file("13.0"),)),
        *missing_library(linkage, subject),
    ]
    problems = [each for each in found if isinstance(each, Problem)]
    assert {each.cause for each in problems} == {OF_CPU_LABEL}
    (group,) = group_problems(problems)
    assert group.sentence.startswith("needs libc10_cuda.so, libcudart.so.13, libnvjpeg")
    assert not group.first.consequence
    files = (version_file("13.0"),)
    found = judge(extension("libcudart.so.13"), name="demo-1.0+cu118", files=files)
    problems = [each for each in found if isinstance(each, Problem)]
    assert len(group_problems(problems)) == 1


def test_a_generated_file_that_all_others_contradict() -> None:
    """One line, though requirements and libraries both contradict it."""
    requires = ("nvidia-cublas-cu13==13.2.1.1", "cuda-toolkit[cudart]==13.2.2")
    found = judge(extension("libcudart.so.13"), requires=requires, files=(version_file("12.6"),))
    assert told(found) == [
        "demo/version.py: says CUDA 12.6 (cuda = '12.6'), while the requirement "
        "nvidia-cublas-cu13==13.2.1.1 says CUDA 13 (so does 1 more): users and build tools choose "
        "other packages, and compile extensions, for the version that the file states"
    ]


def test_minor_versions_count_where_both_state_one() -> None:
    found = judge(
        name="demo-1.0+cu132", requires=("cuda-toolkit==13.2.2",), files=(version_file("13.0"),)
    )
    (sentence,) = told(found)
    assert (
        "says CUDA 13.0 (cuda = '13.0'), while the version label +cu132 says CUDA 13.2" in sentence
    )
    assert judge(name="demo_cu13-1.0", files=(version_file("13.0"),)) == []


def test_a_label_that_all_others_contradict_is_what_is_wrong() -> None:
    found = judge(
        extension("libcudart.so.13"),
        name="demo-1.0+cu126",
        requires=("nvidia-cublas-cu13", "nvidia-cufft-cu13"),
        files=(version_file("13.2"),),
    )
    assert told(found) == [
        ": demo/version.py (cuda = ...) says CUDA 13.2 (so do 2 more), the version label +cu126 "
        "says CUDA 12.6: users who choose by this name get another build"
    ]


@pytest.mark.parametrize(
    ("label", "stated", "contradiction"),
    [
        ("cu126", "", "no CUDA (cuda = ''), while the version label +cu126 says CUDA 12.6"),
        ("cpu", "12.6", "CUDA 12.6 (cuda = '12.6'), while the version label +cpu says no CUDA"),
    ],
)
def test_a_generated_file_and_a_label_one_of_which_says_no_cuda(
    label: str, stated: str, contradiction: str
) -> None:
    (sentence,) = told(judge(name=f"demo-1.0+{label}", files=(version_file(stated),)))
    assert f"says {contradiction}" in sentence


def test_a_file_that_could_not_be_read_is_reported_of_a_cuda_build_alone() -> None:
    unread = (("demo/version.py", "it cannot be read"),)
    stated = StatedToolkits(unread=unread)
    subject, needs = wheel(), (extension("libcudart.so.13"),)
    with pytest.raises(NotApplicable):
        list(cuda_versions_differ(subject, link(), stated))
    subject = wheel(f"demo_cu13-1.0-{TAGS}", objects=needs)
    stated = StatedToolkits(claims=(*claim_by_package(subject, target()),), unread=unread)
    gap = only(NotInspected, cuda_versions_differ(subject, link(*needs), stated))
    assert gap.path == "demo/version.py"


UNREAD = UnreadObject(path="demo/a.so", format=Format.ELF, reason="no")
BROKEN = MalformedObject(path="demo/a.so", format=Format.ELF, offset=0, reason="no")


@pytest.mark.parametrize("fields", [{"unread": (UNREAD,)}, {"malformed": (BROKEN,)}])
def test_what_was_not_read_may_relate_to_cuda(fields: dict[str, Any]) -> None:
    for found in (
        cuda_versions_differ(wheel(**fields), link(), StatedToolkits()),
        family_member_missing(link(), wheel(**fields), GivenFamilies(), target()),
    ):
        assert next(iter(found)) == NotInspected(path="demo/a.so", sentence="no")


def test_a_library_is_held_against_the_cuda_in_its_own_name() -> None:
    names = ("libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12")
    wrong = library("demo/libdemo_cuda118.so", *names)
    right = library("demo/libdemo_cuda126.so", "libcudart.so.12")
    assert told(judge(wrong, right)) == [
        "demo/libdemo_cuda118.so: is for CUDA 11.8 by its own name, but needs libcublas.so.12, "
        "libcublasLt.so.12 and 1 more, of CUDA 12: users who choose it by its name cannot load it"
    ]


@pytest.mark.parametrize(
    ("label", "library_name", "hip", "sentences"),
    [
        ("rocm6.4", "libamdhip64.so.6", "6.4", 0),
        ("rocm6.4", "libamdhip64.so.7", "6.4", 1),
        ("rocm6.4", "libamdhip64.so.6", "6.2", 1),
        ("rocm7.10", "libamdhip64.so.7", "7.2", 0),
        ("rocm7.10", "libamdhip64.so.6", "7.2", 1),
    ],
)
def test_the_same_for_rocm(label: str, library_name: str, hip: str, sentences: int) -> None:
    files = (version_file(hip, Platform.ROCM), version_file("", Platform.CUDA))
    objects = (extension(library_name),)
    found = judge(*objects, name=f"demo-1.0+{label}", files=files, check=rocm_versions_differ)
    assert len(told(found)) == sentences


def test_requirements_of_rocm_count_where_they_are_exact() -> None:
    requires = ("rocm[libraries]==7.0.2", "numpy")
    (sentence,) = told(
        judge(name="demo-1.0+rocm6.4", requires=requires, check=rocm_versions_differ)
    )
    assert "+rocm6.4 says ROCm 6.4, the requirement rocm==7.0.2 says ROCm 7.0" in sentence
    of_cuda, no_rocm = extension("libcudart.so.13"), version_file("", Platform.ROCM)
    with pytest.raises(NotApplicable, match="nothing in it relates to ROCm"):
        judge(of_cuda, files=(no_rocm,), check=rocm_versions_differ)
