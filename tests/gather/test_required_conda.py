"""What a conda package requires comes from its channels, for its own platform, and is only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import GivenPackages, Linkage
from fixtures.build_conda import build_conda
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.conda.channel import index

pytest.importorskip("rattler", reason="no py-rattler, which solves and links")
pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")

SUBDIR = "linux-64"
NATIVE = "lib/python3.11/site-packages/demo/_native.cpython-311-x86_64-linux-gnu.so"
DEPENDS = ["__glibc >=2.17", "libx >=1", "python >=3.11,<3.12.0a0"]


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    folder = tmp_path / "channel"
    library = {"lib/libx.so.1": build_elf(soname="libx.so.1", needed=("libc.so.6",))}
    build_conda(folder / SUBDIR, name="libx", members=library, depends=["__glibc >=2.28"])
    build_conda(folder / SUBDIR, name="python", version="3.11.7", build="0", depends=[])
    return index(folder)


def build(folder: Path, **changes: list[str]) -> Path:
    init = (ElfSymbol("PyInit__native"),)
    native = build_elf(exports=init, needed=("libx.so.1", "libc.so.6"), runpath="$ORIGIN/../../..")
    return build_conda(folder, members={NATIVE: native}, **{"depends": DEPENDS, **changes})  # type: ignore[arg-type]


def test_a_library_of_the_channel_is_found(tmp_path: Path, channel: Path) -> None:
    package = build(tmp_path)
    with examine(package, channels=[str(channel)], downloads=True) as examination:
        edges = {edge.needed: edge.resolved for edge in examination.get(Linkage).edges}
        given = examination.get(GivenPackages).packages
    assert edges["libx.so.1"] == "wheel:libx:lib/libx.so.1"
    assert {each.name for each in given} == {"libx", "python"}


def test_without_being_asked_nothing_is_fetched(tmp_path: Path, channel: Path) -> None:
    with examine(build(tmp_path), channels=[str(channel)]) as examination:
        (_, edge) = examination.get(Linkage).edges
    assert (edge.resolved, edge.may_come_with) == (None, ("libx",))


@pytest.mark.slow
def test_what_no_channel_has_leaves_the_linkage_open(tmp_path: Path, channel: Path) -> None:
    package = build(tmp_path, depends=["absent >=2"])
    with (
        examine(package, channels=[str(channel)], downloads=True) as examination,
        pytest.raises(Unavailable, match=r"its requirements cannot be satisfied: .*absent >=2"),
    ):
        examination.get(Linkage)


@pytest.mark.slow
def test_a_channel_that_breaks_is_nobodys_fault(tmp_path: Path, channel: Path) -> None:
    (channel / SUBDIR / "repodata.json").write_text("<html>", encoding="utf-8")
    with (
        examine(build(tmp_path), channels=[str(channel)], downloads=True) as examination,
        pytest.raises(GatherError, match="requirements: "),
    ):
        examination.get(Linkage)
