"""``binary-checks images`` lists, builds, verifies, pins and removes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from binary_checks.cache_folder import VARIABLE
from binary_checks.command import main
from fixtures.root_streams import BuildStandIn, elf_head, file

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="roots are Linux's")
LOADER = file("lib64/ld-linux-x86-64.so.2", elf_head(bits=64, machine=62))
LIBC = file("lib64/libc.so.6", b"GNU C Library (Debian) stable release version 2.31.\n" * 20_000)
PACKAGE = file("var/cache/apt/archives/libc6_2.31-13_amd64.deb", b"libc6 2.31-13")


@pytest.fixture
def images(
    mmdebstrap: BuildStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: object
) -> Path:
    """A file of one image, whose builds succeed."""
    mmdebstrap(LOADER, LIBC, PACKAGE)
    path = tmp_path / "images.toml"
    text = f'[images.ours]\nbase = "bullseye"\nkeyring = "{tmp_path}/keyring.gpg"\n'
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "kept"))
    return path


def ask(*words: object) -> int:
    return main(["images", *map(str, words)])


def test_images_are_listed_with_what_they_are(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["image", "libc", "architecture", "python", "built"]
    assert ["bullseye-python", "glibc", "2.31", "x86_64", "3.9", "-"] in [
        line.split() for line in lines
    ]
    assert lines[-1] == f"0 built, 0 MB, in {tmp_path / 'kept' / 'images'}"
    assert not any("arm64" in line for line in lines)
    assert ask("list", "--all") == 0
    assert "trixie-arm64" in capsys.readouterr().out


def test_an_image_is_built_verified_and_removed(
    images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("build", "ours", "--file", images) == 0
    built = capsys.readouterr()
    assert built.err == "building image:ours of bullseye for amd64\n"
    assert built.out.startswith("ours: glibc 2.31 for x86_64, sha256 ")
    assert ask("list", "ours", "--file", images) == 0
    assert "1 built, 1 MB" in capsys.readouterr().out
    assert ask("verify") == 0
    assert "ours: every byte is as it was built" in capsys.readouterr().out
    assert ask("remove", "ours") == 0
    assert capsys.readouterr().out == "ours: removed, 1 MB\n"
    assert ask("remove", "ours") == 4
    assert capsys.readouterr().err == "binary-checks: images: ours: it was not built\n"


def test_what_was_written_to_fails_verification(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask("build", "ours", "--file", images)
    (path,) = (tmp_path / "kept").rglob("libc.so.6")
    path.write_bytes(b"of somebody else")
    assert ask("verify", "ours") == 1
    said = capsys.readouterr().err
    assert "is not what was built: something was written to it" in said


def test_what_pins_an_image_is_written_as_toml_that_is_read_again(
    images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask("build", "ours", "--file", images)
    capsys.readouterr()
    assert ask("pin", "ours", "--file", images) == 0
    heading, *rest = capsys.readouterr().out.splitlines()
    assert heading == "[images.ours]"
    assert rest[1:2] == ["pinned = ["]
    with images.open("a", encoding="utf-8") as file:
        file.write("\n".join(rest) + "\n")
    assert ask("build", "ours", "--file", images) == 0
    assert "building" not in capsys.readouterr().err


def test_a_build_that_fails_is_no_fault_of_the_user(
    images: Path, mmdebstrap: BuildStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    mmdebstrap(says="Could not resolve deb.example", status=25)
    assert ask("build", "ours", "--file", images) == 6
    assert "image:ours: bullseye for amd64 at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["build"], "images: build: no image is named"),
        (["build", "trixie-pyton"], "no such image; did you mean trixie-python?"),
        (["frob"], "invalid choice: 'frob'"),
        (["list", "--file", "/nowhere.toml"], "/nowhere.toml: No such file"),
    ],
)
def test_what_cannot_be_followed_ends_with_4(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(*words) == 4
    assert said in capsys.readouterr().err
