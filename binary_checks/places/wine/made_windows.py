"""Makes a Windows by wine, and keeps it and the Pythons for it in the user's cache folder."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

from binary_checks.cache_folder import name_cache_folder
from binary_checks.errors import GatherError, Unavailable
from binary_checks.places.confinement import Limits
from binary_checks.places.images.image_cache import lock
from binary_checks.places.index_settings import read_pip_settings
from binary_checks.places.processes import run_process
from binary_checks.places.sandbox import Sandbox
from binary_checks.places.wine.windows_python import fetch_python
from binary_checks.places.wine.wine_prefix import ENVIRONMENT, Wine, furnish

_PATIENCE = 300.0  # seconds for a Windows: 10 are usual
_FORMAT = 1  # of how one is furnished: another one is made anew


def find_windows(wine: Wine, *, sandbox: Sandbox, private: Path) -> Path:
    """Find a Windows that was made before, or make it; nothing is ever written to it again."""

    def make(folder: Path) -> None:
        _boot(wine, folder, sandbox=sandbox, private=private)
        furnish(folder)

    return _keep(f"wine-{wine.version}-{_FORMAT}", make)


def find_python(version: str) -> bytes:
    """Find the archive of a Python that was downloaded before, or download it."""

    def make(folder: Path) -> None:
        (folder / "archive").write_bytes(fetch_python(version, read_pip_settings()))

    return (_keep(f"python-{version}", make) / "archive").read_bytes()


def _boot(wine: Wine, folder: Path, *, sandbox: Sandbox, private: Path) -> None:
    """Have wine make a Windows; its server is waited for, or the registry is lost."""
    home, made = private / "home", private / "windows"
    command = f"{shlex.quote(wine.program)} wineboot --init; {shlex.quote(wine.server)} --wait"
    system = made / "drive_c" / "windows" / "system32"
    system.mkdir(parents=True)
    for path in wine.list_native():
        shutil.copyfile(path, system / path.name)
    limits = Limits(
        root=wine.root.path if wine.root else None,
        writable=(made,),
        private=private,
        folders=(private, home),
        disk=sandbox.budget.disk,
    )
    argv, _ = sandbox.start(("/bin/sh", "-c", command), limits)
    ended = run_process(
        argv,
        cwd=private,
        env={**ENVIRONMENT, "HOME": str(home), "WINEPREFIX": str(made), "WINEDEBUG": "-all"},
        timeout=_PATIENCE,
    )
    if not (made / "user.reg").exists() or not (system / "kernel32.dll").exists():
        said = ended.stderr.strip().rpartition("\n")[2] or f"it ended with {ended.status}"
        raise Unavailable(f"wine makes no Windows: {said}")
    for path in made.iterdir():
        shutil.move(path, folder / path.name)
    made.rmdir()


def _keep(name: str, make: Callable[[Path], None]) -> Path:
    """Give a folder of the cache, made whole or not at all."""
    cache = name_cache_folder() / "wine"
    folder, apart = cache / name, cache / f".making-{name}"
    with lock(cache, name, timeout=_PATIENCE):
        if not folder.is_dir():
            shutil.rmtree(apart, ignore_errors=True)  # of a process that was killed
            try:
                apart.mkdir()
                make(apart)
                apart.rename(folder)
            except OSError as error:
                raise GatherError(f"{cache}: {error.strerror}") from error
            finally:
                shutil.rmtree(apart, ignore_errors=True)
    return folder
