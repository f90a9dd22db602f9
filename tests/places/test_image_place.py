"""A container of an image as a place: what it takes, where its files lie, and what it runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks import objects
from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import (
    CleanSystem,
    Conditions,
    Ending,
    InstalledPackage,
    applies,
    places,
    read_place,
    read_requirement,
)
from binary_checks.packages import open_package
from binary_checks.places import PlaceSettings, choose_place, image_place, mounted_pythons
from binary_checks.places.image_place import (
    ImagePlace,
    Prefix,
    describe_absent_python,
    fill,
    require_system,
    unpack_files,
    unpack_wheel,
)
from binary_checks.places.image_table import ImageEntry, choose_image, list_images, rank
from binary_checks.places.installers import Installer
from binary_checks.places.mounted_pythons import (
    find_managed_pythons,
    mount_managed,
    mount_python,
    name_managed_folder,
)
from binary_checks.probes.import_name.reader import import_each
from fixtures import fake_engine
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON, demand_sandbox, read_wheel
from fixtures.values import wheel

ABI3 = ("cp38-abi3-manylinux_2_28_x86_64",)
BULLSEYE = CleanSystem(name="bullseye", libc="glibc 2.31", architecture="x86_64")


def settings(**fields: Any) -> PlaceSettings:
    usual = {"name": read_place("image:bullseye"), "python": PYTHON, "timeout": 60}
    return PlaceSettings(**{**usual, **fields})


@pytest.mark.parametrize(
    ("platform", "libc", "fits"),
    [
        ("manylinux_2_28_x86_64", "glibc 2.31", True),
        ("manylinux_2_36_x86_64", "glibc 2.31", False),
        ("manylinux_2_28_aarch64", "glibc 2.31", False),
        ("musllinux_1_2_x86_64", "glibc 2.31", False),
        ("musllinux_1_2_x86_64", "musl 1.2.5", True),
        ("linux_x86_64", "glibc 2.31", True),
        ("win_amd64", "glibc 2.31", False),
        ("any", "glibc 2.31", True),
    ],
)
def test_a_system_takes_what_its_users_installers_take(
    platform: str, libc: str, *, fits: bool
) -> None:
    claims = wheel(f"demo-1.0-cp311-abi3-{platform}.whl").claims
    image = replace(BULLSEYE, libc=libc)
    if fits:
        require_system(claims, image)
        return
    with pytest.raises(Unavailable, match=f"image bullseye has {libc} on x86_64"):
        require_system(claims, image)


@pytest.mark.parametrize(
    ("platform", "machine", "oldest", "newest"),
    [
        ("manylinux_2_17_x86_64", "x86_64", "manylinux2014", "fedora-44"),
        ("manylinux_2_17_aarch64", "aarch64", "manylinux2014-aarch64", "fedora-44"),
        ("manylinux_2_28_x86_64", "x86_64", "almalinux-8", "fedora-44"),
        ("manylinux_2_31_armv7l", "armv7l", "debian-bullseye", "debian-trixie"),
        ("manylinux_2_34_x86_64", "x86_64", "almalinux-9", "fedora-44"),
        ("manylinux_2_31_x86_64", "x86_64", "debian-bullseye", "fedora-44"),
        ("manylinux_2_35_x86_64", "x86_64", "debian-bookworm", "fedora-44"),
        ("manylinux_2_39_x86_64", "x86_64", "ubuntu-noble", "fedora-44"),
        ("musllinux_1_1_x86_64", "x86_64", "alpine-3.12", "alpine-3.22"),
        ("musllinux_1_2_x86_64", "x86_64", "alpine-3.15", "alpine-3.22"),
        ("manylinux_2_99_x86_64", "x86_64", "", ""),
        ("manylinux_2_28_aarch64", "x86_64", "", ""),
        ("win_amd64", "x86_64", "", ""),
    ],
)
def test_oldest_and_newest_are_among_those_that_the_tag_promises(
    platform: str, machine: str, oldest: str, newest: str
) -> None:
    claims = wheel(f"demo-1.0-cp311-cp311-{platform}.whl").claims
    for name, wanted in (("oldest", oldest), ("newest", newest)):
        first = next(rank(name, claims, list_images(), machine), None)
        assert (first.name if first else "") == wanted


@pytest.mark.parametrize(
    ("name", "platform", "expected"),
    [
        ("newest-debian", "manylinux_2_28_x86_64", "debian-trixie"),
        ("newest-fedora", "manylinux_2_28_x86_64", "fedora-44"),
        ("oldest-debian", "manylinux_2_28_x86_64", "debian-bullseye"),
        ("newest-debian", "musllinux_1_2_x86_64", ""),
        ("newest-nothing", "manylinux_2_28_x86_64", ""),
    ],
)
def test_a_distribution_may_be_named(name: str, platform: str, expected: str) -> None:
    claims = wheel(f"demo-1.0-cp311-cp311-{platform}.whl").claims
    first = next(rank(name, claims, list_images(), "x86_64"), None)
    assert (first.name if first else "") == expected


def test_of_two_images_with_one_c_library_the_clean_one_comes_first() -> None:
    claims = wheel("demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl").claims
    row = {"tag": "x", "libc": "glibc 2.17", "architectures": ("x86_64",)}
    unclean = ImageEntry(name="a", clean=False, **row)  # type: ignore[arg-type]
    clean = ImageEntry(name="b", **row)  # type: ignore[arg-type]
    for name in ("oldest", "newest"):
        assert next(rank(name, claims, (unclean, clean), "x86_64")) is clean


def test_a_name_is_one_of_the_table_or_a_reference() -> None:
    known = choose_image("debian-bullseye", wheel().claims)
    assert known.reference.startswith("docker.io/library/debian@sha256:")
    other = choose_image("debian:sid", wheel().claims)
    assert (other.name, other.reference) == ("debian:sid", "debian:sid")
    elsewhere = wheel("demo-1.0-cp311-cp311-win_amd64.whl").claims
    with pytest.raises(Unavailable, match=r"no image for this host .* win_amd64"):
        choose_image("oldest", elsewhere)


def test_the_images_of_the_table_are_pinned_or_say_which_tag_they_follow() -> None:
    for entry in list_images():
        assert re.fullmatch(r"(?:sha256:[0-9a-f]{64})?", entry.digest), entry
        assert ":" in entry.tag.rpartition("/")[2], entry
        assert entry.python in ("image", "host"), entry
        assert re.fullmatch(r"(?:\d{4}-\d{2}-\d{2})?", entry.verified), entry
    (unclean, _) = [entry for entry in list_images() if not entry.clean]
    assert unclean.libc == "glibc 2.17"
    assert (
        "a package that should contain one of them passes there without it" in unclean.reservation
    )


def test_each_usual_tag_has_an_image_with_exactly_its_c_library() -> None:
    for tag, libc in {
        "manylinux_2_17": "glibc 2.17",
        "manylinux_2_28": "glibc 2.28",
        "manylinux_2_31": "glibc 2.31",
        "manylinux_2_34": "glibc 2.34",
        "manylinux_2_39": "glibc 2.39",
        "musllinux_1_2": "musl 1.2.2",
    }.items():
        claims = wheel(f"demo-1.0-cp313-cp313t-{tag}_x86_64.whl").claims
        assert next(rank("oldest", claims, list_images(), "x86_64")).libc == libc


def test_a_wheel_is_unpacked_where_an_installer_of_that_python_puts_it(tmp_path: Path) -> None:
    members = {
        "demo/__init__.py": "x = 1\n",
        "demo-1.0.data/data/share/x": "",
        "demo-1.0.data/scripts/run": "",
    }
    package = read_wheel(build_wheel(tmp_path, members=members, tags=ABI3))
    prefix = Prefix(folder=tmp_path / "package", site="lib/python3.13/site-packages")
    unpack_wheel(package, prefix)
    assert (prefix.folder / prefix.site / "demo" / "__init__.py").read_text() == "x = 1\n"
    assert (prefix.folder / "share" / "x").is_file()
    assert (prefix.folder / "bin" / "run").is_file()
    own = "lib/python3.8/site-packages/demo/__init__.py"
    assert prefix.place(package, own) == f"{prefix.site}/demo/__init__.py"
    assert prefix.find(package, f"{prefix.site}/demo/__init__.py") == own
    assert prefix.find(package, "share/x") == "share/x"


def test_what_no_installer_knows_lies_as_it_lay(tmp_path: Path) -> None:
    unpacked = tmp_path / "demo-1.0"
    with zipfile.ZipFile(build_wheel(tmp_path, members={"demo.py": "x = 1\n"}, tags=ABI3)) as file:
        file.extractall(unpacked)
    package = open_package(unpacked, objects)
    found = unpack_files(package, tmp_path / "copy", 60)
    (own,) = (member.path for member in package.members if member.path.endswith("demo.py"))
    assert (found.folder / found.place(package, own)).read_text() == "x = 1\n"
    assert found.find(package, "demo.py") == own


def test_what_needs_others_around_it_is_not_taken_into_an_image(tmp_path: Path) -> None:
    package = InstalledPackage(path=tmp_path, name="demo")
    with pytest.raises(Unavailable, match="cannot be tested in an image"):
        unpack_files(package, tmp_path / "copy", 60)
    assert not (tmp_path / "copy").exists()


def test_a_member_that_leads_out_is_not_unpacked(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo.py": "", "../../../../gone": ""}, tags=ABI3)
    prefix = Prefix(folder=tmp_path / "package", site="lib/python3.13/site-packages")
    with pytest.raises(Unavailable, match="leads out of the folder that it is unpacked in"):
        unpack_wheel(read_wheel(path), prefix)
    assert not (tmp_path / "gone").exists()


def test_requirements_are_not_resolved_for_a_python_that_nothing_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build_wheel(tmp_path, members={"demo.py": ""}, tags=ABI3, requires=("numpy",))
    package = read_wheel(path)
    target = replace(describe_absent_python((3, 13), BULLSEYE), free_threaded=True)
    prefix = Prefix(folder=tmp_path / "package", site="lib/python3.13t/site-packages")
    monkeypatch.setattr(image_place, "find_uv", lambda: "uv")
    with pytest.raises(Unavailable, match=r"not on this host: uv python install 3\.13t"):
        fill(package, prefix, target, BULLSEYE, settings())


def test_requirements_of_a_free_threaded_python_are_those_of_one_on_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build_wheel(tmp_path, members={"demo.py": ""}, tags=ABI3, requires=("numpy",))
    target = replace(describe_absent_python((3, 13), BULLSEYE), free_threaded=True)
    asked: list[tuple[Path, tuple[str, ...]]] = []

    def find(python: Path, **_: object) -> Installer:
        asked.append((python, ()))
        return Installer(name="uv 0", command=("uv", "--python", str(python)), no_index=())

    def install(installer: Installer, *_: object, **__: object) -> str:
        asked.append((Path(), installer.command))
        return "refused"

    monkeypatch.setattr(image_place, "find_uv", lambda: "uv")
    monkeypatch.setattr(image_place, "find_installer", find)
    monkeypatch.setattr(image_place, "install", install)
    prefix = Prefix(folder=tmp_path / "package", site="lib/python3.13t/site-packages")
    own = tmp_path / "python3.13t"
    found = fill(read_wheel(path), prefix, target, BULLSEYE, settings(), interpreter=own)
    assert found == "refused"
    assert asked[0][0] == tmp_path / "python3.13t"
    command = asked[1][1]
    assert command[-2:] == ("--python-platform", "x86_64-manylinux_2_31")
    assert "--python-version" not in command


def test_requirements_of_a_container_are_those_of_linux_on_every_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = {"sys_platform": "darwin", "platform_machine": "arm64", "platform_system": "Darwin"}
    monkeypatch.setattr(places, "default_environment", lambda: host)
    target = describe_absent_python((3, 13), replace(BULLSEYE, architecture="aarch64"))
    texts = ("sys_platform == 'linux'", "platform_machine == 'aarch64'", "python_version == '3.13'")
    for text in texts:
        requirement = read_requirement(f"demo; {text}")
        assert requirement is not None
        assert applies(requirement, target.markers)
    assert replace(target, system="").markers["sys_platform"] == "darwin"


def test_no_file_of_a_wheel_is_written_through_the_environments_own_links(tmp_path: Path) -> None:
    """The environment's python leads to the image's, which on this host is the host's own."""
    host = tmp_path / "python3.11"
    host.write_bytes(b"the host's")
    folder = tmp_path / "package"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(host)
    path = build_wheel(tmp_path, members={"demo-1.0.data/scripts/python": "a stranger's"})
    unpack_wheel(read_wheel(path), Prefix(folder=folder, site="lib/python3.11/site-packages"))
    assert host.read_bytes() == b"the host's"
    assert (folder / "bin/python").read_bytes() == b"a stranger's"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ImagePlace]:
    """A place whose image is this host's own system."""
    demand_sandbox("auto")
    folder = fake_engine.install(tmp_path, images=("localhost/here",))
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    made = choose_place(wheel(), settings(name=read_place("image:localhost/here"), index=False))
    assert isinstance(made, ImagePlace)
    with made:
        yield made


MODULES = {
    "healthy.py": "import sys\nassert sys.prefix == '/mnt/package'\n",
    "fails.py": "raise ValueError(__file__)\n",
    "crashes.py": "import os\nos.abort()\n",
    "hangs.py": "import time\ntime.sleep(600)\n",
}


def test_a_wheel_is_imported_by_a_python_of_the_container(
    place: ImagePlace, tmp_path: Path
) -> None:
    package = read_wheel(build_wheel(tmp_path, members=MODULES, tags=PURE))
    assert place.install(package) is None
    system = place.system
    assert (system.name, system.pinned) == ("localhost/here", fake_engine.PINNED)
    assert system.libc == " ".join(str(os.confstr("CS_GNU_LIBC_VERSION")).split())
    assert system.title == f"image localhost/here ({system.libc})"
    healthy, fails, crashes = import_each(place, ("healthy", "fails", "crashes")).steps
    assert (healthy.outcome, healthy.origin) == (Ending.OK, "healthy.py")
    assert healthy.origin_sha256 == next(
        each.sha256 for each in package.members if each.path.endswith("healthy.py")
    )
    assert (fails.outcome, "ValueError: fails.py" in fails.detail) == (Ending.RAISED, True)
    assert (crashes.outcome, crashes.detail) == (
        Ending.CRASHED,
        "SIGABRT at crashes.py:2 in <module>",
    )


@pytest.mark.slow
def test_after_an_import_that_hangs_the_next_one_has_a_container_again(
    place: ImagePlace, tmp_path: Path
) -> None:
    package = read_wheel(build_wheel(tmp_path, members=MODULES, tags=PURE))
    place.require_installed(package)
    place.timeout = 3
    hangs, healthy = import_each(place, ("hangs", "healthy")).steps
    assert (hangs.outcome, healthy.outcome) == (Ending.HUNG, Ending.OK)


@pytest.mark.parametrize("python", ["cp38-abi3", "cp36-cp36m"])
def test_the_systems_own_loader_says_what_an_object_lacks(
    place: ImagePlace, tmp_path: Path, python: str
) -> None:
    """Also if no Python of the container accepts the wheel, which is then only unpacked."""
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler here")
    source, built = tmp_path / "demo.c", tmp_path / "demo.so"
    source.write_text(
        '#include <stdio.h>\nvoid lost(void);\nvoid demo(void) { lost(); puts(""); }\n',
        encoding="utf-8",
    )
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", built], check=True)
    members = {"demo.abi3.so": built.read_bytes(), "other.abi3.so": built.read_bytes()}
    machine = sysconfig.get_platform().partition("-")[2]
    tags = (f"{python}-linux_{machine}",)
    package = read_wheel(build_wheel(tmp_path, members=members, tags=tags))
    paths = [f"{package.layout.site_packages}/{name}" for name in members]
    answers = place.resolve(package, paths)
    assert [answer.path for answer in answers] == paths
    for answer in answers:
        assert answer.lack == ""
        assert "libc.so.6 => " in answer.printed
        assert f"undefined symbol: lost\t({answer.path})" in answer.complaints


def test_decoys_and_scripts_of_the_user_lie_where_a_container_reads_them(
    place: ImagePlace, tmp_path: Path
) -> None:
    place.require_installed(read_wheel(build_wheel(tmp_path, members=MODULES, tags=PURE)))
    script = tmp_path / "own.py"
    script.write_text(
        "import os, sys\n"
        "functions = {'__name__': 'process'}\n"
        "exec(open(sys.argv[1]).read(), functions)\n"
        "folder = os.environ['LD_LIBRARY_PATH'].partition(':')[0]\n"
        "answer = {'content': open(folder + '/libx.so').read(), 'folder': folder}\n"
        "functions['open_recorder']().finish(answer)\n",
        encoding="utf-8",
    )
    answer = place.run(script, {}, conditions=Conditions(decoys={"libx.so": b"decoy"}))
    assert (answer.answer.get("content"), answer.stderr) == ("decoy", "")
    assert str(answer.answer["folder"]).startswith("/mnt/decoys/")


@pytest.mark.skipif(sys.platform == "win32", reason="programs have other names there")
def test_a_place_that_cannot_start_is_nobody_s_gap_and_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_engine.install(tmp_path, images=("localhost/here",), refuses="run")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    said = "image:localhost/here: podman starts no container: Error: it was refused"
    with choose_place(wheel(), settings(name=read_place("image:localhost/here"))) as made:
        for _ in range(2):
            with pytest.raises(GatherError, match=said):
                made.install(wheel())
            with pytest.raises(GatherError, match=said):
                assert made.system


# The interpreter of this host that a container is given.


@pytest.mark.skipif(os.name != "posix", reason="a script with a shebang")
def test_a_program_that_is_no_python_is_named_in_one_line(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(Unavailable) as refused:
        mount_python(program)
    reason = "not a Python 3.8 or later that runs here: it ends with exit status 3 and says nothing"
    assert str(refused.value) == f"{program}: {reason}"


@pytest.fixture
def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with Pythons as uv lays them."""
    monkeypatch.setattr(mounted_pythons, "find_host_architecture", lambda: "x86_64")
    for name, program in {
        "cpython-3.12.3-linux-x86_64-gnu": "python3.12",
        "cpython-3.12.10-linux-x86_64-gnu": "python3.12",
        "cpython-3.13.1-linux-x86_64-gnu": "python3.13",
        "cpython-3.13.1+freethreaded-linux-x86_64-gnu": "python3.13t",
        "cpython-3.13.1-linux-x86_64-musl": "python3.13",
        "cpython-3.13.1-linux-aarch64-gnu": "python3.13",
        "cpython-3.14.0-linux-x86_64-gnu": "",
        "pypy-3.11.1-linux-x86_64-gnu": "python3.11",
    }.items():
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "lib" / program).mkdir(parents=True)
        if program:
            path = tmp_path / name / "bin" / program
            path.write_text("#!/bin/sh\n", encoding="utf-8")
            path.chmod(0o755)
    return tmp_path


GNU, MUSL = "linux-x86_64-gnu", "linux-x86_64-musl"


@pytest.mark.parametrize(
    ("tag", "names"),
    [
        ("cp312-cp312", [f"cpython-3.12.10-{GNU}"]),
        ("cp313-cp313", [f"cpython-3.13.1-{GNU}", f"cpython-3.13.1-{MUSL}"]),
        ("cp313-cp313t", [f"cpython-3.13.1+freethreaded-{GNU}"]),
        (
            "cp39-abi3",
            [f"cpython-3.12.10-{GNU}", f"cpython-3.13.1-{GNU}", f"cpython-3.13.1-{MUSL}"],
        ),
        ("cp313-abi3", [f"cpython-3.13.1-{GNU}", f"cpython-3.13.1-{MUSL}"]),
        ("cp311-cp311", []),
        ("pp311-pypy311_pp73", []),
    ],
)
def test_a_package_gets_the_pythons_that_it_claims(
    managed: Path, tag: str, names: list[str]
) -> None:
    claims = wheel(f"demo-1.0-{tag}-manylinux_2_28_x86_64.whl").claims
    found = find_managed_pythons(claims, managed)
    assert [each.folder.name for each in found] == names
    assert find_managed_pythons(claims, managed / "gone") == []


def test_a_managed_python_is_mounted_with_its_library(managed: Path) -> None:
    claims = wheel("demo-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl").claims
    (found,) = find_managed_pythons(claims, managed)
    library = found.folder / "lib" / "libpython3.13t.so.1.0"
    library.write_bytes(b"")
    mounted = mount_managed(found, 2)
    assert mounted.program == "/mnt/python2/bin/python3.13t"
    assert mounted.host == found.program
    assert mounted.mounts == (
        (found.program, "/mnt/python2/bin/python3.13t"),
        (found.folder / "lib" / "python3.13t", "/mnt/python2/lib/python3.13t"),
        (library, "/mnt/python2/lib/libpython3.13t.so.1.0"),
    )


def test_pythons_lie_where_uv_puts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", "/pythons")
    assert name_managed_folder() == Path("/pythons")
    monkeypatch.delenv("UV_PYTHON_INSTALL_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert name_managed_folder() == Path("/data/uv/python")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert name_managed_folder() == Path.home() / ".local/share/uv/python"
