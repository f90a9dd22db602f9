"""What is said of conda packages, held against ld.so and against the wheels they were made from."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine, judge
from fixtures.build_conda import TarMember, build_conda
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.conda.fetch import fetch
from fixtures.conda.make import make
from fixtures.oracles.compare_conda import compare_package

pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")

SITE = "lib/python3.11/site-packages"
NATIVE = "_native.cpython-311-x86_64-linux-gnu.so"
INIT = (ElfSymbol("PyInit__native"),)


@pytest.mark.slow
@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or platform.machine() != "x86_64",
    reason="ld.so of glibc on x86_64 is asked",
)
@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_links_are_followed_as_ld_so_follows_them(tmp_path: Path, suffix: Any) -> None:
    native = build_elf(
        exports=INIT, needed=("libdemo.so.1", "libc.so.6"), runpath="$ORIGIN/../../.."
    )
    deep = build_elf(soname="libdeep.so.2", needed=("libc.so.6",))
    demo = build_elf(soname="libdemo.so.1", needed=("libdeep.so.2",), runpath="$ORIGIN/../lib64")
    members: dict[str, bytes | str | TarMember] = {
        f"{SITE}/demo/{NATIVE}": TarMember(content=native, mode=0o755),
        "lib/libdemo.so.1.2": TarMember(content=demo, mode=0o755),
        "lib/libdemo.so.1": TarMember(kind=b"2", target="libdemo.so.1.2"),
        "lib64": TarMember(kind=b"2", target="lib/deep"),
        "lib/deep/libdeep.so.2": TarMember(content=deep, mode=0o755),
    }
    package = build_conda(tmp_path, members=members, suffix=suffix)
    found = compare_package(Path(sys.executable), package)
    assert "\n".join(found.differences) == ""
    assert (found.roots, found.mapped) == (1, 2)


def problems(path: Path) -> dict[str, list[str]]:
    """By check: what is wrong, without the name of the claim, which differs."""
    with examine(path) as examination:
        verdicts = list(judge(examination))
    return {
        each.check: [f"{p.path}: {p.sentence.partition(', which')[0]}" for p in each.problems]
        for each in verdicts
        if each.problems
    }


@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_a_wheel_and_the_conda_package_made_of_it_have_the_same_problems(
    tmp_path: Path, suffix: str
) -> None:
    native = build_elf(
        exports=INIT,
        needed=("libgone.so.1", "libc.so.6"),
        runpath="/tmp/build/lib:$ORIGIN/../demo.libs",
        stack="rwx",
    )
    members = {"demo/__init__.py": "", f"demo/{NATIVE}": native, "demo.libs/x.so": native[:200]}
    wheel = build_wheel(tmp_path, members=members)
    found = problems(make(wheel, tmp_path, suffix)[0])
    assert found == problems(wheel)
    assert {"absolute-search-path", "executable-stack", "malformed-object"} <= found.keys()


@pytest.mark.network
def test_real_packages_are_healthy_and_both_formats_say_the_same(tmp_path: Path) -> None:
    packages = list(fetch(tmp_path))
    assert len(packages) == 4
    assert [problems(path) for path in packages] == [{}] * 4
