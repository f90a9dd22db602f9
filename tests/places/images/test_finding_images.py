"""An image is found in the cache or built once; what cannot be had says why in one line."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from binary_checks.errors import BinaryChecksError, GatherError
from binary_checks.model.root_filesystem import RootFilesystem
from binary_checks.places.images import ImageSettings, find_image
from binary_checks.places.images.image_cache import list_cached, remove_cached, verify_cached
from fixtures.root_streams import BuildStandIn, elf_head, file

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="roots are Linux's")
BANNER = b"GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\n"
LOADER = file("lib64/ld-linux-x86-64.so.2", elf_head(bits=64, machine=62))
LIBC = file("lib64/libc.so.6", BANNER)
PACKAGE = file("var/cache/apt/archives/libc6_2.31-13_amd64.deb", b"libc6 2.31-13")


def find(settings: ImageSettings, name: str = "ours") -> RootFilesystem:
    return find_image(name, settings)


def count_calls(tmp_path: Path) -> int:
    path = tmp_path / "programs" / "calls"
    return path.read_text(encoding="utf-8").count("bullseye") if path.exists() else 0


def refusal(settings: ImageSettings, name: str = "ours") -> str:
    with pytest.raises(BinaryChecksError) as caught:
        find_image(name, settings)
    return f"{type(caught.value).__name__}: {caught.value}"


def left_in_cache(settings: ImageSettings) -> list[str]:
    assert settings.cache
    return [path.name for path in settings.cache.iterdir() if path.suffix != ".lock"]


def test_an_image_is_built_once_and_says_what_it_is(
    mmdebstrap: BuildStandIn, settings: ImageSettings, tmp_path: Path
) -> None:
    mmdebstrap(LOADER, LIBC, PACKAGE)
    first, second = find(settings), find(settings)
    assert first == second
    assert (first.libc, first.libc_version, first.architecture) == ("glibc 2.31", (2, 31), "x86_64")
    assert first.loader == "/lib64/ld-linux-x86-64.so.2"
    assert (first.runner, first.binds, first.reservation) == ((), (), "")
    assert [str(each).rpartition("=")[0] for each in first.packages] == ["libc6=2.31-13"]
    assert count_calls(tmp_path) == 1


def test_a_root_that_was_written_to_is_built_anew(
    mmdebstrap: BuildStandIn, settings: ImageSettings, tmp_path: Path
) -> None:
    mmdebstrap(LOADER, LIBC)
    found = find(settings)
    (found.path / "lib64/libc.so.6").write_bytes(b"of somebody else")
    assert find(settings).libc == "glibc 2.31"
    assert count_calls(tmp_path) == 2


def test_a_root_half_deleted_is_built_anew(
    mmdebstrap: BuildStandIn, settings: ImageSettings, tmp_path: Path
) -> None:
    mmdebstrap(LOADER, LIBC)
    shutil.rmtree(find(settings).path / "lib64")
    assert find(settings).libc == "glibc 2.31"
    assert count_calls(tmp_path) == 2


def test_an_image_that_must_not_be_built_says_how_it_is(settings: ImageSettings) -> None:
    said = refusal(ImageSettings(file=settings.file, cache=settings.cache, builds=False))
    assert said == (
        "Unavailable: image:ours: it was not built; run binary-checks images build ours"
    )


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("E: Unable to locate package libc6", "has no such package"),
        ("Err:1 http://x Could not resolve 'x'", "cannot be reached"),
        ("The following signatures ... NO_PUBKEY 0E98", "is not signed by anybody trusted"),
        ("E: Release file for http://x is expired", "is out of date"),
        ("E: something new", "mmdebstrap cannot build bullseye for amd64 at http"),
    ],
)
def test_a_build_that_fails_says_why_and_leaves_nothing(
    mmdebstrap: BuildStandIn, settings: ImageSettings, says: str, expected: str
) -> None:
    mmdebstrap(says=says.replace("'", ""), status=25)
    said = refusal(settings)
    assert said.startswith("Unavailable: image:ours: ")
    assert expected in said
    assert left_in_cache(settings) == []


def test_a_build_that_ends_well_and_writes_half_a_stream_is_no_root(
    mmdebstrap: BuildStandIn, settings: ImageSettings, tmp_path: Path
) -> None:
    mmdebstrap(LOADER, LIBC)
    path = tmp_path / "programs" / "stream"
    path.write_bytes(path.read_bytes()[:700])
    assert "the root file system cannot be read" in refusal(settings)
    assert left_in_cache(settings) == []


def test_a_build_that_does_not_end_is_stopped(
    mmdebstrap: BuildStandIn, settings: ImageSettings
) -> None:
    mmdebstrap(LOADER, before="sleep 60")
    hasty = ImageSettings(file=settings.file, cache=settings.cache, timeout=0.3)
    assert refusal(hasty) == "Unavailable: image:ours: it was not built within 0.3 s"
    assert left_in_cache(settings) == []


def test_what_is_missing_to_build_is_named_with_its_package(
    mmdebstrap: BuildStandIn, settings: ImageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binary_checks.places.images.debian_roots.shutil.which", lambda _name: None)
    assert refusal(settings) == (
        "Unavailable: image:ours: an image cannot be built here: there is no mmdebstrap; "
        "install mmdebstrap"
    )


def test_keys_that_are_missing_are_named_with_their_package(
    mmdebstrap: BuildStandIn, settings: ImageSettings, tmp_path: Path
) -> None:
    (tmp_path / "keyring.gpg").unlink()
    assert "install debian-archive-keyring" in refusal(settings)


def pin(settings: ImageSettings, tmp_path: Path, line: str) -> ImageSettings:
    path = tmp_path / "pinned.toml"
    assert settings.file
    path.write_text(settings.file.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    return ImageSettings(file=path, cache=settings.cache, timeout=20)


def test_a_root_that_is_pinned_is_taken_from_the_cache_and_is_built_again_the_same(
    mmdebstrap: BuildStandIn, settings: ImageSettings, tmp_path: Path
) -> None:
    mmdebstrap(LOADER, LIBC, PACKAGE)
    digest = find(settings).digest
    pinned = pin(settings, tmp_path, f'digest = "{digest}"')
    assert find(pinned).digest == digest
    assert count_calls(tmp_path) == 1
    assert settings.cache
    remove_cached(list_cached(settings.cache)[0], settings.cache)
    assert find(pinned).digest == digest
    assert count_calls(tmp_path) == 2


def test_packages_that_moved_are_named_and_the_cached_root_stays_valid(
    mmdebstrap: BuildStandIn, settings: ImageSettings, tmp_path: Path
) -> None:
    mmdebstrap(LOADER, LIBC, PACKAGE)
    found = find(settings)
    pins = ", ".join(f'"{each}"' for each in found.packages)
    pinned = pin(settings, tmp_path, f'digest = "{found.digest}"\npinned = [{pins}]')
    newer = file("var/cache/apt/archives/libc6_2.31-14_amd64.deb", b"libc6 2.31-14")
    added = file("var/cache/apt/archives/libx_1_amd64.deb", b"libx")
    mmdebstrap(LOADER, LIBC, newer, added)
    assert find(pinned) == found, "what is in the cache needs no mirror"
    assert settings.cache
    remove_cached(list_cached(settings.cache)[0], settings.cache)
    said = refusal(pinned)
    assert "packages have moved: libc6 2.31-13 is now 2.31-14, libx 1 is new" in said
    assert left_in_cache(settings) == []


def test_a_root_in_the_cache_of_another_digest_than_is_pinned_is_not_taken(
    mmdebstrap: BuildStandIn, settings: ImageSettings, tmp_path: Path
) -> None:
    mmdebstrap(LOADER, LIBC)
    find(settings)
    pinned = pin(settings, tmp_path, f'digest = "{"0" * 64}"')
    assert "its digest is another one than is pinned" in refusal(pinned)


def test_a_root_is_verified_byte_by_byte_on_demand(
    mmdebstrap: BuildStandIn, settings: ImageSettings
) -> None:
    mmdebstrap(LOADER, LIBC)
    root = find(settings).path
    assert settings.cache
    (cached,) = list_cached(settings.cache)
    verify_cached(cached)
    (root / "lib64/libc.so.6").write_bytes(b"of somebody else")
    with pytest.raises(GatherError, match="is not what was built"):
        verify_cached(cached)


def test_a_foreign_architecture_needs_its_emulator(
    settings: ImageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("binary_checks.places.images.shutil.which", lambda _name: None)
    assert refusal(settings, "trixie-arm64") == (
        "Unavailable: image:trixie-arm64: this x86_64 runs no program for aarch64: there is no "
        "qemu-aarch64-static; install qemu-user-static"
    )


def test_a_foreign_root_is_run_by_its_emulator_with_a_reservation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("binary_checks.places.images.shutil.which", lambda name: f"/usr/bin/{name}")
    (tmp_path / "lib").mkdir()
    loader = tmp_path / "lib" / "ld-linux-aarch64.so.1"
    loader.write_bytes(elf_head(bits=64, machine=183))
    found = find_image(f"{tmp_path}/")
    assert found.runner == ("/run/runner", "-cpu", "neoverse-n1")
    assert [inside for _, inside in found.binds] == ["/run/runner"]
    assert found.reservation.startswith("aarch64 was emulated by qemu")


def test_a_name_that_is_none_is_said_with_the_nearest(settings: ImageSettings) -> None:
    assert refusal(settings, "bulseye") == (
        "Unavailable: image:bulseye: there is no such image; did you mean bullseye?; "
        "binary-checks images lists them"
    )


def test_a_folder_that_is_no_root_is_said(tmp_path: Path) -> None:
    assert "no root file system of Linux" in refusal(ImageSettings(), f"{tmp_path}/")
    assert "there is no such folder" in refusal(ImageSettings(), f"{tmp_path}/none")
