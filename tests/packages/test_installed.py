"""An installed package has its wheel's facts, and what was changed in it is told."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.documents.facts import record_sha256
from binary_checks.errors import PackageError
from binary_checks.model import Format, InstalledPackage, Wheel
from binary_checks.packages import installed, open_package
from binary_checks.sources.installed import Installation, find_installation
from fixtures.build_wheel import OMIT, build_wheel
from fixtures.installation import install_by_hand
from fixtures.samples import HEALTHY_WHEEL, read_pe_sample
from tests.plugin.conftest import EXTENSION, healthy


@pytest.fixture
def wheel(tmp_path: Path) -> Wheel:
    package = open_package(healthy(tmp_path), objects)
    assert isinstance(package, Wheel)
    return package


@pytest.fixture
def installation(wheel: Wheel, tmp_path: Path) -> Installation:
    return install_by_hand(wheel.path, tmp_path / "env")


def read(installation: Installation) -> InstalledPackage:
    package = installation.read(objects).package
    assert isinstance(package, InstalledPackage)
    return package


def survey(installation: Installation) -> InstalledPackage:
    with closing(installation.open()) as tree:
        return installed.survey(tree)


def faults(package: InstalledPackage) -> dict[str, tuple[str, ...]]:
    shown = package.layout.shorten
    return {shown(member.path): member.faults for member in package.members if member.faults}


def test_it_has_the_facts_of_its_wheel(wheel: Wheel, installation: Installation) -> None:
    package = read(installation)
    for name in (
        "name",
        "version",
        "layout",
        "claims",
        "objects",
        "tags",
        "metadata",
        "wheel",
        "dist_info",
    ):
        assert getattr(package, name) == getattr(wheel, name), name
    own = {(each.path, each.size, each.sha256) for each in package.members}
    brought = {(each.path, each.size, each.sha256) for each in wheel.members}
    assert {path for path, *_ in brought - own} == {wheel.layout.place(f"{wheel.dist_info}/RECORD")}
    assert own <= brought
    assert (faults(package), package.archive_faults) == ({}, ())


def test_it_is_named_after_its_project(installation: Installation) -> None:
    assert read(installation).file_name == "installed:demo"


def test_its_record_has_the_wheels_hash(wheel: Wheel, installation: Installation) -> None:
    assert (
        installation.identity().removeprefix("record_sha256 ")
        == record_sha256(wheel)
        == record_sha256(replace(wheel, record=read(installation).record))
    )


def test_a_first_look_says_which_formats_occur(installation: Installation) -> None:
    assert installation.preview(objects).formats == {Format.ELF}
    assert installation.preview(objects).kind is InstalledPackage


def test_a_survey_reads_no_object_and_misses_no_file(installation: Installation) -> None:
    package = survey(installation)
    assert package.objects == ()
    assert package.members == read(installation).members


@pytest.mark.parametrize("look", [read, survey])
def test_a_file_that_is_gone_or_of_another_size_is_a_fault(
    installation: Installation, look: type[InstalledPackage]
) -> None:
    site = installation.dist_info.parent
    (site / EXTENSION).unlink()
    (site / "demo/__init__.py").write_text("import os")
    found = faults(look(installation))  # type: ignore[arg-type, call-arg]
    assert "is not there" in found[EXTENSION][0]
    assert "9 bytes, and RECORD says 0" in found["demo/__init__.py"][0]


def test_a_file_that_was_changed_is_a_fault(tmp_path: Path) -> None:
    built = build_wheel(tmp_path, members={"demo.py": "x = 1"})
    installation = install_by_hand(built, tmp_path / "env")
    (installation.dist_info.parent / "demo.py").write_text("x = 2")
    assert "it was changed after" in faults(read(installation))["demo.py"][0]


posix = pytest.mark.skipif(os.name != "posix", reason="Windows has Scripts where others have bin")


@posix
@pytest.mark.parametrize("path", ["/etc/passwd", "../../../../elsewhere/x", "../../../bin/none"])
def test_what_lies_outside_the_environment_is_not_inspected(tmp_path: Path, path: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x").write_bytes(b"\x7fELF")
    built = build_wheel(tmp_path, members={"demo.py": ""})
    package = read(install_by_hand(built, tmp_path / "env", [f"{path},,"]))
    said = "is not there" if "bin" in path else "outside the environment"
    assert said in faults(package)[path][0]


@posix
def test_a_script_is_named_by_its_place_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/demo").write_text("#!python")
    built = build_wheel(tmp_path, members={"demo.py": ""})
    package = read(install_by_hand(built, tmp_path / "env", ["../../../bin/demo,,"]))
    assert ("bin/demo", "bin/demo") in {(m.path, m.archive_name) for m in package.members}


def test_without_a_record_nobody_knows_its_files(tmp_path: Path) -> None:
    installation = install_by_hand(build_wheel(tmp_path, record=OMIT), tmp_path / "env")
    with pytest.raises(PackageError, match="installed:demo: it has no RECORD"):
        read(installation)


def test_an_editable_install_is_refused(installation: Installation) -> None:
    text = '{"url": "file:///src", "dir_info": {"editable": true}}'
    (installation.dist_info / "direct_url.json").write_text(text)
    for look in (read, survey, Installation.identity):
        with pytest.raises(PackageError, match="an editable install"):
            look(installation)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"dir_info": 1}', "[" * 100_000])
def test_another_direct_url_is_let_be(installation: Installation, text: str) -> None:
    (installation.dist_info / "direct_url.json").write_text(text)
    assert read(installation).objects


def test_code_that_adds_directories_on_windows_is_followed(tmp_path: Path) -> None:
    code = "import os\nos.add_dll_directory(os.path.join(os.path.dirname(__file__), 'lib'))\n"
    members = {"demo/__init__.py": code, "demo/lib/x.dll": read_pe_sample("no_imports.dll")}
    built = build_wheel(tmp_path, members=members, tags=["cp311-cp311-win_amd64"])
    package = read(install_by_hand(built, tmp_path / "env"))
    assert package.dll_directories == ("Lib/site-packages/demo/lib",)


def test_code_too_long_to_be_read_is_searched_for_a_mention(tmp_path: Path) -> None:
    members = {
        "demo/__init__.py": "#" * ((1 << 20) - 9) + "\nos.add_dll_directory(x)\n",
        "demo/other.py": "#" * (2 << 20),
    }
    built = build_wheel(tmp_path, members=members, tags=["cp311-cp311-win_amd64"])
    package = read(install_by_hand(built, tmp_path / "env"))
    assert package.loading_code == ("Lib/site-packages/demo/__init__.py",)


def test_the_first_folder_that_has_it_counts(tmp_path: Path) -> None:
    one, two = (
        install_by_hand(HEALTHY_WHEEL, tmp_path / name).dist_info.parent for name in ("one", "two")
    )
    found = find_installation("Demo", [tmp_path / "none", two, one], tmp_path)
    assert found is not None
    assert found.dist_info.parent == two
    assert find_installation("other", [one, two], tmp_path) is None


@pytest.mark.parametrize("name", ["demo-2.0.dist-info", "Demo-0.9.dist-info"])
def test_two_of_one_name_in_one_folder_are_refused(installation: Installation, name: str) -> None:
    site = installation.dist_info.parent
    (site / name).mkdir()
    with pytest.raises(PackageError, match="more than once"):
        find_installation("demo", [site], installation.prefix)


def test_an_egg_has_no_record(tmp_path: Path) -> None:
    (tmp_path / "demo-1.0.egg-info").touch()
    with pytest.raises(PackageError, match=r"without a RECORD .demo-1\.0\.egg-info"):
        find_installation("demo", [tmp_path], tmp_path)


def test_a_link_to_an_egg_is_an_editable_install(tmp_path: Path) -> None:
    (tmp_path / "demo.egg-link").write_text("/src/demo\n.")
    with pytest.raises(PackageError, match="demo: an editable install of /src/demo, "):
        find_installation("demo", [tmp_path], tmp_path)


@pytest.mark.parametrize("path", ["demo/\0x.so", "a" * 5_000, f"{'a/' * 5_000}x.so", "C:\\x.so"])
def test_a_row_that_no_file_can_have_is_a_fault(tmp_path: Path, path: str) -> None:
    installation = install_by_hand(
        healthy(tmp_path), tmp_path / "env", rows=(f"{path},sha256=x,4",)
    )
    package = read(installation)
    # Before Python 3.11 no row of a CSV file may hold a NUL: then RECORD itself is at fault.
    assert path in faults(package) or ("\0" in path and package.record_faults)
    assert installation.preview(objects).formats == {Format.ELF}
