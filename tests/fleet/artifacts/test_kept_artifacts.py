"""Artifacts are stored once and completely; a channel has one file of a name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.artifacts import (
    find_artifact,
    join_channel,
    keep_artifact,
    list_artifacts,
    list_channels,
    list_members,
)
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError
from binary_checks.fleet.store import Store, artifact_name
from tests.fleet.artifacts.made_artifacts import WHEEL, make_artifact


def names(store: Store) -> list[str]:
    return [each.name for prefix in ("files/", "packages/") for each in store.names(prefix)]


def test_an_artifact_is_found_with_all_that_belongs_to_it(store: Store, tmp_path: Path) -> None:
    artifact, incoming = make_artifact(tmp_path, companions={"licenses/MIT": b"as is"})
    assert keep_artifact(store, artifact, replace(incoming, metadata=b"Name: demo\n"))
    assert find_artifact(store, artifact.sha256) == artifact
    assert store.read(artifact.object_name) == b"the bytes"
    (beside,) = artifact.companions
    assert store.read(artifact.name_companion(beside)) == b"as is"
    assert store.read(f"{artifact.object_name}.metadata") == b"Name: demo\n"
    assert list(list_artifacts(store)) == [artifact]


def test_the_same_bytes_are_kept_once(store: Store, tmp_path: Path) -> None:
    artifact, incoming = make_artifact(tmp_path)
    assert keep_artifact(store, artifact, incoming)
    before = names(store)
    assert not keep_artifact(store, replace(artifact, pushed="later", commit="d" * 40), incoming)
    assert names(store) == before
    assert find_artifact(store, artifact.sha256) == artifact


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_push_that_was_killed_leaves_nothing_that_counts_and_the_next_ends_it(
    folder_store: Store, tmp_path: Path, done: int
) -> None:
    artifact, incoming = make_artifact(tmp_path, companions={"licenses/MIT": b"as is"})
    keep_artifact(folder_store, artifact, replace(incoming, metadata=b"Name: demo\n"))
    written = sorted(names(folder_store), key=lambda name: name.endswith("artifact.json"))
    for name in written[done:]:
        folder_store.delete(name)
    assert find_artifact(folder_store, artifact.sha256) is None
    assert list(list_artifacts(folder_store)) == []
    assert keep_artifact(folder_store, artifact, replace(incoming, metadata=b"Name: demo\n"))
    assert sorted(names(folder_store)) == sorted(written)


def test_bytes_that_lie_where_others_should_are_refused(
    folder_store: Store, tmp_path: Path
) -> None:
    artifact, incoming = make_artifact(tmp_path)
    folder_store.create(artifact.object_name, b"other bytes")
    with pytest.raises(StoreError, match="its bytes do not match its name"):
        keep_artifact(folder_store, artifact, incoming)
    assert find_artifact(folder_store, artifact.sha256) is None


@pytest.mark.parametrize("times", ["new", "put back"])
def test_a_file_that_changes_while_it_is_pushed_leaves_nothing(
    folder_store: Store, tmp_path: Path, times: str
) -> None:
    artifact, incoming = make_artifact(tmp_path, b"the bytes")
    path = incoming.file.path
    before = path.stat()
    path.write_bytes(b"rebuilt meanwhile" if times == "new" else b"BAD bytes")
    if times == "put back":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(StoreError, match=f"{WHEEL}: it changed while it was pushed"):
        keep_artifact(folder_store, artifact, incoming)
    assert names(folder_store) == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"variant": "cu130"}, "with variant cu126, but this push states cu130"),
        ({"name": "other.whl"}, f"with file_name {WHEEL}, but this push states other.whl"),
        ({"linked": "static"}, "without linked, but this push states static"),
        ({"cxx_abi": "cxx11"}, "without cxx_abi, but this push states cxx11"),
        ({"companions": {"licenses/MIT": b"now"}}, "without this licenses/MIT"),
    ],
)
def test_the_same_bytes_as_something_else_are_refused_naming_both(
    folder_store: Store, tmp_path: Path, said: dict[str, str], reason: str
) -> None:
    first, incoming = make_artifact(tmp_path, variant="cu126")
    keep_artifact(folder_store, first, incoming)
    again, incoming = make_artifact(tmp_path, **{"variant": "cu126", **said})
    with pytest.raises(ArtifactRefusedError) as refused:
        keep_artifact(folder_store, again, incoming)
    assert reason in str(refused.value)


@pytest.mark.parametrize("name", ["with", "a b.whl", ".whl"])
def test_a_name_that_no_store_can_have_is_refused_before_anything_is_written(
    folder_store: Store, tmp_path: Path, name: str
) -> None:
    artifact, incoming = make_artifact(tmp_path, name=name)
    with pytest.raises(ProfileError, match="file_name"):
        keep_artifact(folder_store, artifact, incoming)
    assert names(folder_store) == []


def test_a_broken_document_is_a_line_where_others_are_listed(
    folder_store: Store, tmp_path: Path
) -> None:
    artifact, incoming = make_artifact(tmp_path)
    keep_artifact(folder_store, artifact, incoming)
    folder_store.create(artifact_name("f" * 64), b"{")
    broken: list[str] = []
    assert list(list_artifacts(folder_store, broken=broken)) == [artifact]
    assert [line.endswith("not JSON at line 1: Expecting property name enclosed in double quotes")
            for line in broken] == [True]  # fmt: skip
    with pytest.raises(RecordError, match="not JSON"):
        list(list_artifacts(folder_store))


def test_a_document_of_other_bytes_is_no_artifact(folder_store: Store, tmp_path: Path) -> None:
    artifact, incoming = make_artifact(tmp_path)
    keep_artifact(folder_store, artifact, incoming)
    content = folder_store.read(artifact_name(artifact.sha256)) or b""
    folder_store.create(artifact_name("f" * 64), content)
    with pytest.raises(RecordError, match=f"its document is for {artifact.sha256}"):
        find_artifact(folder_store, "f" * 64)


def test_a_channel_has_what_joined_it(store: Store, tmp_path: Path) -> None:
    artifact, _ = make_artifact(tmp_path)
    assert join_channel(store, "test", artifact)
    assert not join_channel(store, "test", artifact)
    assert join_channel(store, "release", artifact)
    assert list_channels(store) == ["release", "test"]
    (member,) = list_members(store, "test")
    assert (member.channel, member.project, member.file_name, member.sha256) == (
        "test",
        "demo",
        WHEEL,
        artifact.sha256,
    )
    assert len(list_members(store)) == 2


def test_other_bytes_under_a_name_are_refused_within_a_channel(
    store: Store, tmp_path: Path
) -> None:
    first, _ = make_artifact(tmp_path)
    join_channel(store, "test", first)
    other, _ = make_artifact(tmp_path, content=b"rebuilt")
    with pytest.raises(ArtifactRefusedError) as refused:
        join_channel(store, "test", other)
    assert f"other bytes under that name: sha256 {first.sha256}" in str(refused.value)
    assert other.sha256 in str(refused.value)
    assert join_channel(store, "nightly", other)


def test_a_member_that_says_nothing_is_an_error_and_not_nothing(folder_store: Store) -> None:
    folder_store.create("channels/test/demo/a.whl", b"")
    with pytest.raises(RecordError, match="it does not state the SHA-256 of its package"):
        list_members(folder_store, "test")


@pytest.mark.parametrize("channel", ["", "a/b", "..", ".hidden", "a b"])
def test_a_channel_has_a_name_that_a_store_can_have(
    folder_store: Store, tmp_path: Path, channel: str
) -> None:
    artifact, _ = make_artifact(tmp_path)
    with pytest.raises(ProfileError, match="not a name for a channel"):
        join_channel(folder_store, channel, artifact)


def test_a_name_of_other_case_is_the_same_name(folder_store: Store, tmp_path: Path) -> None:
    artifact, _ = make_artifact(tmp_path)
    join_channel(folder_store, "test", artifact)
    other = replace(artifact, sha256="d" * 64, file_name=artifact.file_name.title())
    with pytest.raises(
        ArtifactRefusedError, match=f"has {WHEEL}, which installers and some file systems take"
    ):
        join_channel(folder_store, "test", other)
    assert len(list_members(folder_store)) == 1


def test_conda_packages_of_one_name_are_one_in_each_subdir(
    folder_store: Store, tmp_path: Path
) -> None:
    name = "demo-1.0-0.conda"
    made = [
        make_artifact(tmp_path, content=each.encode(), name=name, kind="conda", subdir=each)[0]
        for each in ("linux-64", "osx-arm64")
    ]
    assert [join_channel(folder_store, "test", each) for each in made] == [True, True]
    assert [(each.folder, each.sha256) for each in list_members(folder_store)] == [
        (f"demo/{each.subdir}", each.sha256) for each in made
    ]
