"""Ten builds of one library, libmxnet.so, in one store: found and pulled by what they are."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from binary_checks.command.actions import ARTIFACT
from binary_checks.documents.json_values import DocumentError
from binary_checks.fleet.artifacts import (
    Artifact,
    join_channel,
    list_artifacts,
    list_members,
    list_withdrawn,
)
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError, require_sound
from binary_checks.fleet.store import is_safe_part, member_name, open_store
from fixtures.build_elf import build_elf
from tests.fleet.artifacts.release_desk import GOOD, Desk

NAME = "libmxnet.so"
MUSL = "libc.musl-x86_64.so.1"
COMMIT = "c" * 40


@dataclass(frozen=True)
class Build:
    """A build, with the conditions that a user may state to get it."""

    where: str
    needed: tuple[str, ...] = ()
    static: bool = False  # whether it contains OpenBLAS
    machine: str = "x86_64"
    branch: str = "main"
    said: tuple[str, ...] = ()  # what its bytes do not state

    def make(self) -> bytes:
        text = b"OpenBLAS 0.3.21 DYNAMIC_ARCH\0" if self.static else b""
        sections = {".rodata": text + self.branch.encode()}
        return build_elf(machine=self.machine, needed=self.needed, read_only=sections)


OPENBLAS, CUDA = "libopenblas.so.0", "libcudart.so.12"
CPU = ("--set", "variant=cpu")
BUILDS = (
    Build("architecture=x86_64 variant=cpu linked=dynamic blas=openblas branch=main system=linux",
          (OPENBLAS,), said=CPU),
    Build("architecture=x86_64 variant=cpu linked=static branch=main", static=True, said=CPU),
    Build("architecture=x86_64 variant=cpu blas=mkl", ("libmkl_rt.so.2",), said=CPU),
    Build("variant=cu12 linked=dynamic", (CUDA, OPENBLAS)),
    Build("variant=cu* linked=static", (CUDA,), static=True),
    Build("architecture=aarch64 linked=dynamic", (OPENBLAS,), machine="aarch64", said=CPU),
    Build("architecture=aarch64 linked=static", static=True, machine="aarch64", said=CPU),
    Build("system=musllinux", (MUSL, OPENBLAS), said=CPU),
    Build("branch=release/* linked=dynamic", (OPENBLAS,), branch="release/1.9", said=CPU),
    Build("branch=release/1.9 linked=static variant=cpu", static=True, branch="release/1.9",
          said=CPU),
)  # fmt: skip


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with all builds, each pushed with a license and a library that it needs."""
    folder = tmp_path_factory.mktemp("builds")
    url = str(folder / "store")
    (folder / "LICENSE").write_text("as is")
    (folder / "libomp.so").write_bytes(build_elf(soname="libomp.so"))
    beside = ["--license", f"{folder}/LICENSE", "--dependency", f"{folder}/libomp.so"]
    for number, build in enumerate(BUILDS):
        path = folder / str(number) / NAME
        path.parent.mkdir()
        path.write_bytes(build.make())
        states = ["--commit", COMMIT, "--branch", build.branch, "--project", "mxnet", *build.said]
        assert ARTIFACT.run(["push", str(path), "--store", url, *states, *beside]) == 0
    return url


def test_each_of_ten_builds_is_pulled_by_what_it_is(kept: str, tmp_path: Path) -> None:
    digests = set[str]()
    for number, build in enumerate(BUILDS):
        out = tmp_path / f"out{number}"
        assert ARTIFACT.run(["pull", str(out), "--store", kept, "--where", build.where]) == 0
        assert (out / NAME).read_bytes() == build.make()
        assert (out / "licenses" / "LICENSE").read_text() == "as is"
        assert (out / "dependencies" / "libomp.so").is_file()
        record = json.loads((out / f"{NAME}.meta").read_text())
        assert (record["branch"], record["commit"]) == (build.branch, COMMIT)
        assert record["evidence"]["branch"] == "--branch"
        assert record["evidence"].keys() >= {"system", "architecture", "variant", "linked", "kind"}
        digests.add(record["sha256"])
    assert digests == {each.sha256 for each in list_artifacts(open_store(kept))}


def test_several_builds_that_fit_are_listed_with_what_differs_and_none_is_pulled(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    where = ["--where", "architecture=x86_64 variant=cpu", "--where", "branch=release/*"]
    capsys.readouterr()
    assert ARTIFACT.run(["pull", str(out), "--store", kept, *where]) == 1
    first, *listed = capsys.readouterr().err.splitlines()
    said = "2 artifacts match; they differ in linked: choose one with --where, or take --all"
    assert first == f"binary-checks: {said}"
    shown = {line.partition(" sha256=")[0] for line in listed}
    assert shown == {f"binary-checks: {NAME}: linked={how}" for how in ("dynamic", "static")}
    assert not out.exists()


def test_a_table_shows_what_each_build_is(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert ARTIFACT.run(["find", "--store", kept, "--where", "variant=cu12"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    shown = [dict(zip(head.split(), row.split(), strict=True)) for row in rows]
    assert {(row["branch"], row["linked"], row["file"]) for row in shown} == {
        ("main", "static", NAME),
        ("main", "dynamic", NAME),
    }


# In a channel, one name stands for one file of each variant.

LINUX = {"system": "linux", "architecture": "x86_64", "branch": "main", "commit": COMMIT}
VARIANTS: tuple[dict[str, str], ...] = (
    *({**LINUX, "variant": each, "linked": how} for each in ("cpu", "cu12")
      for how in ("static", "dynamic")),
    {**LINUX, "variant": "cpu", "linked": "static", "blas": "mkl"},
    {**LINUX, "variant": "cpu", "linked": "static", "branch": "release/1.9"},
    {**LINUX, "variant": "cpu", "linked": "static", "branch": "release.1.9"},
    {**LINUX, "variant": "cpu", "linked": "static", "openmp": "intel"},
    {**LINUX, "variant": "cpu", "linked": "static", "architecture": "aarch64"},
    {**LINUX, "variant": "cpu", "linked": "static", "system": "macos"},
)  # fmt: skip


def fill(desk: Desk) -> list[Artifact]:
    """Push all of them, each with its verdict, into the channel test."""
    return [
        desk.push(str(number), *GOOD, name=NAME, kind="library", project="mxnet", **each)
        for number, each in enumerate(VARIANTS)
    ]


def test_ten_variants_of_one_name_are_in_one_channel_each_for_itself(desk: Desk) -> None:
    made = fill(desk)
    status, said, _ = desk.promote("--where", "project=mxnet")
    assert status == 0
    assert f"{NAME} (1.0,main,linux,x86_64,cpu,static): promoted" in said.splitlines()
    assert said.splitlines()[-1] == "10 promoted"
    assert desk.released() == [NAME] * 10
    kept = {each.sha256 for each in list_members(desk.store, "release")}
    assert kept == {each.sha256 for each in made}
    folders = {name.split("/")[3].partition("~")[0] for name in desk.names("channels/release/")}
    assert {
        "1.0,main,linux,x86_64,cu12,dynamic",
        "1.0,main,linux,x86_64,cpu,intel,static",
    } <= folders
    assert made[0].object_name.startswith("files/mxnet/1.0,main,linux,x86_64,cpu,static~")
    assert made[0].object_name.endswith(f"/{COMMIT[:12]}/{made[0].sha256}/{NAME}")
    assert desk.do("verify")[0] == 0
    other = replace(made[0], sha256="f" * 64, commit="d" * 40)
    with pytest.raises(ArtifactRefusedError, match="has other bytes under that name") as refused:
        join_channel(desk.store, "release", other)
    assert str(refused.value).startswith(f"{NAME} (1.0,main,linux,x86_64,cpu,static): ")
    # One that is changed, or swapped with another, is named.
    desk.store.delete(made[2].object_name)
    desk.store.create(made[2].object_name, b"others")
    status, said, _ = desk.do("verify")
    assert status == 1
    first, *rest = said.splitlines()
    assert first.startswith(f"{NAME} (1.0,main,linux,x86_64,cu12,static): ")
    assert "do not match" in first
    assert rest[-1].startswith("1 fault")
    one, two = (member_name("release", each.folder, NAME) for each in (made[0], made[1]))
    desk.store.delete(one)
    desk.store.create(one, desk.store.read(two) or b"")
    assert (
        "its artifact.json calls it mxnet/1.0,main,linux,x86_64,cpu,dynamic~"
        in desk.do("verify")[1]
    )


def test_one_variant_is_withdrawn_by_its_conditions_or_its_path(desk: Desk) -> None:
    made = fill(desk)
    words = ("withdraw", "--channel", "test", "--reason", "wrong")
    status, said, _ = desk.do(*words, "--where", "linked=dynamic variant=cu12", NAME)
    assert (status, said) == (0, f"{NAME} (1.0,main,linux,x86_64,cu12,dynamic): withdrawn\n")
    assert list_withdrawn(desk.store, "test") == {made[3].sha256: "wrong"}
    path = desk.folder / "own" / NAME
    path.parent.mkdir()
    path.write_bytes(desk.store.read(made[4].object_name) or b"")
    status, said, _ = desk.do(*words, path)
    assert (status, said.count("withdrawn")) == (0, 1)
    assert list_withdrawn(desk.store, "test").keys() == {made[3].sha256, made[4].sha256}


def test_variants_that_differ_never_share_a_folder() -> None:
    folders = {
        Artifact(sha256="a", file_name=NAME, size=1, kind="library", project="x", **each).folder
        for each in (*VARIANTS, {"blas": "mkl"}, {"openmp": "mkl"}, {}, {"branch": "..."})
    }
    assert len(folders) == len(VARIANTS) + 4
    assert all(is_safe_part(part) for each in folders for part in each.split("/"))


def test_a_variant_that_no_store_can_name_is_refused() -> None:
    artifact = Artifact(
        sha256="a" * 64, file_name=NAME, size=1, kind="library", project="x", version="NUL.1"
    )
    with pytest.raises(DocumentError, match="cannot name an object of a store"):
        require_sound(artifact)
