"""A container of an image as a place: nothing is there but it, the package, and what it requires.

Where the image has a Python that takes the package, or this host's runs there, probes run with
that; elsewhere the system's own loader still loads every object.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TypeVar

import packaging

from binary_checks.errors import BinaryChecksError, GatherError, NothingNamed, Unavailable
from binary_checks.model import Ending, InstallReport, Kind, Package, Wheel
from binary_checks.model.places import (
    CleanSystem,
    Conditions,
    InstalledFolders,
    LoaderAnswer,
    ProbeAnswer,
    TargetPython,
)
from binary_checks.places.confinement import find_devices
from binary_checks.places.container_systems import SystemLoader, look_around
from binary_checks.places.containers import (
    WORK,
    Container,
    ContainerEngine,
    PulledImage,
    find_engine,
    find_image,
)
from binary_checks.places.conversation import Conversation
from binary_checks.places.foreign_tags import find_python_version
from binary_checks.places.host_place import HostPlace
from binary_checks.places.image_choice import ImageEntry, choose_image
from binary_checks.places.image_prefix import (
    Cargo,
    Prefix,
    UnpackedFiles,
    demand_movable,
    demand_system,
    fill,
    imagine_python,
    let_read,
    unpack_files,
)
from binary_checks.places.interpreter import read_target, require_fit
from binary_checks.places.left_behind import hash_file
from binary_checks.places.mounted_python import MountedPython, demand_fitting, mount_python
from binary_checks.places.running import OPTIONS, judge_end, limit

PACKAGE, DECOYS, PROBE = "/mnt/package", "/mnt/decoys", "/mnt/probe"
"""Where the prefix with the package lies there, libraries of ours, and a probe of the user's."""
_PROBES, _SCRIPTS, _PACKAGING = "/mnt/probes", "/mnt/scripts", "/mnt/packaging"

_Answer = TypeVar("_Answer")


class ImagePlace(HostPlace):
    """A container, in which a package is unpacked, a wheel beside what it requires."""

    serves = (Package,)
    spelled = ("image",)

    def __init__(self, *arguments: object, **keywords: object) -> None:
        super().__init__(*arguments, **keywords)  # type: ignore[arg-type]
        self._found: dict[str, object] = {}
        self._containers: dict[bool, Container] = {}  # by whether they have the host's GPUs
        self._files = ExitStack()
        self._prefix: Prefix | None = None
        self._base = ""  # the interpreter that the environment is made of

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
    def system(self) -> CleanSystem:
        """The system of the image, which is pulled and started when it is asked for first."""
        return self._once("system", self._look)

    @property
    def _entry(self) -> ImageEntry:
        settings = self.settings
        return self._once("entry", lambda: choose_image(settings.name.argument, settings.claims))

    @property
    def _image(self) -> tuple[ContainerEngine, PulledImage]:
        return self._once("image", self._find_image)

    def _find_image(self) -> tuple[ContainerEngine, PulledImage]:
        reference, label = self._entry.reference, self.settings.name.label
        try:
            engine = find_engine()
            return engine, find_image(engine, reference)
        except GatherError as error:
            raise GatherError(f"{label}: {error}") from None

    @property
    def _mounted(self) -> MountedPython:
        return self._once("mounted", lambda: mount_python(self.settings.python))

    def _open(self, *, gpu: bool = False) -> Container:
        """Give the container of this package; one that ended at a limit is started anew."""
        there = self._containers.get(gpu)
        if there is None or not there.runs:
            there = self._containers[gpu] = self._start(gpu=gpu)
        return there

    def _start(self, *, gpu: bool) -> Container:
        engine, image = self._image
        mounts = tuple(self._list_mounts())
        try:
            return Container(engine, image, replace(self.limits, gpu=gpu), mounts)
        except GatherError as error:
            with_gpus = " with the GPUs of this host" if gpu else ""
            raise GatherError(f"{self.settings.name.label}{with_gpus}: {error}") from None

    def _list_mounts(self) -> Iterator[tuple[Path, str]]:
        for target in (PACKAGE, DECOYS, PROBE):
            folder = self.folder / posixpath.basename(target)
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
            yield folder, target
        places = resources.files("binary_checks.places").joinpath("scripts")
        probes = resources.files("binary_checks.probes")
        yield self._files.enter_context(resources.as_file(probes)), _PROBES
        yield self._files.enter_context(resources.as_file(places)), _SCRIPTS
        yield Path(packaging.__file__).parent, _PACKAGING
        try:
            yield from self._mounted.mounts
        except Unavailable:
            return  # it is said where a Python is wanted

    def _look(self) -> CleanSystem:
        """Ask the system of the container what it is."""
        _, image = self._image
        entry = self._entry
        known = CleanSystem(name=entry.name, pinned=image.pinned, reservation=entry.reservation)
        return look_around(self._open(), known, self.timeout)

    @property
    def target(self) -> TargetPython:
        """What the interpreter in which the package lies says of itself, or else the first."""
        if self._target is None:
            self._target = self._ask(next(self._list_pythons()))
        return self._target

    def _list_pythons(self) -> Iterator[str]:
        """List the interpreters that there are: the image's, then this host's, if it runs there."""
        yield from self.system.pythons
        yield self._once("fitting", self._demand_fitting)

    def _demand_fitting(self) -> str:
        demand_fitting(self._mounted, self._open(), self.system.title, self.timeout)
        return self._mounted.program

    @property
    def installed(self) -> InstalledFolders | None:
        """The prefix on this host that stands for an environment of the container."""
        if self._prefix is None or not self._prefix.site:
            return None
        site = self._prefix.folder / self._prefix.site
        return InstalledFolders(site_packages=site, prefix=self._prefix.folder)

    def _ask(self, python: str) -> TargetPython:
        if not python.startswith(PACKAGE):
            self._base = python
        answer = self._run_probe(python, "identify", {"packaging": _PACKAGING}, Conditions())
        system = self.system
        if answer.outcome is not Ending.OK or not answer.answer:
            last = answer.stderr.strip().rpartition("\n")[2]
            reason = last or " ".join((answer.outcome.value, answer.detail))
            raise Unavailable(f"{system.title}: {python} does not run there: {reason}")
        target = read_target(Path(python), answer.answer)
        return replace(target, system=system.title, reservation=system.reservation)

    def _install(self, package: Package) -> InstallReport | None:
        """Unpack it for the first Python there that takes it."""
        demand_movable(package)
        demand_system(package.claims, self.system)
        if not isinstance(package, Wheel):
            raise Unavailable(f"an image only loads the objects of {package.noun}")
        refusals = []
        try:
            for python in self._list_pythons():
                target = self._ask(python)
                try:
                    require_fit(package, target)
                except Unavailable as error:
                    refusals.append(str(error))
                    continue
                self._target = self._make_environment(target)
                return self._fill(package, self._target)
        except Unavailable as error:
            refusals.append(str(error))
        raise NothingNamed(f"it cannot be imported there: {refusals[-1]}")

    def _make_environment(self, target: TargetPython) -> TargetPython:
        """Write what makes a folder a virtual environment of an interpreter of the container."""
        home = target.executable.parent
        prefix = self.folder / posixpath.basename(PACKAGE)
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "python").symlink_to(target.executable)
        lines = (f"home = {home}", "include-system-site-packages = false", "")
        (prefix / "pyvenv.cfg").write_text("\n".join(lines), encoding="utf-8")
        self._prefix = Prefix(folder=prefix, site="")
        let_read(prefix)
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
                system=self.system,
                settings=self.settings,
                requires=self.requires,
            )
        )
        let_read(self._prefix.folder)
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
        """Run a probe in a process of its own, in the container."""
        conditions = self._put_decoys(conditions or Conditions())
        shared = {"bytecode": f"{WORK}/bytecode"} if conditions.bytecode else {}
        where = {"site_packages": str(self.site_packages)} if self._target else {}
        python = str(self.target.executable)
        return self._run_probe(python, script, {**request, **where, **shared}, conditions, timeout)

    def _run_probe(
        self,
        python: str,
        script: str | Path,
        request: Mapping[str, object],
        conditions: Conditions,
        timeout: float | None = None,
    ) -> ProbeAnswer:
        timeout = self.timeout if timeout is None else timeout
        words: tuple[str, ...] = (f"{_PROBES}/{script}/script.py",)
        container = self._open(gpu=conditions.gpu and _has_nvidia())
        if isinstance(script, Path):
            shutil.copyfile(script, self.folder / posixpath.basename(PROBE) / script.name)
            let_read(self.folder / posixpath.basename(PROBE))
            words = (f"{PROBE}/{script.name}", f"{_PROBES}/process.py")
        if self._base == self._found.get("fitting"):  # the mounted one
            conditions = _lead(conditions, self._mounted.variables)
        alone = () if conditions.site else ("-S",)
        limits = limit(conditions, self.limits, timeout)
        # It ends what the probe leaves behind.
        supervised = (python, "-I", "-S", f"{_SCRIPTS}/supervisor.py")
        ended = container.run(
            (*supervised, python, *alone, *OPTIONS, *words),
            timeout=timeout,
            variables=conditions.variables,
            talk=Conversation({**request, **limits}, conditions.stages),
        )
        return judge_end(ended, timeout)

    def _put_decoys(self, conditions: Conditions) -> Conditions:
        """Lead the loader to these files first, where they lie there."""
        conditions = super()._put_decoys(conditions)
        folder = self.folder / posixpath.basename(DECOYS)
        led = conditions.variables.get("LD_LIBRARY_PATH", "")
        if not conditions.decoys:
            return conditions
        let_read(folder)
        paths = led.replace(str(folder), DECOYS)
        return replace(conditions, variables={**conditions.variables, "LD_LIBRARY_PATH": paths})

    def driver_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Give nothing: the engine puts the driver where loaders find it."""
        del environ
        return {}

    def resolve(self, package: Package, paths: Sequence[str]) -> tuple[LoaderAnswer, ...]:
        """Have the system's loader load objects, each in a process of its own."""
        demand_system(package.claims, self.system)
        prefix = self._once("prefix", partial(self._lay_out, package))
        programs = {item.path for item in package.objects if item.kind is Kind.EXECUTABLE}
        loader = SystemLoader(container=self._open(), system=self.system, timeout=self.timeout)
        found: dict[str, LoaderAnswer] = {}
        for python in (True, False):
            places = {
                f"{PACKAGE}/{prefix.place(package, path)}": path
                for path in paths
                if (path not in programs) is python
            }
            for place, answer in loader.load(tuple(places), python=python).items():
                found[places[place]] = replace(
                    answer,
                    path=places[place],
                    printed=_rename(answer.printed, package, prefix),
                    complaints=_rename(answer.complaints, package, prefix),
                )
        return tuple(found[path] for path in paths)

    def _lay_out(self, package: Package) -> Prefix | UnpackedFiles:
        if isinstance(package, Wheel):
            return self._unpack(package)
        laid = unpack_files(package, self.folder / posixpath.basename(PACKAGE), self.timeout)
        let_read(laid.folder)
        return laid

    def _unpack(self, wheel: Wheel) -> Prefix:
        """Take it as it was installed, or without a Python for it unpack it all the same."""
        try:
            self.demand(wheel)
        except Unavailable:
            if self._prefix is not None:  # it was put there and refused
                raise
        if self._prefix is None:
            folder = self.folder / posixpath.basename(PACKAGE)
            self._prefix = Prefix(folder=folder, site=wheel.layout.site_packages)
            target = imagine_python(find_python_version(wheel), self.system)
            report = self._fill(wheel, target)
            if report is not None:
                raise Unavailable(f"its requirements cannot be had: {report.error}")
        return self._prefix

    def digest(self, path: str) -> str:
        """The SHA-256 of a file there."""
        place = os.path.normpath(self.site_packages / path)
        if self._prefix is not None and Path(place).is_relative_to(PACKAGE):
            return hash_file(self._prefix.folder / os.path.relpath(place, PACKAGE))
        ended = self._open().run(("sha256sum", place), timeout=self.timeout)
        return ended.stdout.partition(" ")[0] if ended.status == 0 else ""

    def scrub(self, text: str) -> str:
        """Write paths relative to site-packages, and leave no temporary one."""
        return super().scrub(text).replace(f"{PACKAGE}/", "environment/")

    def close(self) -> None:
        """End the containers, and remove what was made."""
        for container in self._containers.values():
            container.close()
        self._containers.clear()
        self._files.close()
        super().close()


def _lead(conditions: Conditions, variables: Mapping[str, str]) -> Conditions:
    """Lead loaders to the interpreter's own library, after what they are led to."""
    led = [each.get("LD_LIBRARY_PATH", "") for each in (conditions.variables, variables)]
    paths = {"LD_LIBRARY_PATH": ":".join(filter(None, led))} if any(led) else {}
    return replace(conditions, variables={**conditions.variables, **paths})


def _has_nvidia() -> bool:
    return any(device.name.startswith("nvidia") for device in find_devices())


def _rename(text: str, package: Package, prefix: Prefix | UnpackedFiles) -> str:
    """Write paths as they are in the package's own prefix."""

    def find(match: re.Match[str]) -> str:
        return prefix.find(package, posixpath.normpath(match[1]))

    return re.sub(rf"{PACKAGE}/([^\s:()]+)", find, text)
