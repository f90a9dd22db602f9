"""Makes wine's Windows more like a clean Windows 10: what it lacks, and what it has too much."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from binary_checks.errors import Unavailable
from binary_checks.places.wine.forwarders import make_forwarder
from binary_checks.systems.windows_libraries import windows_libraries

_LOADERS = ("wine64", "/usr/lib/wine/wine64", "wine")
"""What starts a 64-bit program, the first that is there."""
_HOW = "there is no wine here; on Debian and Ubuntu: apt-get install --no-install-recommends wine64"
_RUNTIME = re.compile(r"(?:msvc[mpr]|vcruntime|concrt|vccorlib|vcamp|vcomp|mfcm?|atl)\d+.*\.dll")
_FORWARDERS: Mapping[str, Mapping[str, str]] = {
    # Of Windows 10, for programs in Rust: random bytes from what advapi32 calls RtlGenRandom.
    "bcryptprimitives.dll": {"ProcessPrng": "advapi32.SystemFunction036"},
}
"""Small DLLs that older wines lack, and which of wine's functions do what theirs do."""
_TIME = 1_700_000_000  # of entries in the registry
# A crash shall end the process, not start a debugger.
_USERS = {
    r"Software\\Wine": {"Version": "win10"},
    r"Software\\Wine\\DllOverrides": {"winedbg.exe": ""},
}
_MACHINES = {
    r"Software\\Microsoft\\Windows NT\\CurrentVersion\\AeDebug": {"Auto": "0", "Debugger": ""}
}
_COPIED = ("system.reg", "user.reg", "userdef.reg", ".update-timestamp")
_SHARED = ("windows", "Program Files", "Program Files (x86)", "ProgramData")


def find_wine() -> str:
    """Find what starts 64-bit Windows programs; raises Unavailable with how to install it."""
    found = next(filter(None, map(shutil.which, _LOADERS)), None)
    if found is None:
        raise Unavailable(_HOW)
    return found


def read_version(wine: str) -> str:
    """Ask wine for its version: "8.0"; raises Unavailable where it does not start."""
    try:
        done = subprocess.run(
            (wine, "--version"),
            env={"PATH": "/usr/bin:/bin", "WINEDEBUG": "-all"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{wine} does not start: {error}") from None
    found = re.search(r"wine-(\d[\w.-]*)", done.stdout)
    if found is None:
        said = done.stderr.strip().rpartition("\n")[2] or f"it ends with {done.returncode}"
        raise Unavailable(f"{wine} does not say its version: {said}")
    return found[1]


def furnish(prefix: Path) -> None:
    """Change a prefix whose server has ended: Windows 10, without what no clean one has.

    That is the runtimes of Visual C++: wine has its own of each, and a wheel that counts on them
    would find them here. A file that lies in the package itself is loaded all the same.
    """
    system = prefix / "drive_c" / "windows" / "system32"
    names = {path.name.lower() for path in system.iterdir()}
    hidden = find_hidden(names)
    users = {**_USERS, r"Software\\Wine\\DllOverrides": {"winedbg.exe": "", **hidden}}
    _register(prefix / "user.reg", users)
    _register(prefix / "system.reg", _MACHINES)
    for name, forwards in _FORWARDERS.items():
        if name not in names:
            (system / name).write_bytes(make_forwarder(name, forwards))


def find_hidden(names: Iterable[str]) -> dict[str, str]:
    """Find the DLLs among wine's that no clean Windows has: overrides that leave out wine's."""
    extra = sorted(set(names) - windows_libraries("x86_64"))
    return {name.removesuffix(".dll"): "native" for name in extra if _RUNTIME.fullmatch(name)}


def _register(path: Path, sections: Mapping[str, Mapping[str, str]]) -> None:
    """Add sections to a file of the registry as wineserver writes it: later ones win."""
    with path.open("a", encoding="utf-8") as file:
        for section, values in sections.items():
            lines = "".join(f'"{name}"="{value}"\n' for name, value in values.items())
            file.write(f"\n[{section}] {_TIME}\n{lines}")


def copy_prefix(base: Path, prefix: Path) -> None:
    """Make a prefix of one's own, whose Windows is that of another one, which is only read."""
    (prefix / "drive_c").mkdir(parents=True)
    (prefix / "dosdevices").mkdir()
    (prefix / "dosdevices" / "c:").symlink_to("../drive_c")
    (prefix / "dosdevices" / "z:").symlink_to("/")
    for name in _COPIED:
        shutil.copyfile(base / name, prefix / name)
    for name in _SHARED:
        (prefix / "drive_c" / name).symlink_to(base / "drive_c" / name)


def list_lacking(text: str) -> Iterator[tuple[str, str]]:
    """Yield what wine says that it did not find: the library, and the file that needs it.

    A library that is there, and of which it does not find something itself, is not said.
    """
    pattern = (
        r'err:module:import_dll (?:Library|Loading library) (\S+) \(which is needed by L"([^"]*)"\)'
        r" (?:not found|failed \(error c0000135\))"
    )
    said = [
        (name, path.replace("\\\\", "\\").rpartition("\\")[2])
        for name, path in re.findall(pattern, text)
    ]
    there = {needing.lower() for _, needing in said}
    yield from (each for each in said if each[0].lower() not in there)


def find_unimplemented(text: str) -> str:
    """Find the function of Windows that wine was asked for and does not have: "x.dll.name"."""
    found = re.search(
        r"[Uu]nimplemented function (\S+?)(?:,| called| aborting|$)", text, re.MULTILINE
    )
    return found[1] if found else ""
