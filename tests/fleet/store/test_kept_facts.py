"""Facts of packages, stored once for all nights."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from binary_checks import __version__
from binary_checks.documents.facts import restore, write_facts
from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.store import Store, facts_name, open_store
from binary_checks.fleet.store.kept_facts import (
    find_facts,
    identify_facts,
    keep_facts,
    open_facts,
)
from fixtures.values import wheel

SHA256 = hashlib.sha256(b"a wheel").hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), make=True)


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.json"
    path.write_text("".join(write_facts(wheel(), SHA256, None, symbols=True)))
    return path


def test_facts_are_kept_once_and_read_as_they_were_written(store: Store, facts: Path) -> None:
    assert keep_facts(store, SHA256, facts)
    assert not keep_facts(store, SHA256, facts)
    with open_facts(store, SHA256) as path:
        assert gzip.decompress(path.read_bytes()) == facts.read_bytes()
        assert restore(path) == restore(facts)
    assert [each.name for each in store.names("facts/")] == [facts_name(SHA256)]


def test_the_same_facts_are_the_same_bytes_whenever_they_are_kept(
    store: Store, facts: Path, tmp_path: Path
) -> None:
    keep_facts(store, SHA256, facts)
    other = open_store(str(tmp_path / "other"), make=True)
    renamed = facts.rename(tmp_path / "renamed.json")
    keep_facts(other, SHA256, renamed)
    assert store.read(facts_name(SHA256)) == other.read(facts_name(SHA256))
    copied = open_store(str(tmp_path / "copied"), make=True)
    with open_facts(store, SHA256) as path:
        assert keep_facts(copied, SHA256, path)
    assert store.read(facts_name(SHA256)) == copied.read(facts_name(SHA256))
    assert identify_facts(store, SHA256) == identify_facts(copied, SHA256)


def test_facts_of_another_package_are_refused(store: Store, facts: Path) -> None:
    with pytest.raises(RecordError, match=f"facts.json: facts of {SHA256}, not of {'a' * 64}"):
        keep_facts(store, "a" * 64, facts)
    assert list(store.names("facts/")) == []


@pytest.mark.parametrize(
    "change",
    [
        *(lambda whole, left=left: whole[:left] for left in (0, 1, 50, 400, -2)),
        *(lambda _, text=text: text for text in (b"{}\n", b'{\n"package": 1}\n', b"\xff")),
    ],
)
def test_what_is_cut_off_or_no_document_of_facts_is_refused(
    store: Store, facts: Path, change: Callable[[bytes], bytes]
) -> None:
    facts.write_bytes(change(facts.read_bytes()))
    with pytest.raises(RecordError, match=r"facts\.json: "):
        keep_facts(store, SHA256, facts)
    assert list(store.names("facts/")) == []


def test_there_being_no_facts_is_said(store: Store) -> None:
    assert find_facts(store, SHA256) is None
    with pytest.raises(StoreError, match="the facts are missing"), open_facts(store, SHA256):
        raise AssertionError


@pytest.mark.parametrize("left", [0, 10, -4])
def test_stored_facts_that_are_not_whole_are_said_to_be_that(
    store: Store, facts: Path, left: int
) -> None:
    store.create(facts_name(SHA256), gzip.compress(facts.read_bytes())[: left or None][:-9])
    with pytest.raises(RecordError, match="incomplete, or not gzip"):
        identify_facts(store, SHA256)
    with (
        open_facts(store, SHA256) as path,
        pytest.raises(ProfileError, match="incomplete, or not gzip"),
    ):
        restore(path)


def test_each_version_has_its_own_and_our_own_come_first(store: Store, facts: Path) -> None:
    for version in ("0.0.9", "99.2", "99.10"):
        older = facts.with_name("older.json")
        ours = f"binary-checks {__version__}".encode()
        older.write_bytes(facts.read_bytes().replace(ours, f"binary-checks {version}".encode()))
        assert keep_facts(store, SHA256, older)
    assert find_facts(store, SHA256) == facts_name(SHA256, "99.10")
    assert keep_facts(store, SHA256, facts)
    assert find_facts(store, SHA256) == facts_name(SHA256)


@pytest.mark.parametrize("name", ["facts.json", "facts.json.gz"])
def test_a_document_without_end_is_refused_before_it_is_read(
    store: Store, facts: Path, tmp_path: Path, name: str
) -> None:
    content = facts.read_bytes()
    path = tmp_path / "endless" / name
    path.parent.mkdir()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    os.truncate(path, 1 << 40)  # of zeros, which take no room
    with pytest.raises(RecordError, match=rf"^{name}: larger than 268435456 bytes$"):
        keep_facts(store, SHA256, path)
