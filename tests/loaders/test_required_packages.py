from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.loaders import simulate
from binary_checks.loaders.required_packages import find_misfits, find_required
from binary_checks.model import (
    Claims,
    CondaPackage,
    Linkage,
    MisfitVersion,
    Wheel,
    names_required,
)
from fixtures.linking import extension, library, macos, target
from fixtures.values import wheel

REQUIRES = (
    "numpy>=1.2",
    "nvidia-cudnn-cu13; sys_platform == 'linux'",
    "pywin32; sys_platform == 'win32'",
    "pytest; extra == 'test'",
    "tomli; python_version < '3.11'",
    "not a requirement",
)


def test_requirements_that_apply_on_the_target_and_were_not_given_are_named() -> None:
    numpy = wheel("numpy-2.0-cp311-cp311-manylinux_2_17_x86_64.whl")
    package = wheel(objects=(extension(),))
    linkage = simulate(package, target(), others=(numpy,), requirements=REQUIRES)
    assert linkage.requirements == ("nvidia-cudnn-cu13",)
    assert linkage.requirements


@pytest.mark.parametrize(
    ("system", "architecture", "required"),
    [
        ("windows", "x86_64", ("a", "n")),
        ("windows", "aarch64", ("b", "n")),
        ("macos", "aarch64", ("c", "d")),
    ],
)
def test_markers_ask_for_the_targets_own_words(
    system: str, architecture: str, required: tuple[str, ...]
) -> None:
    requirements = (
        "a; platform_machine == 'AMD64'",
        "b; platform_machine == 'ARM64'",
        "c; platform_machine == 'arm64'",
        "d; platform_system == 'Darwin'",
        "n; os_name == 'nt'",
    )
    on = target(system=system, libc="", architectures=(architecture,))
    assert simulate(wheel(), on, requirements=requirements).requirements == required


def test_requirements_that_are_given_are_not_named() -> None:
    package, given = wheel(objects=(extension(),)), numpy("2.0")
    linkage = simulate(package, target(), others=(given,), requirements=("numpy>=1.2",))
    assert linkage.requirements == ()
    assert not linkage.requirements


def numpy(version: str) -> Wheel:
    path = "numpy/lib/libnp.so"
    return wheel(f"numpy-{version}-cp311-cp311-manylinux_2_17_x86_64.whl", objects=(library(path),))


def link_with(*others: Wheel, requires: str = "numpy>=2,<3") -> Linkage:
    package = wheel(objects=(extension("libnp.so", runpath=("$ORIGIN/../numpy/lib",)),))
    return simulate(package, target(), others=others, requirements=(requires,))


def test_a_given_wheel_that_the_requirement_excludes_is_left_out_and_named() -> None:
    linkage = link_with(numpy("1.26"))
    assert linkage.refused == ("numpy 1.26, where numpy<3,>=2 is required",)
    assert linkage.requirements == ("numpy",)
    assert linkage.given == ()
    assert linkage.edges[0].resolved is None


@pytest.mark.parametrize("version", ["2.0", "2.1rc1", "2.9+local"])
def test_a_given_wheel_that_fits_is_used(version: str) -> None:
    linkage = link_with(numpy(version))
    assert (linkage.refused, linkage.requirements) == ((), ())
    assert linkage.given == ("numpy",)
    assert linkage.edges[0].resolved == "wheel:numpy:numpy/lib/libnp.so"


def test_of_two_versions_given_the_one_that_fits_is_used_and_nothing_said() -> None:
    linkage = link_with(numpy("1.26"), numpy("2.0"))
    assert (linkage.refused, linkage.given) == ((), ("numpy",))


def test_a_requirement_that_does_not_apply_excludes_nothing() -> None:
    linkage = link_with(numpy("1.26"), requires="numpy>=2; python_version < '3'")
    assert (linkage.refused, linkage.given) == ((), ("numpy",))


def test_what_a_given_package_requires_is_required_too() -> None:
    """torch requires cuda-toolkit[cublas], whose extra requires nvidia-cublas."""
    toolkit = wheel(
        "cuda_toolkit-13.2-py3-none-any.whl",
        metadata=(
            ("Requires-Dist", "nvidia-cublas; extra == 'cublas'"),
            ("Requires-Dist", "nvidia-npp; extra == 'npp'"),
        ),
    )
    linkage = simulate(wheel(), target(), others=(toolkit,), requirements=("cuda-toolkit[cublas]",))
    assert linkage.requirements == ("nvidia-cublas",)


def test_what_is_needed_in_a_given_package_is_told_apart_from_the_packages_own() -> None:
    needy = library("torch/libtorch.so", "libx.so.1", runpath=("$ORIGIN",))
    torch = wheel("torch-2.0-cp311-cp311-manylinux_2_17_x86_64.whl", objects=(needy,))
    module = extension("libtorch.so", runpath=("$ORIGIN/../torch",))
    linkage = simulate(wheel(objects=(module,)), target(), others=(torch,))
    assert [edge.needed for edge in linkage.edges] == ["libtorch.so"]
    assert [(edge.path, edge.needed) for edge in linkage.given_edges] == [
        ("wheel:torch:torch/libtorch.so", "libx.so.1")
    ]


PLAIN = (
    "Foo_bar>=1.2,<3 ; python_version >= '3.9' and python_version < \"3.10\"",
    'a; python_version != "3.11"',
    "b;sys_platform=='darwin'and extra == 't'",
    "c; platform_machine != 'x86_64'",
    "d",
    "e[x]~=1.0; extra == 'test'",
    "f.g==1 ; os_name == 'posix' and  implementation_name == 'cpython'",
)
OTHERS = (
    "a;", "b>=1,", "c>=1,<", "d~=1", "e==1.*", "f=1", "g>1..2", "h_; os_name == 'posix'", "i j", "",
    "k@https://x/;extra=='t'", "l @ https://x/;extra == 't'", "m @ https://x/ ; extra == 't'",
    "n; extra == 't' or os_name == 'posix'", "o; extra == 't", "p; extra > 't'", "q; extra == ''",
    "r; python_version > 'x'", "s; 'posix' == os_name", "t; os_name == 'a and b'", "u; extra!='t'",
    "v; os_name == 'posix' and", "w (>=1); (os_name == 'nt') and extra == 't'", "x; extra=='9.9'",
    "y; python_version < '" + "9" * 9999 + ".0'", "\u0661; os_name == 'nt'", "z\n; os_name == 'nt'",
)  # fmt: skip


@pytest.mark.parametrize(
    ("system", "plain", "others"),
    [
        ("linux", {"d", "f-g"}, {"b", "e", "h-", "k", "n", "q", "s", "u", "y"}),
        ("windows", {"c", "d"}, {"b", "e", "k", "q", "u", "y"}),
    ],
)
def test_only_valid_requirements_that_apply_are_named(
    system: str, plain: set[str], others: set[str]
) -> None:
    on = target(system=system, libc="glibc" if system == "linux" else "")
    assert names_required(PLAIN, on) == plain
    assert names_required(OTHERS, on) == others


def test_no_requirement_takes_more_time_than_its_length() -> None:
    gap = " " * 300_000
    texts = (f"a{gap}!", f"a{gap}==1!", f"a==1{gap}!", f"a; os_name{gap}!", f"b{gap}")
    assert names_required(texts, target()) == {"b"}


def test_packages_that_require_each_other_are_each_required_once() -> None:
    given = {
        "a": wheel("a-1.0-py3-none-any.whl", metadata=(("Requires-Dist", "b[x]"),)),
        "b": wheel("b-1.0-py3-none-any.whl", metadata=(("Requires-Dist", "a"),)),
    }
    required = find_required(["a"], given, target())
    assert {name: len(items) for name, items in required.items()} == {"a": 1, "b": 1}


def test_a_marker_asks_for_the_first_architecture_of_a_universal_wheel() -> None:
    universal = macos(architectures=("aarch64", "x86_64"))
    requirements = ["one; platform_machine == 'arm64'", "two; platform_machine == 'x86_64'"]
    assert names_required(requirements, universal) == {"one"}


def plain(label: str, *requires: str, tag: str = "any") -> Wheel:
    metadata = tuple(("Requires-Dist", each) for each in requires)
    return wheel(f"{label}-py3-none-{tag}.whl", metadata=metadata)


def spell(requires: str, *given: Wheel) -> list[tuple[str, str, str, str]]:
    found = find_misfits((requires,), given, target())
    return [(each.by, each.requirement, each.name, each.version) for each in found]


def test_a_version_that_the_package_itself_excludes_is_a_misfit() -> None:
    assert find_misfits(("numpy>=2,<3",), (numpy("1.26"),), target()) == (
        MisfitVersion(name="numpy", version="1.26", requirement="numpy<3,>=2"),
    )
    assert find_misfits(("numpy>=2,<3",), (numpy("2.1"),), target()) == ()


def test_a_version_that_a_given_package_excludes_is_a_misfit_of_that_one() -> None:
    """torch requires cuda-toolkit[cublas], whose extra pins nvidia-cublas."""
    toolkit = plain(
        "cuda_toolkit-13.2.2",
        "nvidia-cublas==13.4.*; extra == 'cublas'",
        "nvidia-npp==13.*; extra == 'npp'",
    )
    cublas, npp = plain("nvidia_cublas-13.1.0"), plain("nvidia_npp-12.0")
    assert spell("cuda-toolkit[cublas]==13.2.2", toolkit, cublas, npp) == [
        ("cuda-toolkit 13.2.2", "nvidia-cublas==13.4.*", "nvidia-cublas", "13.1.0")
    ]
    assert spell("cuda-toolkit", toolkit, cublas, npp) == []


def test_of_several_versions_given_one_that_fits_is_enough() -> None:
    assert spell("numpy<2", numpy("2.0"), numpy("1.26")) == []
    newer, older = plain("a-2.0", "numpy>=2"), plain("a-1.0", "numpy<2")
    assert spell("a", newer, older, numpy("1.26")) == []
    assert spell("a>=2", newer, older, numpy("1.26")) == [("a 2.0", "numpy>=2", "numpy", "1.26")]


def test_the_newest_versions_given_say_what_is_required() -> None:
    newer, older = plain("a-2.0", "numpy>=2"), plain("a-1.0")
    assert spell("a", newer, older, numpy("1.26"), numpy("2.1")) == []
    assert spell("a>=2", newer, older, numpy("1.26"), numpy("2.1")) == []


def test_what_no_installer_would_put_there_excludes_nothing() -> None:
    unrelated, of_windows = plain("b-1.0", "numpy>=2"), plain("numpy-1.0", tag="win_amd64")
    assert spell("numpy>=1.2", unrelated, of_windows, numpy("1.26")) == []
    assert spell("numpy>=2; sys_platform == 'win32'", numpy("1.26")) == []
    assert spell("numpy>=2", of_windows) == []


def test_conda_packages_are_held_against_what_they_depend_on() -> None:
    def conda(name: str, version: str, *requirements: str) -> CondaPackage:
        claims = Claims(requirements=requirements)
        path = Path(f"{name}-{version}-0.conda")
        return CondaPackage(path=path, name=name, version=version, size=1, claims=claims)

    given = (conda("cudnn", "8.9.7.29"), conda("libtorch", "2.15.0", "cudnn >=9.1,<10.0a0"))
    found = find_misfits(("libtorch ==2.15.0",), given, target())
    assert [(each.by, each.version) for each in found] == [("libtorch 2.15.0", "8.9.7.29")]
