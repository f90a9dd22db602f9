"""An OCI image that is pinned gives its file system; nothing of it is started."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.errors import Unavailable
from binary_checks.model.root_filesystem import RootFilesystem
from binary_checks.places.images import ImageSettings, find_image
from fixtures.root_streams import Entry, elf_head, file, stream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="roots are Linux's")
DIGEST = "a" * 64
LOADER = file("lib64/ld-linux-x86-64.so.2", elf_head(bits=64, machine=62))
LIBC = file("lib64/libc.so.6", b"GNU C Library (Debian) stable release version 2.31.\n")


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are looked for."""
    folder = tmp_path / "engines"
    folder.mkdir()
    for name in ("sh", "cat", "echo"):
        (folder / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return folder


def stand_in(engines: Path, name: str, *entries: Entry, fails: str = "") -> None:
    """An engine that notes what it is asked, and fails at one of its subcommands."""
    (engines / "stream").write_bytes(stream(entries).getvalue())
    path = engines / name
    path.write_text(
        f"#!{engines}/sh\necho {name} $* >> {engines}/asked\n"
        f'[ "$1" = "{fails}" ] && echo "it cannot $1" >&2 && exit 125\n'
        f'case "$1" in\n  image) exit 1;;\n  create) echo c0ffee;;\n'
        f"  export) cat {engines}/stream;;\nesac\n",
        encoding="utf-8",
    )
    path.chmod(0o755)


def find(tmp_path: Path) -> RootFilesystem:
    path = tmp_path / "images.toml"
    path.write_text(f'[images.ours]\noci = "example.org/x@sha256:{DIGEST}"\n', encoding="utf-8")
    return find_image("ours", ImageSettings(file=path, cache=tmp_path / "cache", timeout=20))


def asked(engines: Path) -> list[str]:
    return (engines / "asked").read_text(encoding="utf-8").splitlines()


def test_an_image_is_pulled_by_its_digest_exported_once_and_never_started(
    engines: Path, tmp_path: Path
) -> None:
    stand_in(engines, "podman", LOADER, LIBC)
    assert find(tmp_path) == find(tmp_path)
    assert find(tmp_path).libc == "glibc 2.31"
    reference = f"example.org/x@sha256:{DIGEST}"
    assert asked(engines) == [
        f"podman image inspect --format {{{{.Id}}}} {reference}",
        f"podman pull --quiet {reference}",
        f"podman create --network none {reference} /nothing",
        "podman export c0ffee",
        "podman rm --force c0ffee",
    ]


def test_where_one_engine_fails_the_other_is_asked(engines: Path, tmp_path: Path) -> None:
    stand_in(engines, "podman", fails="create")
    stand_in(engines, "docker", LOADER, LIBC)
    assert find(tmp_path).architecture == "x86_64"
    assert asked(engines)[-1] == "docker rm --force c0ffee"


@pytest.mark.parametrize("step", ["pull", "create", "export"])
def test_what_an_engine_cannot_do_is_said_and_nothing_is_left(
    engines: Path, tmp_path: Path, step: str
) -> None:
    stand_in(engines, "podman", LOADER, LIBC, fails=step)
    with pytest.raises(Unavailable, match="image:ours: podman: ") as caught:
        find(tmp_path)
    assert step in str(caught.value) or "cannot be read" in str(caught.value)
    left = [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]
    assert left == []
    created = any("podman create" in line for line in asked(engines)) and step != "create"
    assert created == (asked(engines)[-1] == "podman rm --force c0ffee")


def test_an_image_that_is_no_linux_is_said(engines: Path, tmp_path: Path) -> None:
    stand_in(engines, "podman", file("Windows/System32/kernel32.dll"))
    with pytest.raises(Unavailable, match="it has no dynamic loader"):
        find(tmp_path)


def test_without_an_engine_it_is_said_what_to_install(engines: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no podman and no docker here; install podman"):
        find(tmp_path)


@pytest.mark.slow
@pytest.mark.network
def test_a_real_engine_gives_the_very_tree_that_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a Debian root, for no registry is asked."""
    if not shutil.which("podman"):
        pytest.skip("there is no podman here; install podman")
    store = tmp_path / "store"
    settings = tmp_path / "storage.conf"
    text = f'[storage]\ndriver = "vfs"\nrunroot = "{store}/run"\ngraphroot = "{store}/graph"\n'
    settings.write_text(text, encoding="utf-8")
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(settings))
    try:
        root = find_image("bullseye")
    except Unavailable as error:
        pytest.skip(str(error))
    archive, name = tmp_path / "root.tar", "localhost/binary-checks-test:1"
    subprocess.run(["tar", "-C", root.path, "-cf", archive, "."], check=True)
    imported = subprocess.run(
        ["podman", "import", "--quiet", archive, name], capture_output=True, text=True, check=False
    )
    if imported.returncode:
        pytest.skip(f"podman keeps no image here: {imported.stderr.strip()}")
    shown = ("podman", "image", "inspect", "--format", "{{.Digest}}", name)
    digest = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.strip()
    own = tmp_path / "images.toml"
    reference = f"{name.removesuffix(':1')}@{digest}"
    own.write_text(f'[images.ours]\noci = "{reference}"\n', encoding="utf-8")
    found = find_image("ours", ImageSettings(file=own, cache=tmp_path / "cache"))
    assert found.digest == root.digest
    left = subprocess.run(["podman", "ps", "--all", "--quiet"], capture_output=True, check=True)
    assert left.stdout == b""
