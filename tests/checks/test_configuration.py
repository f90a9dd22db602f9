from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks.configuration import configuration_contradiction
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.ci_variables import read_variables
from binary_checks.knowledge.configurations import configure, read_given
from binary_checks.model import (
    ClaimSource,
    Code,
    ConfigurationClaim,
    ConsumerRequest,
    CppArchive,
    CudaRequest,
    Dependency,
    DeviceCode,
    DeviceKind,
    Finding,
    Format,
    GpuRequest,
    Level,
    MalformedObject,
    Note,
    NotInspected,
    ObjectFile,
    OpenedNames,
    Problem,
    StatedConfiguration,
    TranslationUnit,
    UnreadObject,
    find_disputes,
)
from fixtures.values import elf_file, member, only, wheel

TAGS = "cp311-cp311-manylinux_2_17_x86_64.whl"
CUBIN = DeviceCode(kind=DeviceKind.SASS, architecture="sm_90", count=1, bytes=8, compressed=0)
NVIDIA = ("nvidia-cublas-cu12",)
CUDA = elf_file("demo/_x.so", device_code=(CUBIN,))
PLAIN = elf_file("demo/_x.so")


def judge(
    name: str,
    *objects: ObjectFile,
    given: tuple[str, ...] = (),
    beside: tuple[str, ...] = (),
    module: str = "",
    requires: tuple[str, ...] = (),
    **variables: str,
) -> list[Finding]:
    """``beside`` are the names of the run's other packages, ``module`` is in the profile."""
    head = (("Metadata-Version", "2.1"), ("Name", name.partition("-")[0]), ("Version", "1.0"))
    metadata = (*head, *(("Requires-Dist", each) for each in requires))
    subject = wheel(name, objects=objects, members=(member(),), metadata=metadata)
    claims = (*read_given(given), *read_variables(variables).claims)
    stated = StatedConfiguration(claims=claims, file_names=tuple(sorted((name, *beside))))
    return list(
        configuration_contradiction(
            configure(subject, stated),
            subject,
            CudaRequest(module=Code(module)),
            GpuRequest(),
            ConsumerRequest(),
        )
    )


def sentences(findings: list[Finding]) -> list[str]:
    return [each.sentence if isinstance(each, Problem) else str(each) for each in findings]


TORCH = "torch-2.15.0+cu126-cp311-cp311-manylinux_2_28_x86_64.whl"
NEWER = TORCH.replace("+cu126", "+cu130")


def test_the_version_of_a_build_is_expected_whole() -> None:
    assert judge(TORCH, CUDA, PYTORCH_BUILD_VERSION="2.15.0+cu126", PYTORCH_BUILD_NUMBER="1") == []
    found = judge(TORCH, CUDA, PYTORCH_BUILD_VERSION="2.15.0+cu126", PYTORCH_BUILD_NUMBER="2")
    assert sentences(found) == [
        "the version: the version 2.15.0+cu126 says 2.15.0+cu126, but "
        "PYTORCH_BUILD_VERSION=2.15.0+cu126 PYTORCH_BUILD_NUMBER=2 says 2.15.0+cu126.post2"
    ]
    (found,) = judge(TORCH, CUDA, PYTORCH_BUILD_VERSION="2.15.0")
    assert "PYTORCH_BUILD_VERSION=2.15.0 says 2.15.0" in found.sentence
    with pytest.raises(NotApplicable):
        judge(f"demo-1.0-{TAGS}", PYTORCH_BUILD_VERSION="2.15.0")


def test_a_build_is_compared_with_the_package_whose_version_it_is() -> None:
    built = {"PYTORCH_BUILD_VERSION": "2.15.0+cu126"}
    assert judge(TORCH, CUDA, beside=(NEWER,), **built) == []
    assert judge(NEWER, CUDA, beside=(TORCH,), **built) == []
    assert len(judge(NEWER, CUDA, **built)) == 1


def test_a_variable_against_the_label() -> None:
    found = judge(f"demo-1.0+cpu-{TAGS}", DESIRED_CUDA="cu126")
    assert sentences(found) == [
        "the accelerator: the label cpu says cpu, but DESIRED_CUDA=cu126 says cuda 12.6"
    ]
    assert judge(f"demo-1.0+cu126-{TAGS}", CUDA, DESIRED_CUDA="cu126") == []


def test_device_code_in_what_is_to_be_a_cpu_build() -> None:
    """Where a label says so, cuda-in-cpu-build tells."""
    assert sentences(judge(f"demo-1.0-{TAGS}", CUDA, DESIRED_CUDA="cpu")) == [
        "the accelerator: demo/_x.so contains device code for sm_90: cuda, but DESIRED_CUDA=cpu "
        "says cpu"
    ]
    assert judge(f"demo-1.0+cpu-{TAGS}", CUDA) == []
    amd = elf_file("demo/_x.so", device_code=(replace(CUBIN, kind=DeviceKind.AMDGPU),))
    assert judge(f"demo-1.0+cpu-{TAGS}", amd) == []
    assert judge(f"demo-1.0-{TAGS}", PLAIN, DESIRED_CUDA="cpu") == []


LOST = (
    "the accelerator: no object contains device code or needs a library of an accelerator (cpu), "
    "but"
)
OPENS = elf_file("demo/_x.so", opened=OpenedNames(names=("libcuda.so.1",)))


@pytest.mark.parametrize(
    ("name", "how"),
    [
        (f"demo-1.0-{TAGS}", {"module": "demo", "DESIRED_CUDA": "cu126"}),
        (f"demo-1.0-{TAGS}", {"module": "demo.cuda", "DESIRED_CUDA": "cu126"}),
        # Its requirements were not lost.
        (f"demo-1.0-{TAGS}", {"module": "demo", "DESIRED_CUDA": "cu126", "requires": NVIDIA}),
        (f"demo-1.0-{TAGS}", {"given": ("accelerator=cu126",)}),
        (f"demo-1.0-{TAGS}", {"given": ("demo-*:cuda=12.6",), "beside": ("other-1.0.zip",)}),
        (f"demo-1.0-{TAGS}", {"given": ("rocm=6.2",), "requires": ("torch",)}),
        (f"demo-1.0+cu126-{TAGS}", {}),
        (f"demo-1.0+cu126-{TAGS}", {"DESIRED_CUDA": "cu126", "GPU_ARCH_TYPE": "cuda"}),
    ],
)
def test_a_build_that_lost_its_accelerator_is_an_error(name: str, how: Any) -> None:
    found = only(Problem, judge(name, PLAIN, **how))
    assert found.level is Level.ERROR
    assert found.sentence.startswith(LOST)


@pytest.mark.parametrize(
    ("name", "native", "how"),
    [
        (f"demo-1.0-{TAGS}", OPENS, {"module": "demo", "DESIRED_CUDA": "cu126"}),
        (f"demo-1.0-{TAGS}", PLAIN, {"given": ("cuda=12.6",), "requires": NVIDIA}),
        (f"demo-1.0+cu126-{TAGS}", PLAIN, {"requires": ("torch>=2",)}),
    ],
)
def test_what_may_open_or_have_others_open_an_accelerator_is_a_warning(
    name: str, native: ObjectFile, how: Any
) -> None:
    assert only(Problem, judge(name, native, **how)).level is Level.WARNING


@pytest.mark.parametrize("native", [(), (PLAIN,)], ids=["pure", "for the CPU"])
def test_a_package_without_such_builds_gets_one_note_of_a_jobs_variables(
    native: tuple[ObjectFile, ...],
) -> None:
    said = {"DESIRED_CUDA": "cu126", "MATRIX_DESIRED_CUDA": "cu126"}
    found = only(Note, judge(f"other-1.0-{TAGS}", *native, module="torch", **said))
    assert found.sentence.startswith(
        "the accelerator: DESIRED_CUDA=cu126 says cuda 12.6 and MATRIX_DESIRED_CUDA=cu126 says"
    )
    beside = ("torch-2.0-cp311-cp311-linux_x86_64.whl",)
    assert only(Note, judge(f"other-1.0-{TAGS}", *native, given=("cuda=12.6",), beside=beside))


def test_a_package_whose_native_code_is_lost_as_a_whole_contradicts_too() -> None:
    (found,) = judge("demo-1.0-py3-none-any.whl", module="demo", DESIRED_CUDA="cu126")
    assert sentences([found]) == [
        "the accelerator: it has no native code (cpu), but DESIRED_CUDA=cu126 says cuda 12.6"
    ]
    assert judge("demo-1.0+cu126-py3-none-any.whl", DESIRED_CUDA="cu126") == []


BROKEN = MalformedObject(path="demo/_x.so", format=Format.ELF, reason="cut off", offset=0)
UNREAD = UnreadObject(path="demo/_x.so", format=Format.ELF, reason="too long")


@pytest.mark.parametrize("fields", [{"malformed": (BROKEN,)}, {"unread": (UNREAD,)}])
def test_objects_that_cannot_be_read_contradict_nothing_and_are_no_pass(fields: Any) -> None:
    subject = wheel(f"demo-1.0-{TAGS}", **fields)
    stated = StatedConfiguration(claims=tuple(read_given(("cuda=12.6",))))
    requests = CudaRequest(), GpuRequest(), ConsumerRequest()
    known = configure(subject, stated)
    assert only(NotInspected, configuration_contradiction(known, subject, *requests))


def test_an_archive_of_a_profile_with_variants_that_lost_its_accelerator_is_an_error() -> None:
    archive = CppArchive(path=Path("x.zip"), version="2.0", objects=(elf_file("lib/libx.so"),))
    stated = StatedConfiguration(claims=read_variables({"DESIRED_CUDA": "cu126"}).claims)
    known = configure(archive, stated)
    for variants, kind in ((("cu*",), Problem), (("*",), Note)):
        unit = TranslationUnit(source=Code("int main() {}"), variants=variants)
        requests = CudaRequest(), GpuRequest(), ConsumerRequest(units={"x": unit})
        assert only(kind, configuration_contradiction(known, archive, *requests))


def test_code_for_another_vendor_and_not_of_another_version_or_project_name_contradicts() -> None:
    assert len(judge(f"demo-1.0+rocm6.2-{TAGS}", CUDA)) == 1
    assert judge(f"nvidia_nvml_dev_cu12-1.0-{TAGS}", PLAIN) == []
    needs = elf_file("demo/_x.so", needed=(Dependency(name="libcudart.so.13"),))
    assert judge(f"demo-1.0+cu126-{TAGS}", needs) == []  # cuda-versions-differ judges it


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("DESIRED_PYTHON", "3.12", "Python: the tag cp311-cp311 says 3.11, but"),
        ("PACKAGE_TYPE", "conda", "the kind of package: its content: wheel, but"),
        ("MATRIX_CHANNEL", "nightly", "the channel: the version 1.0 says stable, but"),
        ("BUILD_ENVIRONMENT", "windows-binary-wheel", "the system: 1 ELF object: linux and"),
    ],
)
def test_each_aspect_is_compared(variable: str, value: str, expected: str) -> None:
    found = sentences(judge(f"demo-1.0-{TAGS}", PLAIN, **{variable: value}))
    assert len(found) == 1
    assert found[0].startswith(expected)
    assert f", but {variable}={value} says " in found[0]


def test_what_the_user_gives_is_held_against_name_and_bytes() -> None:
    found = judge(f"demo-1.0-{TAGS}", PLAIN, given=("python=3.12",))
    assert sentences(found) == [
        "Python: the tag cp311-cp311 says 3.11, but given python=3.12 says 3.12"
    ]
    assert judge(f"demo-1.0-{TAGS}", PLAIN, given=("python=3.11,version=1.0",)) == []
    bytes_ = [claim("linux", ClaimSource.BYTES), claim("windows", ClaimSource.BYTES)]
    names = [claim("macos", ClaimSource.NAME), claim("any", ClaimSource.NAME)]
    assert list(find_disputes("system", [*bytes_, *names])) == [(bytes_[0], names[0])]
    several = "demo-1.0-cp311.cp312-none-manylinux_2_17_x86_64.whl"  # the first is named
    (sentence,) = sentences(judge(several, PLAIN, given=("python=3.10",)))
    assert sentence.startswith("Python: the tag cp311-none says 3.11, but given python=3.10 ")


def claim(value: str, source: ClaimSource) -> ConfigurationClaim:
    return ConfigurationClaim(value=value, source=source, evidence=f"{source} {value}")


def test_two_variables_contradict_each_other() -> None:
    found = judge(f"demo-1.0-{TAGS}", DESIRED_PYTHON="3.11", MATRIX_PYTHON_VERSION="3.10")
    assert "DESIRED_PYTHON=3.11 says 3.11, but MATRIX_PYTHON_VERSION=3.10 says 3.10" in (
        " ".join(sentences(found))
    )
    with pytest.raises(NotApplicable, match="no two sources"):
        judge("demo-1.0-py3-none-any.whl")


def test_a_variable_that_fits_one_package_of_a_matrix_is_not_about_the_others() -> None:
    mine, other = f"demo-1.0-{TAGS}", "demo-1.0-cp312-cp312-manylinux_2_17_x86_64.whl"
    assert judge(mine, PLAIN, beside=(other,), DESIRED_PYTHON="3.11") == []
    with pytest.raises(NotApplicable):
        judge("demo-1.0-py3-none-any.whl", beside=(mine,), DESIRED_PYTHON="3.11")
    assert judge(other, PLAIN, beside=(mine,), DESIRED_PYTHON="3.11") == []
    # one that fits no package is said once
    assert len(judge(mine, PLAIN, beside=(other,), DESIRED_PYTHON="3.9")) == 1
    assert judge(other, PLAIN, beside=(mine,), DESIRED_PYTHON="3.9") == []


@pytest.mark.parametrize(
    ("label", "library"), [("xpu", "libsycl.so.8"), ("rocm6.4", "libamdhip64.so.6")]
)
def test_a_build_that_lost_xpu_or_rocm_contradicts_its_label(label: str, library: str) -> None:
    found = only(Problem, judge(f"demo-1.0+{label}-{TAGS}", PLAIN))
    assert found.level is Level.ERROR
    assert f"but the label {label} says {label.replace('rocm', 'rocm ')}" in found.sentence
    sound = elf_file("demo/_x.so", needed=(Dependency(name=library),))
    assert judge(f"demo-1.0+{label}-{TAGS}", sound) == []
