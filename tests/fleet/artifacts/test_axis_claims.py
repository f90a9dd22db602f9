"""The axes of an artifact, from bytes, name, variables and --set, which must not disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts import StatedValues, derive_axes, read_by_hand
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError
from binary_checks.knowledge.ci_variables import read_variables
from binary_checks.model import (
    Aspect,
    BinaryConfiguration,
    Claims,
    ClaimSource,
    ConfigurationClaim,
    Dependency,
    LinkedLibraries,
    LinkedLibrary,
    Linking,
    ObjectFile,
    Package,
    PythonClaim,
    SystemClaim,
    Wheel,
)
from fixtures.values import elf_file, macho_file, pe_file

NAMED = "demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
GLIBC = SystemClaim(name="manylinux_2_28_x86_64", system="linux", libc="glibc")
MUSL = SystemClaim(name="musllinux_1_2_x86_64", system="linux", libc="musl")
EVERYWHERE = SystemClaim(name="any", system="any")


def of_bytes(value: str, evidence: str = "demo/a.so") -> ConfigurationClaim:
    return ConfigurationClaim(value=value, source=ClaimSource.BYTES, evidence=evidence)


def of_name(value: str, evidence: str = "the tag") -> ConfigurationClaim:
    return ConfigurationClaim(value=value, source=ClaimSource.NAME, evidence=evidence)


NO_TRACE = ConfigurationClaim(
    value="cpu", source=ClaimSource.BYTES, evidence="no trace", by_absence=True
)


CP312 = PythonClaim(name="cp312-cp312", implementation="cpython", version=(3, 12), abi="cp312")
CP39_ABI3 = PythonClaim(name="cp39-abi3", implementation="cpython", version=(3, 9), abi="abi3")
CP313T = PythonClaim(
    name="cp313-cp313t",
    implementation="cpython",
    version=(3, 13),
    abi="cp313t",
    free_threaded=True,
)
CP27_NONE = PythonClaim(name="cp27-none", implementation="cpython", version=(2, 7))
PY3 = PythonClaim(name="py3-none")
PY38 = PythonClaim(name="py38-none", version=(3, 8))


def derived(
    systems: tuple[SystemClaim, ...] = (GLIBC,),
    pythons: tuple[PythonClaim, ...] = (),
    *,
    by_hand: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
    file_names: tuple[str, ...] = (NAMED,),
    objects: tuple[ObjectFile, ...] = (),
    linked: tuple[LinkedLibrary, ...] = (),
    **claims: tuple[ConfigurationClaim, ...],
) -> dict[str, str]:
    aspects: dict[str, Any] = {name: Aspect(value="", claims=each) for name, each in claims.items()}
    package: Package = Wheel(
        path=Path(NAMED),
        claims=Claims(systems=systems, pythons=pythons),
        objects=objects,
    )
    stated = StatedValues(
        by_hand=by_hand or {},
        variables=read_variables(variables or {}).claims,
        file_names=file_names,
    )
    libraries = LinkedLibraries(libraries=linked)
    found = derive_axes(package, BinaryConfiguration(**aspects), stated, libraries)
    return {axis: each.value for axis, each in found.items()}


@pytest.mark.parametrize(
    ("said", "spelled"),
    [
        ("cuda 12.6", "cu126"),
        ("cuda 13", "cu13"),
        ("rocm 6.2", "rocm6.2"),
        ("cpu", "cpu"),
        ("xpu", "xpu"),
    ],
)
def test_the_variant_is_in_the_words_of_cells(said: str, spelled: str) -> None:
    assert derived(accelerator=(of_name(said),))["variant"] == spelled


def test_a_name_makes_more_precise_what_bytes_say_and_no_trace_says_nothing() -> None:
    claims = (of_bytes("cuda 12", "a.so needs libcudart.so.12"), of_name("cuda 12.6"))
    assert derived(accelerator=claims)["variant"] == "cu126"
    assert "variant" not in derived(accelerator=(NO_TRACE,))


@pytest.mark.parametrize(
    ("systems", "system"),
    [((GLIBC,), "linux"), ((MUSL,), "musllinux"), ((GLIBC, MUSL), "linux, musllinux")],
)
def test_musl_is_a_system_of_its_own(systems: tuple[SystemClaim, ...], system: str) -> None:
    assert derived(systems, system=(of_bytes("linux"),))["system"] == system


@pytest.mark.parametrize(
    ("system", "said", "spelled"),
    [
        ("linux", "aarch64", "aarch64"),
        ("macos", "aarch64", "arm64"),
        ("windows", "x86_64", "amd64"),
        ("windows", "i686", "x86"),
    ],
)
def test_architectures_are_spelled_as_each_system_does(
    system: str, said: str, spelled: str
) -> None:
    found = derived((), system=(of_bytes(system),), architecture=(of_bytes(said),))
    assert found["architecture"] == spelled


@pytest.mark.parametrize(
    ("tag", "system", "format_of", "spelled"),
    [
        ("ios_13_0_arm64_iphoneos", "ios", "macos", "arm64"),
        ("android_24_arm64_v8a", "android", "linux", "arm64_v8a"),
    ],
)
def test_a_system_that_shares_its_format_with_another_contradicts_nothing(
    tag: str, system: str, format_of: str, spelled: str
) -> None:
    found = derived(
        (SystemClaim(name=tag, system=system),),
        system=(of_bytes(format_of), of_name(system)),
        architecture=(of_bytes("aarch64"),),
    )
    assert (found["system"], found["architecture"]) == (system, spelled)


@pytest.mark.parametrize(
    ("platforms", "system"), [(("ios", "tvos"), "ios"), (("ios", "macos"), "macos"), ((), "macos")]
)
def test_objects_of_another_system_of_apple_state_it(
    platforms: tuple[str, ...], system: str
) -> None:
    objects = tuple(macho_file(f"demo/{each}.so", platforms=(each,)) for each in platforms)
    assert derived((), objects=objects, system=(of_bytes("macos"),))["system"] == system


@pytest.mark.parametrize(
    ("found", "named"), [("mips64el", "mips64"), ("armv7l", "armv6l"), ("armv7l", "armv7l")]
)
def test_a_header_tells_some_machines_in_part_and_the_tag_in_full(found: str, named: str) -> None:
    assert derived(architecture=(of_bytes(found), of_name(named)))["architecture"] == named


def test_a_tag_decides_for_installers_and_the_checks_judge_the_bytes() -> None:
    found = derived(
        architecture=(of_bytes("armv7l"), of_name("aarch64")),
        python=(of_bytes("3.11"), of_name("3.12")),
        system=(of_bytes("windows"), of_name("linux")),
    )
    assert (found["architecture"], found["python"], found["system"]) == ("aarch64", "3.12", "linux")


def test_a_universal_library_has_both_architectures() -> None:
    macos = SystemClaim(name="macosx_10_9_universal2", system="macos")
    for systems, claim in (((), of_bytes), ((macos,), of_name)):
        both = (claim("x86_64"), claim("aarch64"))
        found = derived(systems, system=(claim("macos"),), architecture=both)
        assert found["architecture"] == "arm64, x86_64"


@pytest.mark.parametrize(
    ("tags", "python"),
    [
        (("3.12",), "3.12"),
        (("3.13t",), "3.13t"),
        (("3.9+",), "3.9+"),
        (("pypy 3.10",), "pypy3.10"),
        (("3.12", "3.13t"), "3.12, 3.13t"),
    ],
)
def test_the_python_of_a_wheel_is_that_of_its_tags(tags: tuple[str, ...], python: str) -> None:
    """As installers take it: neither modules nor the variables of a build make it narrower."""
    claims = tuple(of_name(each) for each in tags)
    assert derived(python=(*claims, of_bytes("3.9")))["python"] == python
    stable = derived(variables={"DESIRED_PYTHON": "3.12"}, python=(of_name("3.9+"),))
    assert stable["python"] == "3.9+"


def test_programs_for_a_system_do_not_bind_what_is_for_every_system() -> None:
    launchers = {"system": (of_bytes("windows"),), "architecture": (of_bytes("x86_64"),)}
    found = derived((EVERYWHERE,), (PY3,), **launchers)
    assert (found["system"], found["architecture"]) == ("any", "any")


def test_libraries_for_other_systems_beside_its_own_contradict_no_tag() -> None:
    macos = SystemClaim(name="macosx_10_6_x86_64", system="macos")
    said = {
        "system": (of_bytes("windows", "6 PE objects"), of_name("macos")),
        "architecture": (of_bytes("i686"), of_name("x86_64")),
    }
    dlls = tuple(pe_file(f"demo/{each}.dll") for each in range(6))
    found = derived((macos,), (PY3,), objects=(macho_file("demo/a.dylib"), *dlls), **said)
    assert (found["system"], found["architecture"]) == ("macos", "x86_64")


def test_a_pure_package_is_bound_to_no_axis() -> None:
    assert derived((EVERYWHERE,), (PY3,)) == {
        "system": "any",
        "architecture": "any",
        "python": "any",
    }


def test_bytes_that_contradict_a_name_or_a_variable_are_refused_naming_both() -> None:
    claims = (of_bytes("pre-cxx11", "demo/a.so"), of_name("cxx11", "the label cxx11abi1"))
    with pytest.raises(ArtifactRefusedError) as refused:
        derived(cxx_abi=claims)
    assert str(refused.value) == (
        f"{NAMED}: cxx_abi: the label cxx11abi1 says cxx11, but demo/a.so: pre-cxx11"
    )
    with pytest.raises(ArtifactRefusedError) as refused:
        derived(variables={"DESIRED_PYTHON": "3.11"}, python=(of_bytes("3.12"),))
    assert str(refused.value) == (
        f"{NAMED}: python: DESIRED_PYTHON=3.11 says 3.11, but demo/a.so: 3.12"
    )


def test_a_variable_says_what_is_not_known_of_the_one_of_several_files_that_it_fits() -> None:
    names = (NAMED, NAMED.replace("312", "311"))
    found = derived(
        variables={"DESIRED_PYTHON": "3.11"}, python=(of_bytes("3.12"),), file_names=names
    )
    assert found["python"] == "3.12"
    assert derived(variables={"DESIRED_CUDA": "cu130"})["variant"] == "cu130"


@pytest.mark.parametrize(
    ("axis", "text", "claims"),
    [
        ("variant", "cu130", ()),
        ("variant", "cu130", (NO_TRACE,)),
        ("variant", "cu126", (of_bytes("cuda 12"),)),
        ("variant", "debug", (of_bytes("cuda 12"),)),
        ("python", "3.13", (of_name("3.9+"),)),
        ("cxx_abi", "cxx11", ()),
    ],
)
def test_what_the_bytes_do_not_say_is_taken_by_hand(
    axis: str, text: str, claims: tuple[ConfigurationClaim, ...]
) -> None:
    aspect = {"variant": "accelerator"}.get(axis, axis)
    assert derived(by_hand={axis: text}, **{aspect: claims})[axis] == text


@pytest.mark.parametrize(
    ("axis", "text", "claims"),
    [
        ("python", "3.8", (of_name("3.9+"),)),
        ("cxx_abi", "pre-cxx11", (of_bytes("cxx11"),)),
        ("system", "musllinux", (of_bytes("linux"),)),
        ("system", "windows", (of_bytes("linux"),)),
    ],
)
def test_a_contradiction_by_hand_is_refused_on_every_axis(
    axis: str, text: str, claims: tuple[ConfigurationClaim, ...]
) -> None:
    with pytest.raises(ArtifactRefusedError, match=f"{text} is set by hand"):
        derived(by_hand={axis: text}, **{axis: claims})


def test_a_tag_by_hand_is_more_precise_than_a_system() -> None:
    found = derived(by_hand={"system": "manylinux_2_28"}, system=(of_bytes("linux"),))
    assert found["system"] == "manylinux_2_28"


@pytest.mark.parametrize(
    "text", ["variant", "colour=red", "python=three", "system=beos", "linked=statc", "=x"]
)
def test_what_is_no_value_of_an_axis_is_refused(text: str) -> None:
    with pytest.raises(ProfileError, match=f"--set {text}"):
        read_by_hand([text])


def test_an_axis_is_set_to_one_value() -> None:
    assert read_by_hand(["variant=cu130", "variant=cu130"]) == {"variant": "cu130"}
    with pytest.raises(ProfileError, match="an axis has only one value"):
        read_by_hand(["variant=cu130", "variant=cpu"])


def linked_as(name: str, role: str, linking: Linking = Linking.DYNAMIC) -> LinkedLibrary:
    return LinkedLibrary(name=name, role=role, linking=linking, evidence=f"demo/a.so: needs {name}")


@pytest.mark.parametrize(
    ("name", "role", "axis", "value"),
    [
        ("MKL", "BLAS", "blas", "mkl"),
        ("OpenBLAS", "BLAS", "blas", "openblas"),
        ("BLAS of the system", "BLAS", "blas", "system"),
        ("Intel OpenMP", "OpenMP", "openmp", "intel"),
        ("libgomp", "OpenMP", "openmp", "libgomp"),
    ],
)
def test_the_libraries_of_a_role_are_an_axis(name: str, role: str, axis: str, value: str) -> None:
    assert derived(linked=(linked_as(name, role),))[axis] == value


def test_two_libraries_of_a_role_are_both_named_and_other_roles_are_no_axis() -> None:
    libraries = linked_as("MKL", "BLAS"), linked_as("Accelerate", "BLAS"), linked_as("zlib", "zlib")
    found = derived(linked=libraries)
    assert found["blas"] == "accelerate, mkl"
    assert "openmp" not in found
    assert "zlib" not in found


@pytest.mark.parametrize(
    ("axis", "text", "name", "found"),
    [("blas", "openblas", "MKL", "mkl"), ("linked", "static", "OpenBLAS", "dynamic")],
)
def test_a_blas_or_linking_set_by_hand_must_not_contradict_what_is_linked(
    axis: str, text: str, name: str, found: str
) -> None:
    libraries = (linked_as(name, "BLAS"),)
    assert derived(by_hand=read_by_hand([f"{axis}={text}"]))[axis] == text
    assert derived(by_hand={axis: found}, linked=libraries)[axis] == found
    said = f"{axis}: {text} is set by hand, but demo/a.so: needs {name} says {found}"
    with pytest.raises(ArtifactRefusedError, match=said):
        derived(by_hand={axis: text}, linked=libraries)


STATIC, DYNAMIC, UNKNOWN = Linking.STATIC, Linking.DYNAMIC, Linking.UNKNOWN


@pytest.mark.parametrize(
    ("libraries", "how"),
    [
        ([("OpenBLAS", "BLAS", STATIC), ("zlib", "zlib", STATIC)], "static"),
        ([("OpenBLAS", "BLAS", DYNAMIC)], "dynamic"),
        ([("OpenBLAS", "BLAS", STATIC), ("zlib", "zlib", DYNAMIC)], ""),
        ([("OpenBLAS", "BLAS", UNKNOWN)], ""),
        ([("libgomp", "OpenMP", DYNAMIC), ("CUDA runtime", "CUDA runtime", DYNAMIC)], ""),
        ([("OpenBLAS", "BLAS", STATIC), ("CUDA runtime", "CUDA runtime", DYNAMIC)], "static"),
        ([], ""),
    ],
)
def test_a_file_is_static_or_dynamic_where_all_its_libraries_are(
    libraries: list[tuple[str, str, Linking]], how: str
) -> None:
    assert derived(linked=tuple(linked_as(*each) for each in libraries)).get("linked", "") == how


@pytest.mark.parametrize(
    ("needed", "how"),
    [
        ("libopencv_core.so.4", ""),
        ("libc.so.6", "static"),
        ("libGL.so.1", "static"),
        ("libm.so", "static"),
        ("MSVCR90.dll", "static"),
        ("@rpath/Python.framework/Python", "static"),
        ("/usr/lib/libSystem.B.dylib", "static"),
        ("libcudart.so.12", "static"),
        ("libpython3.12.so.1.0", "static"),
    ],
)
def test_a_library_of_any_name_that_is_needed_is_not_static(needed: str, how: str) -> None:
    objects = (elf_file("demo/a.so", needed=(Dependency(name=needed),)),)
    static = (linked_as("OpenBLAS", "BLAS", STATIC),)
    assert derived(objects=objects, linked=static).get("linked", "") == how
    assert derived(objects=objects).get("linked", "") == ("" if how else "dynamic")
