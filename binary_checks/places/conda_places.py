"""Conda prefixes as places: one made for a package, or the one that contains the package."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from binary_checks.errors import GatherError, NotApplicable, NothingNamed, ProfileError, Unavailable
from binary_checks.model import (
    CondaPackage,
    Conditions,
    InstallReport,
    LinkedPackage,
    Package,
    ProbeAnswer,
    TargetPython,
)
from binary_checks.places.existing import InstalledPlace, find_python
from binary_checks.places.host_place import HostPlace, hash_file, shorten_paths
from binary_checks.places.index_settings import make_installer_environment
from binary_checks.places.limits import Limits
from binary_checks.places.processes import find_last_line, name_crash, run_process
from binary_checks.places.sandbox import Sandbox, find_visible, is_below
from binary_checks.processes import user_environment
from binary_checks.web.addresses import show

_ADVICE = (
    "name a channel with --binary-channel, give packages with --binary-with, or skip running the "
    "package (--binary-static)"
)
_LIBRARIES = ("lib/", "Library/bin/")
_VIRTUAL = re.compile(r"\b__[a-z]\w*[^,]*")


class CondaPlace(HostPlace):
    """A fresh prefix with one conda package and the packages that it requires."""

    spelled = ("venv",)
    serves = (CondaPackage,)

    @property
    def prefix(self) -> Path:
        """The folder into which packages are linked."""
        return self.folder / "prefix"

    def _install(self, package: Package) -> InstallReport:
        """Choose and link the packages, and identify the prefix's Python if it has one."""
        assert isinstance(package, CondaPackage)
        faults = (fault for member in package.members for fault in member.faults)
        damage = next(iter((*package.ambiguities, *package.archive_faults, *faults)), None)
        if damage is not None:  # installers handle damaged packages differently
            raise Unavailable(f"a damaged package is not installed: {damage}")
        answer = self._ask(package)
        if answer.unsolved:
            return self._explain(package, answer)
        if not answer.refused:
            self._find_python()
        found = () if answer.refused else tuple(find_changed(package, self.prefix))
        return InstallReport(
            python=self._target.name if self._target else "no Python",
            installer=f"py-rattler {answer.version}",
            error=shorten_paths(answer.refused, package.path.resolve().parent, self.folder),
            altered=tuple(path for path, there in found if there),
            missing=tuple(path for path, there in found if not there),
            libraries=tuple(_list_libraries(self.prefix, package)),
        )

    def _ask(self, package: CondaPackage) -> ChannelAnswer:
        settings, path = self.settings, package.path.resolve()
        given = tuple(each.resolve() for each in settings.given)
        if missing := next((each for each in given if not each.exists()), None):
            raise Unavailable(f"{missing.name}: given alongside the package, but missing")
        task = {
            "task": "install",
            "package": str(path),
            "given": list(map(str, given)),
            "channels": settings.channels if settings.index else (),
            "requires": self.requires,
            "prefix": str(self.prefix),
        }
        return ask_channels(
            task,
            self.folder,
            timeout=self.timeout,
            sandbox=self.sandbox,
            visible=(path, *given),
        )

    def _explain(self, package: CondaPackage, answer: ChannelAnswer) -> InstallReport:
        """Report an unsolvable package, unless this host or the given packages are the cause.

        Raises Unavailable or NothingNamed in those cases.
        """
        message = shorten_paths(answer.unsolved, package.path.resolve().parent, self.folder)
        if message.startswith("it is for "):
            raise Unavailable(message)
        if lacking := _VIRTUAL.search(message):
            override = "a variable such as CONDA_OVERRIDE_CUDA can state it"
            raise Unavailable(f"this host does not have {lacking[0].strip()} ({override})")
        if not self.settings.channels:
            raise NothingNamed(f"{message.rstrip('.')}; {_ADVICE}")
        return InstallReport(
            python="no Python", installer=f"py-rattler {answer.version}", error=message
        )

    def _find_python(self) -> None:
        """Identify the prefix's Python, always in the sandbox: it comes from a channel."""
        python = find_python(self.prefix)
        if python is None:
            return
        visible: tuple[Path, ...] = (self.prefix,)
        real = python.resolve()
        # a program outside of the prefix, such as the user's interpreter
        if not real.is_relative_to(self.prefix):
            own = find_visible(self.settings.python.resolve())
            visible += own if is_below(real, own) else ()
        self.limits = replace(self.limits, visible=visible, asks_python=False)
        self._target = self._identify(python)

    def _find_target(self) -> TargetPython:
        """Raise NotApplicable: no package in the prefix provides Python."""
        if self._results:
            raise NotApplicable("neither the package nor its requirements include Python")
        raise GatherError("a conda prefix has no Python before its package is installed")

    def _start(
        self,
        script: str | Path,
        request: Mapping[str, object],
        conditions: Conditions,
        timeout: float,
    ) -> ProbeAnswer:
        """Run a probe with the variables of an activated prefix, but without activation scripts."""
        _ = self.target  # raises if there is no Python to run the script
        path = os.pathsep.join((str(self.prefix / "bin"), "/usr/local/bin", "/usr/bin", "/bin"))
        own = {"CONDA_PREFIX": str(self.prefix)}
        own |= {} if os.name == "nt" else {"PATH": path}
        conditions = replace(conditions, variables={**own, **conditions.variables})
        return super()._start(script, request, conditions, timeout)

    def scrub(self, text: str) -> str:
        """Return the text with paths relative to site-packages, or else to the prefix."""
        return text if self._target is None else super().scrub(text)

    def _name_folders(self) -> dict[Path, str]:
        return {self.site_packages: "", self.prefix: "", **super()._name_folders()}

    def shown(self, path: str) -> str:
        """Return a path relative to site-packages, as probes report it: ``../../../lib/x.so``."""
        for folder in {str(self.prefix), str(self.prefix.resolve())}:
            if self._target is not None and path.startswith(f"{folder}{os.sep}"):
                path = os.path.relpath(path, Path(folder, self.site_packages.relative_to(folder)))
        return super().shown(path)


class LinkedPlace(InstalledPlace):
    """The existing conda prefix that contains a package; closing the place removes nothing."""

    serves = (LinkedPackage,)

    def _install(self, package: Package) -> None:  # noqa: ARG002 - as every place is asked
        """Identify the prefix's Python, which the user has named; install nothing."""
        target = self._identify(self.settings.python)
        self._settle(target, target.site_packages)


def find_changed(package: CondaPackage, prefix: Path) -> Iterator[tuple[str, bool]]:
    """Yield files that differ in the prefix: (path, False) if missing, (path, True) if changed.

    Skip files with a placeholder, since the prefix's path is written into them. If two packages
    have a file at the same path, py-rattler moves one of the two files to ``__clobbers__``; either
    of them may be this package's.
    """
    clobbered = (path for path in prefix.glob("__clobbers__/*/**/*") if not path.is_dir())
    names = {path.relative_to(prefix).as_posix() for path in clobbered}
    moved = {name.split("/", 2)[2]: prefix / name for name in names}
    rewritten = {row.path for row in package.rows if row.placeholder}
    for member in package.members:
        name = member.archive_name
        if member.is_directory or name.startswith("info/") or name in rewritten:
            continue
        path = prefix / find_linked_path(package, name, prefix)
        if not os.path.lexists(path):
            yield name, False
        elif not member.target and member.sha256:
            files = (path, *filter(None, [moved.get(name)]))
            if any(hash_file(file) != member.sha256 for file in files):
                yield name, True


def _list_libraries(prefix: Path, package: CondaPackage) -> Iterator[tuple[str, str]]:
    """Yield the shared libraries of all other packages, each with its package's name.

    Only libraries in folders that the loader searches are yielded.
    """
    for record in sorted(prefix.glob("conda-meta/*.json")):
        stated = json.loads(record.read_text(encoding="utf-8"))
        for name in stated["files"] if stated["name"] != package.name else ():
            if name.startswith(_LIBRARIES) and re.search(r"\.so(\.|$)|\.dylib$|\.dll$", name):
                yield name, stated["name"]


def find_linked_path(package: CondaPackage, name: str, prefix: Path) -> str:
    """Return the path in the prefix to which a file of the package is linked.

    Files of a ``noarch: python`` package go into the folders of the prefix's Python.
    """
    folder, _, rest = name.partition("/")
    if package.noarch != "python" or folder not in {"site-packages", "python-scripts"}:
        return name
    if folder == "python-scripts":
        scripts = (name for name in ("bin", "Scripts") if (prefix / name).is_dir())
        return f"{next(scripts, '')}/{rest}"
    for pattern in ("lib/python3.*/site-packages", "Lib/site-packages"):
        for site in sorted(prefix.glob(pattern)):
            return f"{site.relative_to(prefix).as_posix()}/{rest}"
    return name


# Queries of conda channels through py-rattler, in a separate sandboxed process.

_SCRIPT = Path(__file__).parent / "scripts" / "conda_worker.py"
_CREDENTIALS = ("~/.rattler", "~/.netrc", "$RATTLER_AUTH_FILE", "$NETRC", "$SSL_CERT_FILE")
_OVERRIDES = "CONDA_OVERRIDE_"
"""Prefix of variables that override a virtual package; every tool of conda reads them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelAnswer:
    """The answer of py-rattler: records of packages, or why there are none."""

    version: str = ""  # version of py-rattler
    records: tuple[Mapping[str, Any], ...] = ()
    refused: str = ""  # why the package itself cannot be used
    unsolved: str = ""  # the solver's message if no packages satisfy the requirements


def format_channel(name: str, folder: Path) -> str:
    """Return a channel as py-rattler names it; a folder becomes a ``file:`` URL.

    Raises ProfileError if there is no such channel or folder.
    """
    path = Path(os.path.normpath(folder / name))
    if "://" in name or (not path.is_dir() and re.fullmatch(r"\w[\w.-]*(/[\w.-]+)*", name)):
        return name
    if not path.is_dir():
        raise ProfileError(f"{name}: no such channel or folder")
    return path.as_uri()


def ask_channels(
    task: Mapping[str, Any],
    root: Path,
    *,
    timeout: float,
    sandbox: Sandbox,
    visible: tuple[Path, ...] = (),
) -> ChannelAnswer:
    """Run a task in a py-rattler process that may write only below ``root``.

    Raises Unavailable if py-rattler is not installed, GatherError if py-rattler, the network or a
    channel failed.
    """
    spec = importlib.util.find_spec("rattler")
    if spec is None or spec.origin is None:
        raise Unavailable("it needs py-rattler: install binary-checks[conda]")
    modules = Path(spec.origin).parents[1]
    request_file, answer_file = root / "request.json", root / "answer.json"
    cache = root / "cache"
    cache.mkdir(exist_ok=True)
    request = {"platform": "", "cache": str(cache), "timeout": timeout, "path": [str(modules)]}
    request_file.write_text(json.dumps({**request, **task}), encoding="utf-8")
    python = Path(sys.executable)
    command: tuple[str, ...] = (
        str(python),
        "-I",
        "-B",
        str(_SCRIPT),
        str(request_file),
        str(answer_file),
    )
    if sandbox.holds:
        seen = (*find_visible(python), modules, _SCRIPT, *_find_local(task), *visible)
        limits = Limits(visible=seen, writable=(root,), network=True)
        command = sandbox.start(command, limits)[0]
    overrides = {k: v for k, v in user_environment().items() if k.startswith(_OVERRIDES)}
    environment = {**make_installer_environment(root), **overrides}
    ended = run_process(command, cwd=root, env=environment, timeout=timeout)
    if ended.status is None:
        raise GatherError(f"py-rattler took longer than {timeout:g} s")
    try:
        answer = json.loads(answer_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        how = name_crash(ended.status) or f"exit status {ended.status}"
        last = find_last_line(ended.stderr, ended.status)
        raise GatherError(f"py-rattler broke ({how}): {last}") from None
    if lacking := answer.get("lacking"):
        raise Unavailable(f"it needs py-rattler: install binary-checks[conda] ({lacking})")
    if broke := str(answer.get("broke", "")):
        shown = [show(each) if "://" in each else each for each in task.get("channels", ())]
        named = not shown or any(each.rstrip("/") in broke for each in shown)
        raise GatherError(broke if named else f"{' or '.join(shown)}: {broke}")
    return ChannelAnswer(
        version=str(answer.get("version", "")),
        records=tuple(answer.get("records", ())),
        refused=str(answer.get("refused", "")),
        unsolved=str(answer.get("unsolved", "")),
    )


def _find_local(task: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the channels and credentials on this host that the sandboxed process reads."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    for channel in task.get("channels", ()):
        if channel.startswith("file:"):
            yield Path(url2pathname(urlsplit(channel).path))
    environ = user_environment()
    for name in _CREDENTIALS:
        path = environ.get(name[1:], "") if name.startswith("$") else str(Path(name).expanduser())
        if path and Path(path).exists():
            yield Path(path)
