from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.knowledge.configurations import (
    accelerator_of_label,
    claim_by_file_name,
    configure,
    read_given,
    read_python,
)
from binary_checks.model import (
    ArchiveMembers,
    Claims,
    ClaimSource,
    CppArchive,
    CubinGroup,
    CxxStrings,
    Dependency,
    DeviceCode,
    DeviceKind,
    DeviceTarget,
    Kind,
    ObjectDetails,
    ObjectFile,
    StatedConfiguration,
    StaticArchive,
    agree,
)
from binary_checks.packages.conda import CondaPackage
from fixtures.values import elf_file, macho_file, pe_file, symbols, wheel

TAGS = "cp311-cp311-manylinux_2_17_x86_64.whl"
CUBIN = DeviceCode(kind=DeviceKind.SASS, architecture="sm_90", count=1, bytes=8, compressed=0)
HIP = DeviceCode(kind=DeviceKind.AMDGPU, architecture="gfx90a", count=1, bytes=8, compressed=0)


def values(name: str, *objects: ObjectFile, given: tuple[str, ...] = ()) -> dict[str, str]:
    stated = StatedConfiguration(claims=tuple(read_given(given)))
    found = configure(wheel(name, objects=objects), stated)
    return {name: aspect.value for name, aspect in found.aspects() if aspect.value}


def needs(*names: str) -> tuple[Dependency, ...]:
    return tuple(Dependency(name=name) for name in names)


def test_a_nightly_for_cuda() -> None:
    native = elf_file(
        "torch/lib/libtorch_cuda.so",
        needed=needs("libcudart.so.12"),
        device_code=(CUBIN,),
        imports=symbols("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1Ev"),
    )
    module = elf_file("torch/_C.cpython-311-x86_64-linux-gnu.so")
    assert values(f"torch-2.15.0.dev20260101+cu126-{TAGS}", native, module) == {
        "kind": "wheel",
        "python": "3.11",
        "accelerator": "cuda 12.6",
        "system": "linux",
        "architecture": "x86_64",
        "cxx_abi": "cxx11",
        "channel": "nightly",
        "version": "2.15.0.dev20260101",
        "date": "2026-01-01",
    }


def test_every_claim_is_kept_with_what_says_it() -> None:
    native = elf_file("demo/_x.so", needed=needs("libamdhip64.so.6"), device_code=(HIP,))
    found = configure(
        wheel(f"demo-1.0+rocm6.2-{TAGS}", objects=[native]), StatedConfiguration()
    ).accelerator
    assert found.value == "rocm 6.2"
    assert [(each.source, each.value, each.evidence) for each in found.claims] == [
        (ClaimSource.BYTES, "rocm", "demo/_x.so contains device code for gfx90a"),
        (ClaimSource.BYTES, "rocm 6", "demo/_x.so needs libamdhip64.so.6"),
        (ClaimSource.NAME, "rocm 6.2", "the label rocm6.2"),
    ]


def test_where_nothing_of_an_accelerator_is_found_a_name_counts_more() -> None:
    assert values(f"demo-1.0-{TAGS}", elf_file())["accelerator"] == "cpu"
    assert values(f"demo-1.0+cu126-{TAGS}", elf_file())["accelerator"] == "cuda 12.6"
    assert "accelerator" not in values("demo-1.0-py3-none-any.whl")


def test_a_name_that_contradicts_the_bytes_counts_less() -> None:
    native = elf_file("demo/_x.so", needed=needs("libcudart.so.12"))
    assert values(f"demo-1.0+rocm6.2-{TAGS}", native)["accelerator"] == "cuda 12"


def sample(*toolkits: tuple[str, int]) -> ObjectDetails:
    target = DeviceTarget(kind=DeviceKind.SASS, architecture="sm_90")
    groups = (CubinGroup(target=target, toolkit=name, count=count) for name, count in toolkits)
    return ObjectDetails(path="", cubins=tuple(groups))


def with_code(path: str, *toolkits: tuple[str, int], needed: str = "") -> ObjectFile:
    return elf_file(
        path,
        device_code=(CUBIN,),
        device_sample=sample(*toolkits),
        needed=needs(needed) if needed else (),
    )


def test_device_code_states_the_major_version_of_the_toolkit_that_made_it() -> None:
    made = with_code("demo/_x.so", ("11.8", 1), ("12.5", 3), ("12.9", 2))
    assert values(f"demo-1.0-{TAGS}", made)["accelerator"] == "cuda 12"
    unstated = with_code("demo/_x.so", ("", 3))
    assert values(f"demo-1.0-{TAGS}", unstated)["accelerator"] == "cuda"


def test_needed_libraries_and_labels_count_more_than_the_toolkit_of_device_code() -> None:
    other = with_code("demo/_x.so", ("12.5", 3), needed="libcudart.so.13")
    assert values(f"demo-1.0-{TAGS}", other)["accelerator"] == "cuda 13"
    made = with_code("demo/_x.so", ("12.5", 3))
    assert values(f"demo-1.0+cu126-{TAGS}", made)["accelerator"] == "cuda 12.6"
    vendors = with_code("demo/libcublas.so.12", ("11.8", 3))
    assert values(f"demo-1.0-{TAGS}", vendors)["accelerator"] == "cuda"


def test_a_name_with_cuda_takes_its_versions_from_the_extras() -> None:
    assert values(f"numba_cuda-0.30-{TAGS}", elf_file())["accelerator"] == "cuda"
    assert "accelerator" not in values("jax-0.10-py3-none-any.whl")
    extras = (
        'cuda-bindings<13,>=12.9; extra == "cu12"',
        "cuda-bindings==13.*; extra == 'cu13'",
        "pytest; extra == 'test'",
    )
    offered = wheel(
        f"numba_cuda-0.30-{TAGS}", objects=[elf_file()], claims=Claims(requirements=extras)
    )
    found = configure(offered, StatedConfiguration()).accelerator
    assert found.value == "cuda 12, cuda 13"
    assert [each.evidence for each in found.claims[1:]] == [
        "the name numba-cuda",
        "the extra cu12",
        "the extra cu13",
    ]


def test_the_slices_of_a_universal_library_are_several_architectures() -> None:
    slices = (macho_file(architecture="x86_64"), macho_file(architecture="aarch64"))
    name = "demo-1.0-cp311-cp311-macosx_11_0_universal2.whl"
    assert values(name, *slices)["architecture"] == "aarch64, x86_64"


def test_a_stray_object_of_another_system_says_nothing() -> None:
    mine = [elf_file(f"demo/{index}.so") for index in range(3)]
    assert values(f"demo-1.0-{TAGS}", *mine, pe_file("demo/t64.exe"))["system"] == "linux"


def test_one_old_symbol_among_many_new_ones_is_no_second_abi() -> None:
    new = [f"_ZN1a{index}fENSt7__cxx1112basic_stringE" for index in range(20)]
    leak = "_ZNSs4_Rep20_S_empty_rep_storageE"
    assert values(f"demo-1.0-{TAGS}", elf_file(imports=symbols(*new, leak)))["cxx_abi"] == "cxx11"
    assert values(f"demo-1.0-{TAGS}", elf_file(imports=symbols(leak)))["cxx_abi"] == "pre-cxx11"


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("3.11", "3.11"),
        ("3.11.4", "3.11"),
        ("cp311", "3.11"),
        ("cp313-cp313t", "3.13t"),
        ("3.13t", "3.13t"),
        ("3.6m", "3.6"),
        ("2.7mu", "2.7mu"),
        ("pp310", "pypy 3.10"),
        ("banana", ""),
    ],
)
def test_pythons_as_they_are_spelled(text: str, python: str) -> None:
    assert read_python(text) == python


@pytest.mark.parametrize(
    ("tags", "python"),
    [
        ("cp36-cp36m-manylinux1_x86_64", "3.6"),
        ("cp27-cp27mu-manylinux1_x86_64", "2.7mu"),
        ("cp313-cp313t-win_amd64", "3.13t"),
        ("cp39-abi3-win_amd64", "3.9+"),
        ("pp310-pypy310_pp73-win_amd64", "pypy 3.10"),
        ("cp310.cp311-none-win_amd64", "3.10, 3.11"),
        ("py310-none-win_amd64", "3.10+"),
        ("py3-none-any", None),
    ],
)
def test_pythons_of_tags(tags: str, python: str | None) -> None:
    assert values(f"demo-1.0-{tags}.whl").get("python") == python


@pytest.mark.parametrize(
    ("label", "accelerator"),
    [
        ("cpu", "cpu"),
        ("cu126", "cuda 12.6"),
        ("cu92", "cuda 9.2"),
        ("cu13", "cuda 13"),
        ("rocm6.2", "rocm 6.2"),
        ("cu12torch2.8cxx11abiTRUE", "cuda 12"),
        ("pt25cu124", "cuda 12.4"),
        ("cpu.cxx11.abi", "cpu"),
        ("xpu", "xpu"),
        ("git1a2b3cu", ""),
        ("curl8", ""),
    ],
)
def test_labels(label: str, accelerator: str) -> None:
    assert accelerator_of_label(label) == accelerator


def test_what_a_libtorch_archive_is_called() -> None:
    name = "libtorch-cxx11-abi-shared-with-deps-2.5.0%2Bcu121.zip"
    assert {each.aspect: each.claim.value for each in claim_by_file_name(name)} == {
        "kind": "libtorch",
        "cxx_abi": "cxx11",
        "libtorch_variant": "shared-with-deps",
        "accelerator": "cuda 12.1",
        "version": "2.5.0",
        "channel": "stable",
    }


def test_what_a_user_gives() -> None:
    given = ("python=3.11,cuda=12.6", "cxx-abi=cxx11-abi")
    assert [(each.aspect, each.claim.value) for each in read_given(given)] == [
        ("python", "3.11"),
        ("accelerator", "cuda 12.6"),
        ("cxx_abi", "cxx11"),
    ]
    with pytest.raises(
        ProfileError, match=r"colour=red: expected auto, .* KEY one of kind, python"
    ):
        list(read_given(["colour=red"]))
    with pytest.raises(ProfileError, match=r"python=x: not understood; write it like 3\.11"):
        list(read_given(["python=x"]))


@pytest.mark.parametrize(
    ("aspect", "one", "other", "expected"),
    [
        ("accelerator", "cuda", "cuda 12.6", True),
        ("accelerator", "cuda 12", "cuda 12.6", True),
        ("accelerator", "cuda 1", "cuda 12.6", False),
        ("accelerator", "cpu", "cuda", False),
        ("python", "3.9+", "3.11", True),
        ("python", "3.12+", "3.11", False),
        ("python", "2.7", "2.7mu", True),
        ("python", "2.7m", "2.7mu", False),
        ("python", "3.13", "3.13t", False),
        ("python", "pypy 3.10", "3.9+", False),
        ("channel", "stable", "test", True),
        ("channel", "stable", "nightly", False),
        ("kind", "folder", "wheel", True),
        ("kind", "conda", "wheel", False),
        ("libtorch_variant", "shared", "shared-with-deps", True),
        ("libtorch_variant", "shared-with-deps", "shared-without-deps", False),
    ],
)
def test_which_values_agree(aspect: str, one: str, other: str, expected: bool) -> None:
    assert agree(aspect, one, other) is agree(aspect, other, one) is expected


def libtorch(*objects: ObjectFile, version: str = "2.13.0+cpu") -> dict[str, str]:
    archive = CppArchive(path=Path("libtorch.zip"), version=version, objects=objects)
    found = configure(archive, StatedConfiguration())
    return {name: aspect.value for name, aspect in found.aspects() if aspect.value}


def test_a_shared_libtorch_with_an_archive_beside() -> None:
    beside = StaticArchive(path="lib/libkineto.a", kind=Kind.RELOCATABLE)
    assert libtorch(elf_file("lib/libtorch.so"), beside) == {
        "kind": "libtorch",
        "accelerator": "cpu",
        "system": "linux",
        "architecture": "x86_64",
        "libtorch_variant": "shared",
        "channel": "stable",
        "version": "2.13.0",
    }


def test_a_static_libtorch_is_known_by_the_members_of_its_archives() -> None:
    archive = StaticArchive(
        path="lib/libtorch.a",
        kind=Kind.RELOCATABLE,
        architecture="",
        members=(ArchiveMembers(format="ELF", architecture="aarch64"),),
        strings=CxxStrings(new=9),
    )
    found = libtorch(archive)
    assert (found["libtorch_variant"], found["system"]) == ("static", "linux")
    assert (found["architecture"], found["cxx_abi"]) == ("aarch64", "cxx11")


def channel_of(**stated: str) -> str:
    package = CondaPackage(path=Path("x.conda"), claims=Claims(), **stated)
    return configure(package, StatedConfiguration()).channel.value


def test_the_suffix_nightly_of_a_conda_package_is_its_channel() -> None:
    assert channel_of(name="pytorch", version="1.0.0", build="py3.7_cuda10.0_0") == "stable"
    assert channel_of(name="pytorch-nightly", version="1.0.0") == "nightly"
    assert channel_of(name="pytorch", version="1.0.0", build="py3.7_cuda10.0_0_nightly") == (
        "nightly"
    )


def test_what_a_build_string_of_conda_says() -> None:
    package = CondaPackage(path=Path("x.conda"), version="2.5.1", claims=Claims(variant="cu126"))
    found = configure(package, StatedConfiguration())
    assert (found.kind.value, found.accelerator.value) == ("conda", "cuda 12.6")
