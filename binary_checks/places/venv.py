"""Makes a fresh environment with a wheel and what it requires, and removes it at the end."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from packaging.requirements import Requirement

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Distribution, InstallReport, Wheel
from binary_checks.model.requires_dist import applies, demand_names, read_requirement
from binary_checks.places.given_wheels import describe_given, list_requirements
from binary_checks.places.installers import find_installer, install
from binary_checks.places.interpreter import TargetPython, identify, require_fit
from binary_checks.places.left_behind import Differences, compare
from binary_checks.places.pip_command import make_installer_environment
from binary_checks.places.processes import run_process
from binary_checks.places.running import Conditions, ProbeAnswer, run_probe
from binary_checks.places.sandbox import Sandbox


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Where requirements come from."""

    with_: tuple[Path, ...] = ()  # wheels and folders of wheels that the user gave
    index: bool = True  # whatever the user's installer is set to, too
    requires: tuple[str, ...] = ()  # what the package itself does not require
    builds: bool = False  # whether sdists are built, and requirements by URL followed


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """A place to run probes in; `close` removes it."""

    wheel: Distribution  # or its installed copy
    target: TargetPython
    install_report: InstallReport
    folder: tempfile.TemporaryDirectory[str]
    sandbox: Sandbox = field(default_factory=Sandbox)
    visible: tuple[Path, ...] = ()  # what probes read that lies outside of the interpreter's prefix
    beside: tuple[str, ...] = ()  # what was asked for and taken as it is installed: "numpy 2.4.6"

    @property
    def python(self) -> Path:
        """The environment's own interpreter."""
        return self.target.executable

    @property
    def site_packages(self) -> Path:
        """Where the wheel lies."""
        return self.target.site_packages

    def require_installed(self) -> None:
        """Raise Unavailable when the package was refused: then there is nothing to run."""
        if self.install_report.error:
            raise Unavailable(f"it could not be installed: {self.install_report.error}")

    def run_probe(
        self,
        script: str,
        request: Mapping[str, object],
        *,
        timeout: float,
        conditions: Conditions | None = None,
    ) -> ProbeAnswer:
        """Run a probe here; every request says where the package lies."""
        conditions = conditions or Conditions()
        return run_probe(
            self.python,
            script,
            {**request, "site_packages": str(self.site_packages)},
            timeout=timeout,
            sandbox=self.sandbox,
            conditions=replace(conditions, visible=(*conditions.visible, *self.visible)),
        )

    def scrub(self, text: str) -> str:
        """Write paths of this environment relative to site-packages, and leave no temporary one."""
        for folder, shown in ((self.site_packages, ""), (Path(self.folder.name), "environment/")):
            for spelling in {str(folder), str(folder.resolve())}:
                text = text.replace(spelling + os.sep, shown).replace(spelling, shown or ".")
        return re.sub(r"\b0x[0-9a-fA-F]{6,}\b", "0x…", text)

    def place(self, path: str) -> str:
        """Write a path with "/", relative to site-packages when it lies below it."""
        return self.scrub(path).replace(os.sep, "/")

    def close(self) -> None:
        """Remove everything."""
        self.folder.cleanup()

    def __enter__(self) -> Environment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_environment(  # noqa: PLR0913 - one question of the user's each
    wheel: Wheel,
    *,
    python: Path,
    with_: tuple[Path, ...] = (),
    timeout: float,
    index: bool = True,
    requires: tuple[str, ...] = (),
    builds: bool = False,
    sandbox: Sandbox | None = None,
) -> Environment:
    """Make a fresh environment of that interpreter and install the wheel with its requirements.

    ``with_`` are wheels, or folders of wheels, that the user gives beside the package; without
    ``index`` they are the only source. ``requires`` are requirements that the package has not
    itself. Without ``builds`` nothing is built, and no requirement by URL followed. ``timeout``
    bounds each step, in seconds. A wheel that the installer refuses still gives an environment,
    with the reason in its report.

    Raises Unavailable when the wheel does not fit the interpreter or a requirement was not given,
    GatherError when the interpreter, the network or the machine broke.
    """
    folder = tempfile.TemporaryDirectory(prefix="binary_checks-", ignore_cleanup_errors=True)
    sources = Sources(with_=with_, index=index, requires=requires, builds=builds)
    try:
        root = Path(folder.name).resolve()
        target = identify(_make_venv(python, root, timeout), timeout=timeout, sandbox=sandbox)
        require_fit(wheel, target)
        if not builds:
            demand_wheels(wheel, sources, target)
        report = _install(wheel, target, root, sources, timeout)
    except BaseException:
        folder.cleanup()
        raise
    return Environment(
        wheel=wheel,
        target=target,
        install_report=report,
        folder=folder,
        sandbox=sandbox or Sandbox(),
    )


def _make_venv(python: Path, root: Path, timeout: float) -> Path:
    """Make the environment with the standard library's venv, which needs no seed packages."""
    command = (python, "-I", "-m", "venv", "--without-pip", root / "venv")
    (root / "empty").mkdir()
    try:
        ended = run_process(
            command, cwd=root / "empty", env=make_installer_environment(), timeout=timeout
        )
    except OSError as error:
        raise GatherError(f"{python}: cannot be run: {error.strerror or error}") from error
    if ended.status != 0:
        last = ended.stderr.strip().rpartition("\n")[2] or "no reason given"
        raise GatherError(f"{python}: cannot make a virtual environment: {last}")
    names = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    made = root.joinpath("venv", *names)
    if not made.exists():
        raise GatherError(f"{python}: is no Python: it made no virtual environment")
    return made


def demand_wheels(wheel: Wheel, sources: Sources, target: TargetPython) -> None:
    """Raise Unavailable where a package at hand requires another by URL.

    An installer follows what is required by a file that it is given: uv by URL, pip in any case.
    What the profile itself requires, it may: the user has said from where.
    """
    own = _read_all(wheel.requires_dist)
    given = _read_all(list_requirements(sources.with_))
    extras = {"", *(extra for item in (*own, *given) for extra in item.extras)}
    held = [item for item in own if applies(item, target.markers)]
    held += [
        item
        for item in given
        if any(applies(item, {**target.markers, "extra": extra}) for extra in extras)
    ]
    demand_names(held, "only --binary-allow-builds follows it, and builds what is there")


def _read_all(texts: Iterable[str]) -> list[Requirement]:
    return [item for item in map(read_requirement, texts) if item is not None]


def _install(
    wheel: Wheel, target: TargetPython, root: Path, sources: Sources, timeout: float
) -> InstallReport:
    cwd = root / "empty"
    builds = sources.builds
    installer = find_installer(target.executable, cwd=cwd, timeout=timeout, builds=builds)
    requirements = describe_given(sources.with_, target.tags, root / "constraints.txt")
    path = wheel.path.resolve()
    try:
        requirements += (*sources.requires, str(path))
        error = install(installer, requirements, index=sources.index, cwd=cwd, timeout=timeout)
    except (GatherError, Unavailable) as broken:
        raise type(broken)(_shorten(str(broken), path.parent, root)) from broken
    found = Differences() if error else compare(wheel, target)
    return InstallReport(
        python=target.name,
        installer=installer.name,
        error=_shorten(error, path.parent, root),
        unrecorded=found.unrecorded,
        altered=found.altered,
        missing=found.missing,
    )


def _shorten(text: str, *folders: Path) -> str:
    """Leave file names alone of paths into these folders."""
    for folder in folders:
        text = text.replace(f"{folder.as_uri()}/", "").replace(f"{folder}{os.sep}", "")
    return text
