"""A clean root file system as a place: what it takes, where its files lie, and what it runs."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binary_checks import objects
from binary_checks.errors import Unavailable
from binary_checks.model import InstalledPackage
from binary_checks.model.place_names import read_place
from binary_checks.model.root_filesystem import ImagePython, RootFilesystem
from binary_checks.packages import open_package
from binary_checks.places import PlaceSettings, Sandbox, choose_place, image_place
from binary_checks.places.confinement import Limits, confine
from binary_checks.places.gpu_drivers import find_driver_files
from binary_checks.places.image_choice import find_chosen, rank
from binary_checks.places.image_place import ImagePlace
from binary_checks.places.image_prefix import (
    Cargo,
    Prefix,
    demand_system,
    fill,
    imagine_python,
    unpack_files,
    unpack_wheel,
)
from fixtures.build_wheel import build_wheel
from fixtures.environments import PYTHON, read_wheel
from fixtures.values import wheel

ABI3 = ("cp38-abi3-manylinux_2_28_x86_64",)
BULLSEYE = RootFilesystem(
    name="bullseye", path=Path("/roots/bullseye"), libc="glibc 2.31", architecture="x86_64"
)


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
        demand_system(claims, image)
        return
    with pytest.raises(Unavailable, match=f"image bullseye has {libc} on x86_64"):
        demand_system(claims, image)


def entry(name: str, libc: str, machine: str = "x86_64", profile: str = "base") -> Any:
    version = tuple(int(part) for part in libc.partition(" ")[2].split(".") if part)
    return SimpleNamespace(
        name=name, libc=libc, libc_version=version, machine=machine, profile=profile
    )


ENTRIES = (
    entry("trixie", "glibc 2.41"),
    entry("bullseye", "glibc 2.31"),
    entry("bullseye-python", "glibc 2.31", profile="python"),
    entry("bullseye-arm64", "glibc 2.31", machine="aarch64"),
    entry("bookworm", "glibc 2.36"),
    entry("sid", "glibc"),
    entry("musl", "musl 1.2.5"),
)


@pytest.mark.parametrize(
    ("platform", "oldest", "newest"),
    [
        ("manylinux_2_28_x86_64", "bullseye", "trixie"),
        ("manylinux_2_36_x86_64", "bookworm", "trixie"),
        ("manylinux_2_28_aarch64", "bullseye-arm64", "bullseye-arm64"),
        ("musllinux_1_2_x86_64", "musl", "musl"),
        ("manylinux_2_99_x86_64", "", ""),
        ("win_amd64", "", ""),
    ],
)
def test_oldest_and_newest_are_among_those_that_the_tag_promises(
    platform: str, oldest: str, newest: str
) -> None:
    claims = wheel(f"demo-1.0-cp311-cp311-{platform}.whl").claims
    for name, wanted in (("oldest", oldest), ("newest", newest)):
        first = next(rank(name, claims, ENTRIES), None)
        assert (first.name if first else "") == wanted


def test_nothing_of_this_host_is_mounted_but_what_is_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("usr", "etc", "tmp", "proc", "mnt"):
        (root / name).mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    package = tmp_path / "package"
    package.mkdir()
    bound = ((package, "/mnt/package"),)
    limits = Limits(root=root, bound=bound, variables={"LD_BIND_NOW": "yes"})
    words = confine(("/usr/bin/python3",), limits)
    assert ("--setenv", "LD_BIND_NOW", "yes") in zip(words, words[1:], words[2:], strict=False)
    mounted = [words[i + 1 : i + 3] for i, word in enumerate(words) if word == "--ro-bind"]
    own = [pair for pair in mounted if not pair[1].startswith("/proc/")]
    assert own == [
        (str(root / "etc"), "/etc"),
        (str(root / "usr"), "/usr"),
        ("/sys", "/sys"),
        (str(package), "/mnt/package"),
    ]
    assert ("--symlink", "usr/lib", "/lib") in zip(words, words[1:], words[2:], strict=False)


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
    with pytest.raises(Unavailable, match="is not taken into an image"):
        unpack_files(package, tmp_path / "copy", 60)
    assert not (tmp_path / "copy").exists()


def test_a_member_that_leads_out_is_not_unpacked(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo.py": "", "../../../../gone": ""}, tags=ABI3)
    prefix = Prefix(folder=tmp_path / "package", site="lib/python3.13/site-packages")
    with pytest.raises(Unavailable, match="leads out of where it is unpacked"):
        unpack_wheel(read_wheel(path), prefix)
    assert not (tmp_path / "gone").exists()


def test_requirements_are_not_resolved_for_a_python_that_nothing_knows(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo.py": ""}, tags=ABI3, requires=("numpy",))
    package = read_wheel(path)
    target = replace(imagine_python((3, 13), BULLSEYE), free_threaded=True)
    prefix = Prefix(folder=tmp_path / "package", site="lib/python3.13t/site-packages")
    cargo = Cargo(wheel=package, prefix=prefix, target=target, image=BULLSEYE, settings=settings())
    with pytest.raises(Unavailable, match="cannot be resolved for a free-threaded Python"):
        fill(cargo)


def test_an_image_runs_in_a_sandbox_or_not_at_all() -> None:
    place = choose_place(wheel(), settings(sandbox=Sandbox(reason="--binary-sandbox off")))
    assert isinstance(place, ImagePlace)
    with pytest.raises(Unavailable) as caught:
        place.install(wheel())
    wanted = "image:bullseye: it runs in a sandbox alone: --binary-sandbox off"
    assert str(caught.value) == wanted


def test_a_place_that_cannot_be_had_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def find(name: str, claims: object) -> RootFilesystem:
        del claims
        asked.append(name)
        raise Unavailable("there is no such image")

    monkeypatch.setattr(image_place, "find_chosen", find)
    place = choose_place(wheel(), settings(sandbox=Sandbox(program="bwrap")))
    for _ in range(2):
        with pytest.raises(Unavailable, match="there is no such image"):
            assert place.system
    assert asked == ["bullseye"]


def test_what_no_python_of_the_image_takes_is_not_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = replace(BULLSEYE, pythons=(ImagePython(path="/usr/bin/python3.9", version="3.9"),))
    place = ImagePlace(settings(sandbox=Sandbox(program="bwrap")))
    target = replace(imagine_python((3, 9), image), platform="linux-x86_64")
    monkeypatch.setattr(place, "_ask", lambda _: target)
    for name in ("system", "python"):
        place._found[name] = image
    with pytest.raises(Unavailable, match="it cannot be imported there: the wheel is for cp311"):
        place.install(wheel("demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"))


def test_the_driver_of_this_host_is_found_where_the_environment_leads(tmp_path: Path) -> None:
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libother.so"):
        (tmp_path / name).touch()
    found = dict(find_driver_files("/mnt/driver", (tmp_path,)))
    assert found == {
        tmp_path / "libcuda.so.1": "/mnt/driver/libcuda.so.1",
        tmp_path / "libnvidia-ml.so.1": "/mnt/driver/libnvidia-ml.so.1",
    }


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


def test_of_a_name_with_a_digest_that_root_alone_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = "3560f1a3c9d2" + "0" * 52
    monkeypatch.setattr(
        "binary_checks.places.images.find_image", lambda name: replace(BULLSEYE, digest=digest)
    )
    claims = wheel().claims
    assert find_chosen("bullseye@3560f1a3c9d2", claims).digest == digest
    assert find_chosen(f"bullseye@{digest}", claims).digest == digest
    with pytest.raises(Unavailable, match=f"image:bullseye: its digest is {digest}, and aaaa"):
        find_chosen("bullseye@" + "a" * 12, claims)
