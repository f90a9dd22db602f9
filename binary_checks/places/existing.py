"""The environment that a package is installed in already: probes run there, nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Ending, InstalledPackage, Package
from binary_checks.model.places import Conditions, TargetPython
from binary_checks.model.requires_dist import applies, read_requirement
from binary_checks.places.host_place import HostPlace
from binary_checks.places.running import run_probe
from binary_checks.places.sandbox import Sandbox
from binary_checks.places.visible import is_below

_LIVE = (Path("/proc"), Path("/dev"), Path("/run"))
"""Where the host's processes, devices and services are reached."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Folders:
    """Where an interpreter looks for packages when nothing leads it elsewhere (``-I``)."""

    search: tuple[Path, ...]
    prefix: Path
    versions: Mapping[str, str]  # of the distributions asked for, those that are installed
    unread: tuple[str, ...] = ()  # files *.pth that may add folders, by code that was not run


def list_folders(
    python: Path,
    *,
    timeout: float,
    names: tuple[str, ...] = (),
    site: bool = True,
    sandbox: Sandbox | None = None,
) -> Folders:
    """Ask an interpreter, about distributions of these names too.

    Without ``site`` nothing runs there but the interpreter itself: no ``.pth``, no sitecustomize.
    Raises GatherError when it does not answer.
    """
    result = run_probe(
        python,
        "list_folders",
        {"names": names},
        timeout=timeout,
        sandbox=sandbox,
        conditions=Conditions(site=site),
    )
    folders, prefix = result.answer.get("folders"), result.answer.get("prefix")
    versions, unread = result.answer.get("versions"), result.answer.get("unread")
    if result.outcome is not Ending.OK or not isinstance(prefix, str):
        last = result.stderr.strip().rpartition("\n")[2]
        reason = last or " ".join((result.outcome.value, result.detail))
        raise GatherError(f"{python}: not a Python that runs here: {reason}")
    found = folders if isinstance(folders, list) else []
    return Folders(
        search=tuple(Path(each) for each in found if isinstance(each, str) and each),
        prefix=Path(prefix),
        versions=versions if isinstance(versions, dict) else {},
        unread=tuple(map(str, unread)) if isinstance(unread, list) else (),
    )


class InstalledPlace(HostPlace):
    """The environment of an interpreter in which the package lies; closing it removes nothing."""

    serves: ClassVar[tuple[type[Package], ...]] = (InstalledPackage,)
    spelled: ClassVar[tuple[str, ...]] = ("venv", "existing", "prefix")

    def _install(self, package: Package) -> None:
        """Look whether what is required lies beside the package: nothing is installed."""
        self._settle(self._identify(self.settings.python), package.path.parent)

    def _settle(self, target: TargetPython, site: Path) -> None:
        """Take the packages of a folder as they lie there."""
        self.beside = tuple(
            find_beside(self.requires, target, timeout=self.timeout, sandbox=self.sandbox)
        )
        # Not every package lies where the interpreter would install one: Debian has two places.
        self._target = replace(target, paths={**target.paths, "platlib": str(site)})
        visible = (site, *filter(_is_apart, find_sources(site)))
        self.limits = replace(self.limits, visible=visible)


def find_sources(site: Path) -> Iterator[Path]:
    """Find the folders elsewhere that packages installed for development are imported from."""
    for path in sorted(site.glob("*.pth")):
        for line in _read(path).splitlines():
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield site / line.strip()
    for path in sorted(site.glob("*.dist-info/direct_url.json")):
        url = re.search(r'"file://([^"]+)"', _read(path))
        if url and '"editable"' in _read(path):
            yield Path(unquote(url[1]))


def _is_apart(path: Path) -> bool:
    """Whether a sandbox may show it: a ``.pth`` of any package may name ``/``, a socket, ~/.ssh."""
    home, real = Path.home().resolve(), path.resolve()
    if real.is_relative_to(home) and str(real.relative_to(home)).startswith("."):
        return False
    holds_more = any(each.is_relative_to(real) for each in (home, *_LIVE))
    return (real.is_dir() or real.is_file()) and not holds_more and not is_below(real, _LIVE)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def find_beside(
    requires: Iterable[str], target: TargetPython, *, timeout: float, sandbox: Sandbox | None = None
) -> Iterator[str]:
    """Find what is required among what is installed for that interpreter: "numpy 2.4.6" each.

    Raises Unavailable for what is not there, or not in a version that will do.
    """
    requires = tuple(requires)
    if not requires:
        return
    here = target.markers
    wanted = [(text, read_requirement(text)) for text in requires]
    names = tuple(item.name for _, item in wanted if item is not None)
    python = target.executable
    found = list_folders(python, timeout=timeout, names=names, sandbox=sandbox).versions
    for text, item in wanted:
        if item is None:
            raise Unavailable(f"{text!r} is not a requirement")
        if applies(item, here):
            installed = found.get(item.name)
            if installed is None:
                raise Unavailable(
                    f"{text} is not installed alongside the package, and is not installed now"
                )
            if not item.specifier.contains(installed, prereleases=True):
                raise Unavailable(f"{item.name} {installed} is installed, {text} is required")
            yield f"{item.name} {installed}"
