"""A clean root file system as a place: nothing is there but it, the package, and what it requires.

Where it has a Python that takes the package, probes run with that; elsewhere the system's own
loader still loads every object.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import packaging

from binary_checks.errors import BinaryChecksError, Unavailable
from binary_checks.model import Ending, InstallReport, Kind, Package, Wheel
from binary_checks.model.places import (
    Conditions,
    InstalledFolders,
    LoaderAnswer,
    ProbeAnswer,
    TargetPython,
)
from binary_checks.model.root_filesystem import RootFilesystem
from binary_checks.places.foreign_tags import find_python_version
from binary_checks.places.host_place import HostPlace, find_decoys, find_drivers
from binary_checks.places.image_choice import find_chosen, find_with_python
from binary_checks.places.image_prefix import (
    Cargo,
    Prefix,
    UnpackedFiles,
    demand_movable,
    demand_system,
    fill,
    imagine_python,
    unpack_files,
)
from binary_checks.places.image_running import PACKAGE, Bound, ImageRunner
from binary_checks.places.images.root_folders import follow
from binary_checks.places.interpreter import read_target, require_fit
from binary_checks.places.left_behind import hash_file

_PACKAGING, _DRIVER = "/mnt/packaging", "/mnt/driver"
_KEPT = 8 << 20  # bytes of what a loader says of one object: a symbol is a line with a path
_RESOLVING = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "yes", "LD_BIND_NOW": "yes"}
"""What ldd -r sets: glibc's loader then looks up every version and symbol, and runs nothing."""
_PYTHONS_OWN = {"LD_PRELOAD": "libpthread.so.0 libdl.so.2 libutil.so.1 libm.so.6"}
"""What every CPython is linked with, so that modules use it without naming it: numpy's dladdr."""

_Answer = TypeVar("_Answer")


class ImagePlace(HostPlace):
    """A root file system, in which a package is unpacked, a wheel beside what it requires."""

    serves = (Package,)
    spelled = ("image",)

    def __init__(self, *arguments: object, **keywords: object) -> None:
        super().__init__(*arguments, **keywords)  # type: ignore[arg-type]
        self._found: dict[str, object] = {}
        self._prefix: Prefix | None = None

    def _once(self, name: str, make: Callable[[], _Answer]) -> _Answer:
        """Make it at the first call; a failure is remembered, too."""
        if name not in self._found:
            try:
                self._found[name] = make()
            except BinaryChecksError as error:
                self._found[name] = error
        found = self._found[name]
        if isinstance(found, BinaryChecksError):
            raise found.with_traceback(None)
        return found  # type: ignore[return-value]

    @property
    def system(self) -> RootFilesystem:
        """The root file system, found or built when it is asked for first."""
        return self._once("system", self._find_system)

    def _find_system(self) -> RootFilesystem:
        label = self.settings.name.label
        if not self.sandbox.holds:
            raise Unavailable(f"{label}: it runs in a sandbox alone: {self.sandbox.reason}")
        return find_chosen(self.settings.name.argument, self.settings.claims)

    @property
    def target(self) -> TargetPython:
        """What the interpreter in which the package lies says of itself, or else the first."""
        if self._target is None:
            first = next(iter(self._with_python.pythons), None)
            if first is None:
                raise Unavailable(f"image {self.system.name} has no Python")
            self._target = self._ask(first.path)
        return self._target

    @property
    def installed(self) -> InstalledFolders | None:
        """The prefix on this host that stands for an environment of the root."""
        if self._prefix is None or not self._prefix.site:
            return None
        site = self._prefix.folder / self._prefix.site
        return InstalledFolders(site_packages=site, prefix=self._prefix.folder)

    @property
    def _with_python(self) -> RootFilesystem:
        """The root in which the package is imported."""
        return self._once("python", lambda: find_with_python(self.system))

    def _ask(self, python: str) -> TargetPython:
        folder = Path(packaging.__file__).parent
        image = self._with_python
        runner = self._box(image, ((folder, _PACKAGING),))
        answer = runner.run_probe(python, "identify", {"packaging": _PACKAGING})
        if answer.outcome is not Ending.OK or not answer.answer:
            last = answer.stderr.strip().rpartition("\n")[2]
            reason = last or " ".join((answer.outcome.value, answer.detail))
            raise Unavailable(f"image {image.name}: {python} does not run there: {reason}")
        target = read_target(Path(python), answer.answer)
        return replace(target, system=image.title, reservation=image.reservation)

    def _box(
        self, image: RootFilesystem, bound: Bound = (), conditions: Conditions | None = None
    ) -> ImageRunner:
        prefix = ((self._prefix.folder, PACKAGE),) if self._prefix else ()
        return ImageRunner(
            image=image,
            sandbox=self.sandbox,
            timeout=self.timeout,
            bound=(*prefix, *bound),
            conditions=conditions or Conditions(),
        )

    def _install(self, package: Package) -> InstallReport | None:
        """Unpack it for the first Python of the image that takes it."""
        demand_movable(package)
        demand_system(package.claims, self.system)
        if not isinstance(package, Wheel):
            raise Unavailable(f"an image only loads the objects of {package.noun}")
        refusals = []
        for each in self._with_python.pythons:
            target = self._ask(each.path)
            try:
                require_fit(package, target)
            except Unavailable as error:
                refusals.append(str(error))
                continue
            self._target = self._make_environment(target)
            return self._fill(package, self._target)
        reason = refusals[0] if refusals else f"image {self.system.name} has no Python"
        raise Unavailable(f"it cannot be imported there: {reason}")

    def _make_environment(self, target: TargetPython) -> TargetPython:
        """Write what makes a folder a virtual environment of an interpreter of the image."""
        home = target.executable.parent
        prefix = self.folder / "package"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "python").symlink_to(target.executable)
        lines = (f"home = {home}", "include-system-site-packages = false", "")
        (prefix / "pyvenv.cfg").write_text("\n".join(lines), encoding="utf-8")
        self._prefix = Prefix(folder=prefix, site="")
        made = self._ask(f"{PACKAGE}/bin/python")
        site = os.path.relpath(made.site_packages, PACKAGE)
        self._prefix = replace(self._prefix, site=site)
        return made

    def _fill(self, wheel: Wheel, target: TargetPython) -> InstallReport | None:
        assert self._prefix is not None
        refused = fill(
            Cargo(
                wheel=wheel,
                prefix=self._prefix,
                target=target,
                image=self.system,
                settings=self.settings,
                requires=self.requires,
            )
        )
        if not refused:
            return None
        return InstallReport(python=target.name, installer="uv", error=self.scrub(refused))

    def run(
        self,
        script: str | Path,
        request: Mapping[str, object],
        *,
        timeout: float | None = None,
        conditions: Conditions | None = None,
    ) -> ProbeAnswer:
        """Run a probe in a process of its own, in the root."""
        conditions = self._put_decoys(conditions or Conditions())
        shared = self._share_bytecode() if conditions.bytecode else {}
        where = {"site_packages": str(self.site_packages)} if self._target else {}
        runner = self._box(self._with_python, self._bind(conditions), conditions)
        runner = replace(
            runner,
            timeout=self.timeout if timeout is None else timeout,
            writable=tuple(map(Path, shared.values())),
        )
        return runner.run_probe(str(self.target.executable), script, {**request, **where, **shared})

    def _bind(self, conditions: Conditions) -> Bound:
        """What a process finds of this host's files beside the package."""
        decoys = find_decoys(self.folder, conditions.decoys)
        own: Bound = ((decoys, str(decoys)),) if conditions.decoys else ()
        return (*own, *self._find_drivers({})) if conditions.gpu else own

    def _find_drivers(self, environ: Mapping[str, str]) -> Bound:
        from binary_checks.places.gpu_drivers import find_driver_files  # for few runs

        return self._once("drivers", lambda: find_driver_files(_DRIVER, find_drivers(environ)))

    def driver_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The host's driver lies in a folder of its own there."""
        return {"LD_LIBRARY_PATH": _DRIVER} if self._find_drivers(environ) else {}

    def resolve(self, package: Package, paths: Sequence[str]) -> tuple[LoaderAnswer, ...]:
        """Have the root's loader load objects, each in a process of its own."""
        demand_system(package.claims, self.system)
        prefix = self._once("prefix", partial(self._lay_out, package))
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            return tuple(pool.map(partial(self._resolve, package, prefix), paths))

    def _lay_out(self, package: Package) -> Prefix | UnpackedFiles:
        if isinstance(package, Wheel):
            return self._unpack(package)
        return unpack_files(package, self.folder / "package", self.timeout)

    def _unpack(self, wheel: Wheel) -> Prefix:
        """Take it as it was installed, or without a Python for it unpack it all the same."""
        try:
            self.demand(wheel)
        except Unavailable:
            if self._prefix is not None:  # it was put there and refused
                raise
        if self._prefix is None:
            self._prefix = Prefix(folder=self.folder / "package", site=wheel.layout.site_packages)
            self._prefix.folder.mkdir()
            target = imagine_python(find_python_version(wheel), self.system)
            report = self._fill(wheel, target)
            if report is not None:
                raise Unavailable(f"its requirements cannot be had: {report.error}")
        return self._prefix

    def _resolve(self, package: Package, prefix: Prefix | UnpackedFiles, path: str) -> LoaderAnswer:
        place = f"{PACKAGE}/{prefix.place(package, path)}"
        listing = () if self.system.libc.startswith("glibc") else ("--list",)
        command = (self.system.loader, *listing, place)
        programs = {item.path for item in package.objects if item.kind is Kind.EXECUTABLE}
        variables = _RESOLVING if path in programs else {**_RESOLVING, **_PYTHONS_OWN}
        runner = replace(self._box(self.system), bound=((prefix.folder, PACKAGE),))
        ended = runner.start(command, variables, kept=_KEPT)
        lack = ended.exceeded or ("" if ended.status is not None else f"hung {self.timeout:g} s")
        if len(ended.stdout) + len(ended.stderr) >= _KEPT:
            lack = "its loader says more of it than is read"
        if ended.status is not None and ended.status < 0:
            lack = f"its loader crashes (signal {-ended.status})"

        return LoaderAnswer(
            path=path,
            printed=_rename(ended.stdout, package, prefix),
            complaints=_rename(ended.stderr, package, prefix),
            lack=lack,
        )

    def digest(self, path: str) -> str:
        """The SHA-256 of a file there."""
        place = os.path.normpath(self.site_packages / path)
        if self._prefix is not None and Path(place).is_relative_to(PACKAGE):
            return hash_file(self._prefix.folder / os.path.relpath(place, PACKAGE))
        found = follow(self._with_python.path, place)  # links as a process there follows them
        return hash_file(found) if found is not None else ""

    def scrub(self, text: str) -> str:
        """Write paths relative to site-packages, and leave no temporary one."""
        return super().scrub(text).replace(f"{PACKAGE}/", "environment/")


def _rename(text: str, package: Package, prefix: Prefix | UnpackedFiles) -> str:
    """Write paths as they are in the package's own prefix."""

    def find(match: re.Match[str]) -> str:
        return prefix.find(package, posixpath.normpath(match[1]))

    return re.sub(rf"{PACKAGE}/([^\s:()]+)", find, text)
