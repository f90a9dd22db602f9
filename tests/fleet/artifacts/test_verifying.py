"""A second host verifies a repository from the store alone: one line for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.command.actions import ARTIFACT
from binary_checks.errors import StoreError
from binary_checks.fleet.artifacts import (
    Artifact,
    join_channel,
    keep_artifact,
    read_scope,
    verify,
    write_index,
)
from binary_checks.fleet.store import (
    Store,
    artifact_name,
    file_prefix,
    open_store,
    withdrawn_name,
)
from fixtures.build_conda import build_conda
from fixtures.build_wheel import build_wheel
from fixtures.fleet.object_store import BUCKET, ObjectStore
from tests.fleet.artifacts.made_artifacts import make_artifact
from tests.fleet.artifacts.publishing import publish

WRONG = ": its bytes do not match its name"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return build_wheel(tmp_path / "dist", tags=("py3-none-any",))


@pytest.fixture
def kept(folder_store: Store, wheel: Path, tmp_path: Path) -> Store:
    """A store with a wheel, a conda package and a library with its license, in one channel."""
    publish(folder_store, "release", wheel, build_conda(tmp_path / "linux-64"))
    library, incoming = make_artifact(
        tmp_path, b"ELF", "libfoo.so.1", {"licenses/MIT": b"as is"}, kind="library", project="foo"
    )
    keep_artifact(folder_store, library, incoming)
    join_channel(folder_store, "release", library)
    write_index(folder_store, "release")
    return folder_store


def find(store: Store, *channels: str) -> list[str]:
    return [f"{each.about}: {each.text}" for each in verify(read_scope(store, channels))]


def artifacts_of(store: Store) -> dict[str, Artifact]:
    return {each.kind: each for each in read_scope(store, []).artifacts.values()}


def put(store: Store, name: str, content: bytes | None) -> None:
    """Change what is never changed, as somebody does who has the keys."""
    store.delete(name)
    if content is not None:
        store.create(name, content)


def test_a_repository_that_is_sound_has_no_fault(
    kept: Store, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find(kept) == find(kept, "release") == []
    publish(kept, "test", wheel)
    assert ARTIFACT.run(["verify", "--store", kept.url]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{kept.url}: verified 3 files, ")
    channels = "channels: release (3 members), test (1 member, without an index)"
    assert f"; {channels}; the store's own gates; --policy FILE" in line


def test_an_artifact_in_no_channel_is_verified_too(kept: Store, tmp_path: Path) -> None:
    other = build_wheel(tmp_path / "dist", name="other", tags=("py3-none-any",))
    (artifact,) = publish(kept, "", other)
    put(kept, artifact.object_name, b"other bytes")
    assert find(kept, "release") == []
    (fault,) = find(kept)
    assert fault.startswith(f"{artifact.file_name}: {kept.url}: ")
    assert fault.endswith(WRONG)


def test_bytes_that_changed_are_found(kept: Store, wheel: Path) -> None:
    found = artifacts_of(kept)
    for each in found.values():
        name = each.object_name
        content = bytearray(kept.read(name) or b"")
        content[len(content) // 2] ^= 1
        put(kept, name, bytes(content))
    faults = find(kept, "release")
    for each in found.values():
        assert any(f.startswith(f"{each.label}: ") and f.endswith(WRONG) for f in faults)


def test_a_package_beside_its_index_with_other_bytes_is_found(kept: Store) -> None:
    name = next(each.name for each in kept.names("conda/") if each.name.endswith(".conda"))
    content = bytearray(kept.read(name) or b"")
    content[50] ^= 1
    kept.replace(name, bytes(content))
    (fault,) = find(kept)
    assert fault == f"release: {kept.url}: {name}{WRONG}"


@pytest.mark.parametrize(("content", "said"), [(b"not as it was", WRONG), (None, ": missing")])
def test_metadata_or_a_license_that_is_another_one_or_gone_is_found(
    kept: Store, content: bytes | None, said: str
) -> None:
    wheel, library = artifacts_of(kept)["wheel"], artifacts_of(kept)["library"]
    (beside,) = library.companions
    names = {library.label: library.name_companion(beside), wheel.label: wheel.metadata_name}
    for name in names.values():
        put(kept, name, content)
    expected = [f"{label}: {kept.url}: {name}{said}" for label, name in names.items()]
    assert sorted(find(kept)) == sorted(expected)


def test_a_document_or_a_member_without_end_is_named_and_never_read(kept: Store) -> None:
    wheel = artifacts_of(kept)["wheel"]
    put(kept, artifact_name(wheel.sha256), b" " * (17 << 20))
    kept.create("channels/release/demo/demo-9.0-py3-none-any.whl", b"0" * 2000)
    faults = find(kept, "release")
    assert sum("larger than 16777216 bytes" in each for each in faults) == 1
    assert sum("larger than 1024 bytes" in each for each in faults) == 1
    put(kept, artifact_name(wheel.sha256), None)
    assert any("nothing is known about it" in each for each in find(kept))


def test_an_index_that_is_not_that_of_its_members_is_found(kept: Store, tmp_path: Path) -> None:
    kept.replace("simple/release/demo/index.html", b'<a href="https://evil/demo-1.0.whl">x</a>')
    kept.replace("simple/release/evil/index.html", b"")
    (fault,) = find(kept)
    assert fault == (
        "release: its index does not match its members (run `binary-checks artifact index`): "
        "simple/release/demo/index.html, simple/release/evil/index.html"
    )
    write_index(kept, "release")
    assert find(kept) == []


def test_a_push_meanwhile_is_no_fault(kept: Store, tmp_path: Path) -> None:
    scope = read_scope(kept, ["release"])
    publish(kept, "release", build_wheel(tmp_path / "dist", name="later", tags=("py3-none-any",)))
    write_index(kept, "release")
    assert [each.text for each in verify(scope)] == []


def test_a_push_that_did_not_end_is_no_fault(kept: Store) -> None:
    kept.create(f"{file_prefix('demo', 'a' * 64)}demo-2.0-py3-none-any.whl", b"half")
    assert find(kept) == []


def test_what_cannot_be_read_never_passes(
    kept: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    true_pieces = type(kept).pieces

    def pieces(self: Store, name: str) -> Iterator[bytes]:
        if name.endswith(".whl"):
            raise StoreError(f"{self.url}: {name}: cannot be read: the server answers 500")
        return true_pieces(self, name)  # type: ignore[arg-type]

    monkeypatch.setattr(type(kept), "pieces", pieces)
    assert ARTIFACT.run(["verify", "--store", kept.url]) == 6
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("not verified: demo-1.0-py3-none-any.whl: ")
    assert lines[-1] == "0 faults, 1 not verified"


def test_a_withdrawal_that_is_broken_is_a_fault(
    kept: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = artifacts_of(kept)["wheel"]
    kept.create(withdrawn_name("release", "demo", wheel.sha256), b"{")
    assert ARTIFACT.run(["verify", "--store", kept.url]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{kept.url}: withdrawn/release/demo/{wheel.sha256}.json: ")
    assert lines[1] == "1 fault; nothing else was verified"


def test_each_fault_is_a_line_and_the_status_is_1(
    kept: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in artifacts_of(kept).values():
        put(kept, each.object_name, None)
    assert ARTIFACT.run(["verify", "--store", kept.url, "--channel", "release"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.endswith(": missing") for line in lines) == 3
    assert lines[-1].endswith(" faults, 0 not verified")


def test_a_channel_that_there_is_not_or_a_store_without_artifacts_is_misuse(
    kept: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ARTIFACT.run(["verify", "--store", kept.url, "--channel", "relaese"]) == 4
    assert "no channel relaese (known: release)" in capsys.readouterr().err
    empty = open_store(str(tmp_path / "empty"), make=True)
    assert ARTIFACT.run(["verify", "--store", empty.url]) == 4
    assert "it contains neither artifacts nor channels" in capsys.readouterr().err


def test_a_host_that_may_only_read_verifies_and_is_told_that_it_may_not_write(
    server: ObjectStore,
    wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def be(who: str) -> None:
        for name, value in server.environment(who).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / who))

    url = f"s3://{BUCKET}/{tmp_path.name}"
    be("writer")
    store = open_store(url, make=True)
    publish(store, "release", wheel)
    write_index(store, "release")
    be("reader")
    assert ARTIFACT.run(["verify", "--store", url]) == 0
    assert ARTIFACT.run(["index", "--store", url]) == 0  # it is right: there is nothing to write
    be("writer")
    publish(store, "release", build_wheel(tmp_path / "dist", version="2.0", tags=("py3-none-any",)))
    be("reader")
    assert ARTIFACT.run(["index", "--store", url]) == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be written: the server answers 403" in line
    assert ARTIFACT.run(["verify", "--store", url]) == 1


def test_bytes_without_end_are_not_fetched(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def pieces(_: str) -> Iterator[bytes]:  # of a server that never ends
        while True:
            sent.append(1)
            yield b"x" * 65536

    monkeypatch.setattr(kept, "pieces", pieces)
    faults = find(kept, "release")
    names = {each.label for each in artifacts_of(kept).values()}
    assert {fault.partition(": ")[0] for fault in faults if fault.endswith(WRONG)} >= names
    assert len(sent) < 300  # up to 16 MiB of METADATA
