"""What a conda package promises comes from its subdir, its depends and its build string."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from binary_checks.model import Claims, Package
from binary_checks.packages import open_package
from fixtures.build_conda import build_conda
from fixtures.fake_reader import FakeReader


def read(path: Path) -> Package:
    return open_package(path, FakeReader())


def claims(folder: Path, **fields: Any) -> Claims:
    return read(build_conda(folder, suffix=".tar.bz2", **fields)).claims


@pytest.mark.parametrize(
    ("subdir", "depends", "name", "claim"),
    [
        (
            "linux-64",
            "__glibc >=2.17,<3.0.a0",
            "linux-64 with __glibc >=2.17",
            ("linux", (2, 17), ("x86_64",)),
        ),
        (
            "linux-aarch64",
            "__glibc >=2.28",
            "linux-aarch64 with __glibc >=2.28",
            ("linux", (2, 28), ("aarch64",)),
        ),
        ("linux-64", "python", "linux-64", ("linux", None, ("x86_64",))),
        (
            "osx-arm64",
            "__osx >=11.0",
            "osx-arm64 with __osx >=11.0",
            ("macos", (11, 0), ("aarch64",)),
        ),
        ("osx-64", "__osx >=11", "osx-64 with __osx >=11.0", ("macos", (11, 0), ("x86_64",))),
        ("win-64", "ucrt >=10.0.20348.0", "win-64", ("windows", None, ("x86_64",))),
        ("win-arm64", "__win >=10", "win-arm64", ("windows", None, ("aarch64",))),
        ("noarch", "python >=3.9", "noarch", ("any", None, ())),
        ("emscripten-wasm32", "python", "emscripten-wasm32", ("emscripten", None, ())),
    ],
)
def test_what_it_claims_comes_from_subdir_and_virtual_packages(
    tmp_path: Path, subdir: str, depends: str, name: str, claim: tuple[Any, ...]
) -> None:
    (found,) = claims(tmp_path, subdir=subdir, depends=[depends]).systems
    assert found.name == name
    assert (found.system, found.minimum, found.architectures) == claim


@pytest.mark.parametrize(
    ("depends", "name", "version", "abi"),
    [
        (["python >=3.11,<3.12.0a0", "python_abi 3.11.* *_cp311"], "python 3.11", (3, 11), "cp311"),
        (["python >=3.13", "python_abi 3.13.* *_cp313t"], "python 3.13", (3, 13), "cp313t"),
        (["python >=3.11,<3.12.0a0"], "python 3.11", (3, 11), "cp311"),
        (["python 3.12.*"], "python 3.12", (3, 12), "cp312"),
        (["cpython >=3.10", "_python_abi3_support 1.*"], "python >=3.10", (3, 10), "abi3"),
        (["python >=3.9"], "python >=3.9", (3, 9), ""),
        (["python"], "python of any version", None, ""),
    ],
)
def test_which_python_it_is_for_comes_from_its_depends(
    tmp_path: Path, depends: list[str], name: str, version: Any, abi: str
) -> None:
    (found,) = claims(tmp_path, depends=depends).pythons
    assert (found.name, found.version, found.abi) == (name, version, abi)
    assert found.free_threaded == abi.endswith("t")


def test_a_package_without_python_is_bound_to_none(tmp_path: Path) -> None:
    assert claims(tmp_path, depends=["libgcc >=13"]).pythons == ()


def test_what_nearly_all_depend_on_brings_what_it_is_known_for(tmp_path: Path) -> None:
    found = claims(tmp_path, depends=["libgcc >=13", "libstdcxx >=13", "__glibc >=2.17"])
    assert found.requirements == ()
    assert {"libstdc++.so.6", "libgcc_s.so.1"} <= set(found.provided)


def test_the_others_may_bring_anything(tmp_path: Path) -> None:
    depends = ["numpy >=1.23,<3", "conda-forge::libfoo 1.2.* h123_0", "_private", "ucrt"]
    found = claims(tmp_path, depends=depends)
    assert found.requirements == ("numpy >=1.23,<3", "libfoo", "private")
    assert found.provided == ("ucrtbase.dll",)


@pytest.mark.parametrize(
    ("build", "variant"),
    [
        ("cuda126_py311h0123abc_200", "cu126"),
        ("cpu_mkl_py311h0123abc_100", "cpu"),
        ("py311h0123abc_0", ""),
        ("0", ""),
    ],
)
def test_a_build_string_names_the_variant(tmp_path: Path, build: str, variant: str) -> None:
    assert claims(tmp_path, build=build).variant == variant


@pytest.mark.parametrize(
    ("subdir", "site_packages", "libraries"),
    [
        ("linux-64", "lib/python3.11/site-packages", "lib"),
        ("win-64", "Lib/site-packages", "Library/bin"),
        ("noarch", "site-packages", "lib"),
    ],
)
def test_every_system_has_its_layout(
    tmp_path: Path, subdir: str, site_packages: str, libraries: str
) -> None:
    found = read(build_conda(tmp_path, subdir=subdir, suffix=".tar.bz2")).layout
    assert (found.site_packages, found.libraries) == (site_packages, libraries)


def test_index_json_of_the_first_packages_has_no_subdir(tmp_path: Path) -> None:
    index = {"name": "demo", "version": "1.0", "build": "0", "platform": "linux", "arch": "x86_64"}
    path = build_conda(tmp_path, build="0", index=json.dumps(index), suffix=".tar.bz2")
    assert read(path).claims.systems[0].name == "linux-64"


def test_what_lies_outside_of_site_packages_is_shown_from_the_prefix(tmp_path: Path) -> None:
    layout = read(build_conda(tmp_path, suffix=".tar.bz2")).layout
    assert layout.shorten("lib/python3.11/site-packages/demo/a.so") == "demo/a.so"
    assert layout.shorten("lib/liba.so") == "lib/liba.so"
