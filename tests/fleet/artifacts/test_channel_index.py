"""A channel's index in its store: right despite concurrent writers, and never incomplete."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from binary_checks.command.actions import ARTIFACT
from binary_checks.errors import StoreError
from binary_checks.fleet.artifacts import (
    find_differences,
    join_channel,
    keep_artifact,
    view_channel,
    write_index,
    write_static,
)
from binary_checks.fleet.store import (
    Store,
    artifact_name,
    member_name,
    open_store,
)
from fixtures.build_conda import build_conda
from tests.fleet.artifacts.made_artifacts import make_artifact
from tests.fleet.artifacts.publishing import publish


def add(store: Store, folder: Path, name: str = "demo", version: str = "1.0") -> str:
    """A member of the channel release; its SHA-256."""
    file_name = f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    content = file_name.encode()
    artifact, incoming = make_artifact(folder, content, file_name, project=name, version=version)
    keep_artifact(store, artifact, incoming)
    join_channel(store, "release", artifact)
    return artifact.sha256


def listed(store: Store, page: str = "simple/release/files.html") -> list[str]:
    """The SHA-256 on a page."""
    text = (store.read(page) or b"").decode()
    return sorted(each[:64] for each in text.split("#sha256=")[1:])


def is_right(store: Store) -> bool:
    return find_differences(store, view_channel(store, "release").derive("release")) == []


def test_an_index_has_the_members_of_its_channel_as_they_come_and_go(
    store: Store, tmp_path: Path
) -> None:
    demo, other = add(store, tmp_path, "demo"), add(store, tmp_path, "other")
    assert write_index(store, "release").written == 7
    assert listed(store) == sorted([demo, other])
    assert [each.name for each in store.names("simple/")] == [
        "simple/release/demo/index.html",
        "simple/release/demo/index.json",
        "simple/release/files.html",
        "simple/release/index.html",
        "simple/release/index.json",
        "simple/release/other/index.html",
        "simple/release/other/index.json",
    ]
    assert is_right(store)
    again = write_index(store, "release")
    assert (again.written, again.removed) == (0, 0)
    newer = add(store, tmp_path, "demo", "2.0")
    assert write_index(store, "release").written == 3  # its two pages, and that of all files
    assert len(listed(store, "simple/release/demo/index.html")) == 2
    store.delete(member_name("release", "other", "other-1.0-py3-none-any.whl"))
    assert write_index(store, "release").removed == 2
    assert listed(store) == sorted([demo, newer])
    assert list(store.names("simple/release/other/")) == []
    assert is_right(store)


def test_a_conda_package_lies_beside_its_index(store: Store, tmp_path: Path) -> None:
    package = build_conda(tmp_path / "linux-64", members={"share/demo": "x"})
    publish(store, "release", package)
    write_index(store, "release")
    copy = f"conda/release/linux-64/{package.name}"
    assert store.read(copy) == package.read_bytes()
    page = json.loads(store.read("conda/release/linux-64/repodata.json") or b"")
    assert list(page["packages.conda"]) == [package.name]
    assert store.read("conda/release/noarch/repodata.json") is not None
    assert write_index(store, "release").written == 0
    assert is_right(store)
    content = bytearray(package.read_bytes())
    content[-1] ^= 1
    store.delete("conda/release/linux-64/repodata.json")
    store.replace(copy, bytes(content))
    write_index(store, "release")
    assert store.read(copy) == package.read_bytes()


def test_sixteen_that_join_and_write_at_once_leave_a_right_index(
    store: Store, url: str, tmp_path: Path
) -> None:
    def join_and_write(number: int) -> str:
        own = open_store(url)
        sha256 = add(own, tmp_path / str(number), f"demo{number % 3}", f"1.{number}")
        write_index(own, "release")
        return sha256

    with ThreadPoolExecutor(16) as pool:
        joined = sorted(pool.map(join_and_write, range(16)))
    assert listed(store) == joined
    assert is_right(store)


def test_lists_are_written_after_the_pages_that_they_lead_to(
    folder_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(folder_store, tmp_path, "demo")
    add(folder_store, tmp_path, "other")
    written, replace = list[str](), folder_store.replace
    monkeypatch.setattr(
        type(folder_store),
        "replace",
        lambda _, name, content: (written.append(name), replace(name, content)),
    )
    write_index(folder_store, "release")
    assert {name.rpartition("/")[0] for name in written[-3:]} == {"simple/release"}


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("at", range(1, 6))
def test_one_who_is_overtaken_at_any_write_leaves_a_right_index(
    folder_store: Store, tmp_path: Path, at: int, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binary_checks.fleet.store._AT_ONCE", 1)
    add(folder_store, tmp_path, "gone")
    write_index(folder_store, "release")
    if leaves:
        folder_store.delete(member_name("release", "gone", "gone-1.0-py3-none-any.whl"))
    add(folder_store, tmp_path, "demo")
    joined = threading.Event()

    def join_and_write() -> None:
        add(folder_store, tmp_path, "gone", "2.0")
        add(folder_store, tmp_path, "later")
        write_index(folder_store, "release")
        joined.set()

    writes = count(1)

    def be_overtaken(write: Callable[..., None]) -> Callable[..., None]:
        def write_later(*words: object) -> None:
            if next(writes) == at:
                join_and_write()
            write(*words)

        return write_later

    for name in ("replace", "delete"):
        monkeypatch.setattr(folder_store, name, be_overtaken(getattr(folder_store, name)))
    write_index(folder_store, "release")
    assert joined.is_set()
    assert len(listed(folder_store)) == 4 - leaves
    assert is_right(folder_store)


def test_what_is_broken_is_named_and_takes_nobody_with_it(
    folder_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = add(folder_store, tmp_path)
    cut = add(folder_store, tmp_path, "cut")
    folder_store.delete(artifact_name(cut))
    folder_store.create(artifact_name(cut), b'{"schema": "binary-checks/arti')
    absent = add(folder_store, tmp_path, "absent")
    folder_store.delete(artifact_name(absent))
    folder_store.create("channels/release/demo/demo-9.0-py3-none-any.whl", b"not a hash\n")
    assert ARTIFACT.run(["index", "--store", folder_store.url, "--channel", "release"]) == 1
    assert listed(folder_store) == [sound]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    for said in ("does not state the SHA-256", "not JSON", "nothing is known about it"):
        assert any(said in line for line in lines), said


def test_a_member_of_a_strange_name_leads_nowhere(
    folder_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha256 = add(folder_store, tmp_path)
    for name in ("demo/linux-64/x.whl", "else/demo-1.0-py3-none-any.whl", "demo/evil.whl"):
        folder_store.create(f"channels/release/{name}", f"{sha256}\n".encode())
    assert ARTIFACT.run(["index", "--store", folder_store.url, "--channel", "release"]) == 1
    assert listed(folder_store) == [sha256]
    assert {each.name.split("/")[2] for each in folder_store.names("simple/release/")} == {
        "demo",
        "files.html",
        "index.html",
        "index.json",
    }
    assert capsys.readouterr().err.count("not listed: its artifact.json calls it") == 3


def test_a_mistyped_channel_is_no_empty_one(
    folder_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(folder_store, tmp_path)
    assert ARTIFACT.run(["index", "--store", folder_store.url, "--channel", "relaese"]) == 4
    assert "no channel relaese (known: release)" in capsys.readouterr().err
    assert list(folder_store.names("simple/")) == []


def test_all_channels_are_written_where_none_is_named(
    folder_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(folder_store, tmp_path)
    publish(folder_store, "test", build_conda(tmp_path / "noarch"))
    assert ARTIFACT.run(["index", "--store", folder_store.url]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{folder_store.url}: channel release: 1 wheel: 5 objects written",
        f"{folder_store.url}: channel test: 0 wheels and 1 conda package: 6 objects written",
    ]


def test_members_that_change_without_end_are_no_hang(
    folder_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(folder_store, tmp_path)
    numbers = count()
    true_replace = type(folder_store).replace

    def replace(self: Store, name: str, content: bytes) -> None:
        true_replace(self, name, content)  # type: ignore[arg-type]
        add(folder_store, tmp_path, "demo", f"2.{next(numbers)}")

    monkeypatch.setattr(type(folder_store), "replace", replace)
    with pytest.raises(StoreError, match="its members kept changing"):
        write_index(folder_store, "release")


def test_a_static_folder_has_the_index_and_the_files_and_nothing_else(
    store: Store, tmp_path: Path
) -> None:
    sha256 = add(store, tmp_path)
    package = build_conda(tmp_path / "linux-64", members={"share/demo": "x"})
    publish(store, "release", package)
    publish(store, "test", build_conda(tmp_path / "noarch", name="secret"))
    before = [each.name for each in store.names("")]
    out = tmp_path / "site"
    write_static(store, ["release"], out)
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    wheel = f"files/demo/{sha256}/demo-1.0-py3-none-any.whl"
    assert found == {
        ".binary-checks-index.json",
        wheel,
        f"conda/release/linux-64/{package.name}",
        "conda/release/linux-64/repodata.json",
        "conda/release/noarch/repodata.json",
        "simple/release/demo/index.html",
        "simple/release/demo/index.json",
        "simple/release/files.html",
        "simple/release/index.html",
        "simple/release/index.json",
    }
    assert (out / wheel).read_bytes() == b"demo-1.0-py3-none-any.whl"
    assert [each.name for each in store.names("")] == before


def test_a_static_folder_with_a_base_leads_to_the_store(
    folder_store: Store, tmp_path: Path
) -> None:
    sha256 = add(folder_store, tmp_path)
    publish(folder_store, "release", build_conda(tmp_path / "noarch", subdir="noarch"))
    out, base = tmp_path / "site", "https://example.org/s"
    options = ["--store", folder_store.url, "--output", str(out)]
    assert ARTIFACT.run(["index", *options, "--base", base]) == 0
    assert not (out / "packages").exists()
    for name in ("demo/index.html", "files.html"):
        page = (out / "simple/release" / name).read_text()
        assert f'href="{base}/files/demo/{sha256}/' in page
    info = json.loads((out / "conda/release/noarch/repodata.json").read_text())["info"]
    assert info["base_url"] == f"{base}/conda/release/noarch/"


def test_a_folder_of_somebody_else_is_left_alone(
    folder_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(folder_store, tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis").write_text("mine")
    assert ARTIFACT.run(["index", "--store", folder_store.url, "--output", str(home)]) == 4
    assert "index: " in (said := capsys.readouterr().err)
    assert "holds 'thesis' already" in said
    assert [each.name for each in home.iterdir()] == ["thesis"]


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("ftp://example.org", "give an http, https or file URL"),
        ("https://user:secret@example.org", "without a query or credentials"),
        ("https://example.org/?token=1", "without a query"),
        ("example.org", "give an http, https or file URL"),
    ],
)
def test_a_base_that_is_none_is_misuse(
    folder_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], base: str, said: str
) -> None:
    options = ["--store", folder_store.url, "--output", str(tmp_path / "site"), "--base", base]
    assert ARTIFACT.run(["index", *options]) == 4
    assert said in (text := capsys.readouterr().err)
    assert "secret" not in text
