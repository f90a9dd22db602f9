"""Archives of C++ libraries are recognised by what lies in them, and read as a prefix."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binary_checks.errors import BinaryChecksError, PackageError
from binary_checks.model import CmakePackage, CppArchive, Format, Package, SystemClaim
from binary_checks.packages import cpp_archive, open_package, preview, recognises
from binary_checks.packages.conda import CondaPackage
from binary_checks.trees import open_tree
from fixtures.archive_entries import Entry
from fixtures.build_conda import build_conda
from fixtures.build_cpp_archive import OMIT, TarMember, build_cpp_archive
from fixtures.build_wheel import build_wheel
from fixtures.fake_reader import FakeReader

ELF = b"\x7fELF" + bytes(100)
LIBRARY = {"lib/libdemo.so": ELF}
SUFFIXES = (".zip", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")


def read(path: Path) -> Package:
    return open_package(path, FakeReader())


def read_archive(path: Path) -> CppArchive:
    package = read(path)
    assert isinstance(package, CppArchive)
    return package


@pytest.mark.parametrize("top", ["", "demo-1.0"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_container_holds_the_same_prefix(tmp_path: Path, suffix: str, top: str) -> None:
    path = build_cpp_archive(tmp_path, LIBRARY, name=f"demo{suffix}", top=top)
    assert recognises(path)
    assert preview(path, FakeReader()).kind is CppArchive
    package = read_archive(path)
    assert package.top == top
    assert [item.path for item in package.objects] == ["lib/libdemo.so"]
    assert "include/demo.h" in {member.path for member in package.members}
    assert package.cmake_packages == (
        CmakePackage(name="Demo", path="share/cmake/Demo/DemoConfig.cmake"),
    )
    assert package.layout.libraries == "lib"


def test_zstandard_is_read_where_something_can(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    package = read_archive(build_cpp_archive(tmp_path, LIBRARY, name="demo.tar.zst"))
    assert [item.path for item in package.objects] == ["lib/libdemo.so"]


def test_names_that_begin_with_a_dot_are_the_same(tmp_path: Path) -> None:
    package = read_archive(build_cpp_archive(tmp_path, LIBRARY, name="demo.tar.gz", top="."))
    assert [item.path for item in package.objects] == ["lib/libdemo.so"]


def test_what_lies_beside_the_one_folder_stays_outside(tmp_path: Path) -> None:
    members = {**LIBRARY, "../README": Entry("README", b"text")}
    package = read_archive(build_cpp_archive(tmp_path, members))
    assert "../README" in {member.path for member in package.members}


@pytest.mark.parametrize(
    "members",
    [
        {"src/demo.c": "int demo;"},
        {"lib/libdemo.so": ELF, "PKG-INFO": "Name: demo"},
        {"lib/libdemo.so": ELF, "pyproject.toml": ""},
        {"lib/libdemo.so": ELF, "demo-1.0.dist-info/METADATA": "Name: demo"},
        {"lib/libdemo.so": ELF, "info/index.json": "{}"},
    ],
)
@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_other_archives_are_none(tmp_path: Path, members: dict[str, str], suffix: str) -> None:
    first = dict(reversed(members.items()))
    nothing = {
        "share/cmake/Demo/DemoConfig.cmake": OMIT,
        "share/cmake/Demo/DemoTargets.cmake": OMIT,
    }
    nothing["include/demo.h"] = OMIT
    path = build_cpp_archive(tmp_path, {**nothing, **first}, name=f"demo-1.0{suffix}")
    assert not recognises(path)


def test_headers_may_lie_deep(tmp_path: Path) -> None:
    others = dict.fromkeys(("DemoConfig.cmake", "DemoTargets.cmake"), OMIT)
    members = {**LIBRARY, **{f"share/cmake/Demo/{name}": each for name, each in others.items()}}
    members |= {"include/demo.h": OMIT, "include/demo/detail/demo.h": ""}
    assert recognises(build_cpp_archive(tmp_path, members))


def test_headers_without_a_library_are_none(tmp_path: Path) -> None:
    assert not recognises(build_cpp_archive(tmp_path))


def test_a_wheel_under_the_name_of_a_zip_is_none(tmp_path: Path) -> None:
    members = {"lib/libdemo.so": ELF, "include/demo.h": ""}
    built = build_wheel(tmp_path, members=members, filename="demo-1.0-linux-x86_64.zip")
    assert not recognises(built)


def test_a_conda_package_stays_one(tmp_path: Path) -> None:
    members = {"lib/libdemo.so": ELF, "include/demo.h": ""}
    built = build_conda(tmp_path, members=members, suffix=".tar.bz2")
    assert isinstance(read(built), CondaPackage)


def test_only_what_may_be_one_by_its_name_is_opened() -> None:
    def look() -> None:
        raise AssertionError("opened")

    assert not cpp_archive.recognises("demo-1.0.whl", look)  # type: ignore[arg-type]
    assert not cpp_archive.recognises("demo.conda", look)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", SUFFIXES[:-1])
def test_a_damaged_one_whose_name_says_what_it_is_for_is_read_and_refused(
    tmp_path: Path, suffix: str
) -> None:
    path = build_cpp_archive(tmp_path, LIBRARY, name=f"demo-linux-x64-1.0{suffix}")
    path.write_bytes(path.read_bytes()[:100])
    assert recognises(path)
    with pytest.raises(PackageError, match="truncated"):
        read(path)


def test_links_in_a_zip_archive_lead_on(tmp_path: Path) -> None:
    members = {
        **LIBRARY,
        "lib/libdemo.so.1": Entry("", b"libdemo.so", mode=0o120777),
        "lib/outside.so": Entry("", b"../../../outside.so", mode=0o120777),
    }
    package = read_archive(build_cpp_archive(tmp_path, members))
    found = {member.path: member for member in package.members if member.target}
    assert found["lib/libdemo.so.1"].target == "lib/libdemo.so"
    assert found["lib/outside.so"].faults == ("it links to ../outside.so, outside of the package",)


def test_links_in_a_tar_lead_on(tmp_path: Path) -> None:
    links: dict[str, TarMember] = {"lib/libdemo.so.1": TarMember(kind=b"2", target="libdemo.so")}
    package = read_archive(build_cpp_archive(tmp_path, {**LIBRARY, **links}, name="demo.tar.xz"))
    assert [m.target for m in package.members if m.target] == ["lib/libdemo.so"]


def test_what_it_is_for_is_in_its_name(tmp_path: Path) -> None:
    name = "libtorch-win-shared-with-deps-debug-2.13.0%2Bcu126.zip"
    package = read_archive(build_cpp_archive(tmp_path, LIBRARY, name=name))
    assert (package.name, package.version) == ("libtorch", "2.13.0+cu126")
    (system,) = package.claims.systems
    assert (system.system, system.architectures) == ("windows", ("x86_64",))
    assert package.claims.variant == "cu126"
    stated = package.stated
    assert (stated.linking, stated.with_deps, stated.debug) == ("shared", True, True)


def test_without_that_it_is_what_its_objects_are(tmp_path: Path) -> None:
    package = read_archive(build_cpp_archive(tmp_path, LIBRARY, name="demo.zip"))
    assert package.claims.systems == (
        SystemClaim(name="linux_x86_64", system="linux", libc="glibc", architectures=("x86_64",)),
    )
    assert package.claims.pythons == ()


def test_the_build_is_known(tmp_path: Path) -> None:
    texts = {"build-version": "2.13.0+cpu\n", "build-hash": "cf30153\n"}
    package = read_archive(build_cpp_archive(tmp_path, {**LIBRARY, **texts}, name="demo.zip"))
    assert (package.build_version, package.build_hash) == ("2.13.0+cpu", "cf30153")
    assert package.version == "2.13.0+cpu"


def test_a_preview_of_a_zip_names_the_formats_in_it(tmp_path: Path) -> None:
    assert preview(build_cpp_archive(tmp_path, LIBRARY), FakeReader()).formats == {Format.ELF}


def test_a_folder_is_one_too_and_an_environment_is_none(tmp_path: Path) -> None:
    for name in ("lib/libdemo.so", "include/demo.h"):
        path = tmp_path / "demo" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(ELF)
    assert isinstance(read(tmp_path / "demo"), CppArchive)
    (tmp_path / "demo/pyvenv.cfg").touch()
    assert not isinstance(read(tmp_path / "demo"), CppArchive)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_archive_cut_at_any_length_is_one_line_or_a_fault(tmp_path: Path, suffix: str) -> None:
    path = build_cpp_archive(tmp_path, LIBRARY, name=f"demo-linux-x64{suffix}")
    whole = path.read_bytes()
    for length in range(0, len(whole), 41):
        path.write_bytes(whole[:length])
        try:
            package = cpp_archive.read(open_tree(path), FakeReader())
            faults = [*package.archive_faults, *(f for m in package.members for f in m.faults)]
            assert faults
        except BinaryChecksError as error:
            assert str(error).startswith(path.name)
            assert "\n" not in str(error)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(SUFFIXES),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4),
)
def test_bytes_that_are_wrong_anywhere_are_a_fault_or_one_line(
    tmp_path: Path, suffix: str, changes: list[tuple[int, int]]
) -> None:
    path = build_cpp_archive(tmp_path, LIBRARY, name=f"demo-linux-x64{suffix}")
    whole = bytearray(path.read_bytes())
    for place, change in changes:
        whole[place % len(whole)] ^= change
    path.write_bytes(whole)
    try:
        read(path)
    except BinaryChecksError as error:
        assert "\n" not in str(error)


def test_more_than_is_kept_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_archive, "_MOST_KEPT", 100)
    path = build_cpp_archive(tmp_path, LIBRARY)
    with pytest.raises(PackageError, match="have more than 100 bytes"):
        read(path)
