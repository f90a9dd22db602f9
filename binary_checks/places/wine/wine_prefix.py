"""Makes wine's Windows more like a clean Windows 10: what it lacks, and what it has too much."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from binary_checks.errors import Unavailable
from binary_checks.model.root_filesystem import RootFilesystem
from binary_checks.places.images import find_image
from binary_checks.places.wine.forwarders import make_forwarder
from binary_checks.systems.windows_libraries import windows_libraries

_FOLDER = "/usr/lib/wine"  # of Debian
_LOADERS = ("wine64", f"{_FOLDER}/wine64", "wine")
"""What starts a 64-bit program, the first that is there."""
_SERVERS = ("wineserver", f"{_FOLDER}/wineserver64", f"{_FOLDER}/wineserver")
_HOW = (
    "there is no wine here; on Debian and Ubuntu: apt-get install --no-install-recommends wine64; "
    "or name image:wine-trixie, which is built with one (1 GB)"
)
_RUNTIME = re.compile(r"(?:msvc[mpr]|vcruntime|concrt|vccorlib|vcamp|vcomp|mfcm?|atl)\d+.*\.dll")
_FORWARDERS: Mapping[str, Mapping[str, str]] = {
    # Of Windows 10, for programs in Rust: random bytes from what advapi32 calls RtlGenRandom.
    "bcryptprimitives.dll": {"ProcessPrng": "advapi32.SystemFunction036"},
}
"""Small DLLs that older wines lack, and which of wine's functions do what theirs do."""
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "WINEDEBUG": "-all,err+module",
    "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=",
}
"""What a process of wine's is told: of all that it may say, what it does not find."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Wine:
    """A wine, of this host or of a root file system."""

    program: str  # what starts a 64-bit program
    server: str
    version: str  # "8.0"
    root: RootFilesystem | None = None

    def list_native(self) -> list[Path]:
        """List the DLLs that wine is linked with and that are none of its own.

        Debian's scripts put them where wine finds them, and no script of a package runs.
        """
        folder = self.root.path / "usr" / "x86_64-w64-mingw32" / "lib" if self.root else None
        return sorted(folder.glob("*.dll")) if folder else []


def find_wine(name: str) -> Wine:
    """Find this host's wine for ``wine``, else that of an image of the name given.

    Raises Unavailable with how to install it, or why it cannot be built.
    """
    if name != "wine":
        return _find_in_image(find_image(name))
    program = next(filter(None, map(shutil.which, _LOADERS)), None)
    if program is None:
        raise Unavailable(_HOW)
    server = next(filter(None, map(shutil.which, _SERVERS)), "wineserver")
    return Wine(program=program, server=server, version=read_version(program))


def _find_in_image(root: RootFilesystem) -> Wine:
    """Of an image nothing is run to ask for the version: the package says it."""
    package = next((each for each in root.packages if each.name == "libwine"), None)
    if package is None:
        raise Unavailable(f"image {root.name} has no wine")
    version = re.match(r"[\d.]+", package.version)
    return Wine(
        program=f"{_FOLDER}/wine64",
        server=f"{_FOLDER}/wineserver64",
        version=version[0] if version else package.version,
        root=root,
    )


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


def copy_prefix(base: Path, prefix: Path, shown: str) -> None:
    """Make a prefix of one's own, whose Windows is that of another one, which is only read.

    Processes see that one at the path ``shown``.
    """
    (prefix / "drive_c").mkdir(parents=True)
    (prefix / "dosdevices").mkdir()
    (prefix / "dosdevices" / "c:").symlink_to("../drive_c")
    (prefix / "dosdevices" / "z:").symlink_to("/")
    for name in _COPIED:
        shutil.copyfile(base / name, prefix / name)
    for name in _SHARED:
        (prefix / "drive_c" / name).symlink_to(f"{shown}/drive_c/{name}")


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
