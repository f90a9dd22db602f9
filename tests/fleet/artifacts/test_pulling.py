"""Pulling artifacts: complete, verified by their hashes, and only into the folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, StoreError
from binary_checks.fleet.artifacts import (
    Artifact,
    hash_record,
    keep_artifact,
    pull,
    read_artifact,
    write_artifact,
)
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError
from binary_checks.fleet.store import Store
from tests.fleet.artifacts.made_artifacts import WHEEL, make_artifact


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pulled"


def keep(store: Store, folder: Path, name: str = WHEEL, license: bytes = b"as is") -> Artifact:  # noqa: A002
    beside = {"licenses/LICENSE": license, "dependencies/libbar.so.1": b"library"}
    artifact, incoming = make_artifact(folder, name.encode(), name, companions=beside)
    keep_artifact(store, artifact, incoming)
    return artifact


def listed(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_all_that_belongs_to_it_is_pulled(store: Store, tmp_path: Path, folder: Path) -> None:
    artifact = keep(store, tmp_path)
    written, record = pull(store, [artifact], folder), write_artifact(artifact)
    assert listed(folder) == {
        WHEEL: WHEEL.encode(),
        f"{WHEEL}.meta": record,
        "licenses/LICENSE": b"as is",
        "dependencies/libbar.so.1": b"library",
    }
    assert sorted(written) == sorted(listed(folder))
    assert read_artifact(record, "it") == artifact
    assert hashlib.sha256(record).hexdigest() == hash_record(artifact)  # as verdicts state it


def test_what_is_there_stays_and_what_is_missing_is_fetched(
    folder_store: Store, tmp_path: Path, folder: Path
) -> None:
    artifact = keep(folder_store, tmp_path)
    pull(folder_store, [artifact], folder)
    before = listed(folder)
    assert pull(folder_store, [artifact], folder) == []
    (folder / WHEEL).unlink()
    assert pull(folder_store, [artifact], folder) == [WHEEL]
    assert listed(folder) == before


@pytest.mark.parametrize("there", [WHEEL, f"{WHEEL}.meta", "licenses/LICENSE"])
def test_other_bytes_are_not_overwritten_and_nothing_is_written(
    folder_store: Store, tmp_path: Path, folder: Path, there: str
) -> None:
    artifact = keep(folder_store, tmp_path)
    (folder / there).parent.mkdir(parents=True)
    (folder / there).write_bytes(b"mine")
    with pytest.raises(ArtifactRefusedError, match="another file exists there"):
        pull(folder_store, [artifact], folder)
    assert listed(folder) == {there: b"mine"}


@pytest.mark.parametrize("which", ["file", "companion"])
def test_a_store_that_was_tampered_with_or_lost_a_file_is_refused_and_nothing_half_stays(
    store: Store, tmp_path: Path, folder: Path, which: str
) -> None:
    artifact = keep(store, tmp_path)
    companion = artifact.name_companion(artifact.companions[0])
    name = artifact.object_name if which == "file" else companion
    store.delete(name)
    with pytest.raises(StoreError, match="missing"):
        pull(store, [artifact], folder)
    if which == "file":
        assert listed(folder) == {}
    store.create(name, b"tampered")
    with pytest.raises(StoreError, match="its bytes do not match its name") as told:
        pull(store, [artifact], folder)
    assert name in str(told.value)
    assert b"tampered" not in listed(folder).values()
    assert not list(folder.rglob("*.part"))


def test_a_link_leads_nowhere(folder_store: Store, tmp_path: Path, folder: Path) -> None:
    artifact = keep(folder_store, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    folder.mkdir()
    (folder / "licenses").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactRefusedError, match="leads out of the folder"):
        pull(folder_store, [artifact], folder)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (folder / "licenses").unlink()
    (tmp_path / "mine").write_bytes(WHEEL.encode())
    (folder / WHEEL).symlink_to(tmp_path / "mine")
    with pytest.raises(ArtifactRefusedError, match="another file exists there"):
        pull(folder_store, [artifact], folder)


def test_several_share_what_is_equal_and_clash_over_what_is_not(
    folder_store: Store, tmp_path: Path, folder: Path
) -> None:
    first = keep(folder_store, tmp_path, "a-1.0-py3-none-any.whl")
    alike = keep(folder_store, tmp_path, "b-1.0-py3-none-any.whl")
    other = keep(folder_store, tmp_path, "c-1.0-py3-none-any.whl", license=b"another")
    with pytest.raises(ArtifactRefusedError, match="into separate folders"):
        pull(folder_store, [first, other], folder)
    assert not folder.exists()
    assert len(pull(folder_store, [first, alike], folder)) == 6


def test_a_folder_that_cannot_be_written_is_one_line(folder_store: Store, tmp_path: Path) -> None:
    artifact = keep(folder_store, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(GatherError, match="cannot be written: File exists"):
        pull(folder_store, [artifact], tmp_path / "file")


def test_no_more_is_fetched_than_the_document_says(
    folder_store: Store, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = keep(folder_store, tmp_path)
    sent = []

    def pieces(_: str) -> Iterator[bytes]:  # of a server that never ends
        while True:
            sent.append(1)
            yield b"x" * 64

    monkeypatch.setattr(folder_store, "pieces", pieces)
    with pytest.raises(StoreError, match="its bytes do not match its name"):
        pull(folder_store, [artifact], folder)
    assert len(sent) == 1
    assert listed(folder) == {}
