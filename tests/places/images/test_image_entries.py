"""Which images there are stands in our file, and in one of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.places.images import image_entries
from binary_checks.places.images.image_entries import ARCHITECTURES, ImageEntry, read_entries

DIGEST = "0" * 64


@pytest.fixture(autouse=True)
def on_x86_64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.delenv(image_entries.VARIABLE, raising=False)


def read_own(tmp_path: Path, text: str) -> dict[str, ImageEntry]:
    path = tmp_path / "images.toml"
    path.write_text(text, encoding="utf-8")
    return read_entries(path)


def test_each_suite_has_a_plain_image_one_with_a_python_and_one_with_a_desktop() -> None:
    entries = read_entries()
    plain, python = entries["bullseye"], entries["bullseye-python"]
    assert (plain.libc, plain.libc_version, plain.python) == ("glibc 2.31", (2, 31), "")
    assert (python.python, python.packages[-1]) == ("3.9", "python3.9")
    assert "libgl1" in entries["bullseye-desktop"].packages
    assert {"libgl1", "python3.9"} <= {*entries["bullseye-desktop-python"].packages}
    assert entries["bullseye-desktop-python"].python == "3.9"
    assert not any(name.startswith(("python", "dpkg", "libgl")) for name in plain.packages)


def test_images_of_other_architectures_are_named_by_them() -> None:
    entries = read_entries()
    foreign = entries["trixie-python-arm64"]
    assert (foreign.architecture, foreign.machine) == ("arm64", "aarch64")
    assert "trixie-amd64" not in entries, "this machine's own is the plain name"


def test_a_system_without_a_python_names_the_same_one_with_it(tmp_path: Path) -> None:
    pinned, more = "[images.pinned]\nbase = 'bullseye'\n", "[images.more]\nbase = 'bullseye'\n"
    entries = read_own(tmp_path, f"{pinned}{more}packages = ['libgomp1']")
    assert entries["bullseye"].with_python == "bullseye-python"
    assert entries["bullseye-desktop"].with_python == "bullseye-desktop-python"
    assert entries["trixie-arm64"].with_python == "trixie-python-arm64"
    assert entries["trixie-python"].with_python == entries["musl"].with_python == ""
    assert entries["pinned"].with_python == "bullseye-python"
    assert entries["more"].with_python == "", "that one lacks what was added"


def test_a_package_has_the_name_that_the_suite_gives_it() -> None:
    entries = read_entries()
    assert "libglib2.0-0" in entries["bookworm-desktop"].packages
    assert "libglib2.0-0t64" in entries["trixie-desktop"].packages


def test_musl_is_its_loader_alone_and_lacks_the_zlib_of_its_policy() -> None:
    entry = read_entries()["musl"]
    assert (entry.suite, entry.packages, entry.lacks) == ("trixie", ("musl",), ("libz.so.1",))
    assert "musl-python" not in read_entries()


def test_a_suite_that_moves_names_no_version() -> None:
    entry = read_entries()["sid"]
    assert entry.moves
    assert entry.libc_version == ()


def test_every_entry_is_for_an_architecture_that_the_model_knows() -> None:
    assert {entry.architecture for entry in read_entries().values()} <= ARCHITECTURES.keys()


def test_an_image_of_the_user_differs_from_another_one(tmp_path: Path) -> None:
    pinned = f"libc6=2.31-13={DIGEST}"
    text = f"""
        [images.ours]
        base = "bullseye-python"
        packages = ["libgomp1"]
        mirror = "https://mirror.example/debian"
        digest = "{DIGEST}"
        pinned = ["{pinned}"]
        [images.more]
        base = "ours"
        packages = ["libssl1.1"]
    """
    entries = read_own(tmp_path, text)
    ours = entries["ours"]
    assert ours.packages[-2:] == ("python3.9", "libgomp1")
    assert (ours.mirror, ours.digest, ours.pinned) == (
        *("https://mirror.example/debian", DIGEST),
        (pinned,),
    )
    assert entries["more"].packages[-2:] == ("libgomp1", "libssl1.1")
    assert "bullseye" in entries


def test_the_variable_names_the_users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[images.ours]\nbase = "trixie"\n', encoding="utf-8")
    monkeypatch.setenv(image_entries.VARIABLE, str(path))
    assert read_entries()["ours"].suite == "trixie"


def test_an_image_of_a_registry_is_pinned_by_its_digest(tmp_path: Path) -> None:
    reference = f"docker.io/library/python@sha256:{DIGEST}"
    assert read_own(tmp_path, f'[images.x]\noci = "{reference}"')["x"].oci == reference


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[images.x]\nbase = 'bulseye'", "unknown image 'bulseye'; did you mean 'bullseye'?"),
        ("[images.x]\noci = 'python:3.13'", "has no digest .* is never pulled"),
        ("[images.x]\noci = '--help@sha256:" + DIGEST + "'", "has no digest"),
        (
            f"[images.x]\nbase='trixie'\noci = 'python@sha256:{DIGEST}'",
            "no base, no packages and no mirror",
        ),
        ("[images.x]\nbase='trixie'\npackages=['--root=/']", "packages: '--root=/' is not"),
        ("[images.x]\nbase='trixie'\nmirror='http://x [trusted=yes]'", "mirror: .* is not what"),
        ("[images.x]\nbase='trixie'\ndigest='abc'", "digest: 'abc' is not what"),
        ("[images.x]\nbase='trixie'\npinned=['libc6']", "pinned: 'libc6' is not what"),
        ("[images.x]\nbase='trixie'\npackage=['x']", "unknown key 'package'"),
        ("[images.'X Y']\nbase='trixie'", "not a name"),
        ("[image.x]\nbase='trixie'", "unknown table 'image'"),
        ("images = 3", "images: 3 is not a table"),
        ("[images.x", "not TOML"),
    ],
)
def test_what_cannot_be_followed_is_said_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ProfileError, match=said):
        read_own(tmp_path, text)
