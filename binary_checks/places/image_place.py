"""A container of an image as a place that contains only the package and its requirements.

Probes run with a Python of the image that accepts the package, or with this host's Python if it
runs in the container. If there is neither, the system's own loader can still load every object.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import ClassVar, TypeVar

import packaging
from packaging.tags import Tag, compatible_tags, cpython_tags

from binary_checks.errors import BinaryChecksError, GatherError, NothingNamed, Unavailable
from binary_checks.model import (
    ANY_SYSTEM,
    Claims,
    CleanSystem,
    CondaLike,
    Conditions,
    Ending,
    InstalledFolders,
    InstalledPackage,
    InstallReport,
    Kind,
    LoaderAnswer,
    Package,
    ProbeAnswer,
    SystemClaim,
    TargetPython,
    Wheel,
    applies,
    read_requirement,
)
from binary_checks.places.containers import (
    WORK,
    Container,
    ContainerEngine,
    PulledImage,
    SystemLoader,
    find_engine,
    find_image,
    identify_system,
)
from binary_checks.places.foreign_tags import find_python_version
from binary_checks.places.host_place import HostPlace, PlaceSettings, hash_file
from binary_checks.places.image_table import ImageEntry, choose_image
from binary_checks.places.installers import (
    Installer,
    describe_given,
    find_installer,
    find_uv,
    install,
)
from binary_checks.places.mounted_pythons import (
    MountedPython,
    find_managed_pythons,
    mount_managed,
    mount_python,
    require_fitting,
)
from binary_checks.places.processes import Conversation
from binary_checks.places.running import OPTIONS, judge_end, limit, read_target, require_fit
from binary_checks.places.sandbox import find_devices
from binary_checks.places.unpacked import RefusedMember, unpack
from binary_checks.places.venv import require_wheels
from binary_checks.trees import open_tree

# The place, and the interpreters in it.

PACKAGE, DECOYS, PROBE = "/mnt/package", "/mnt/decoys", "/mnt/probe"
"""Folders in the container: the package's prefix, decoy libraries, and the user's probe."""
_PROBES, _SCRIPTS, _PACKAGING = "/mnt/probes", "/mnt/scripts", "/mnt/packaging"

_Answer = TypeVar("_Answer")


class ImagePlace(HostPlace):
    """A container with an unpacked package; for a wheel also with its requirements."""

    serves = (Package,)
    spelled = ("image",)

    def __init__(self, *arguments: object, **keywords: object) -> None:
        super().__init__(*arguments, **keywords)  # type: ignore[arg-type]
        self._found: dict[str, object] = {}
        # containers by whether they can use the host's GPUs
        self._containers: dict[bool, Container] = {}
        self._files = ExitStack()
        self._prefix: Prefix | None = None
        self._base = ""  # the interpreter from which the environment is made

    def _once(self, name: str, make: Callable[[], _Answer]) -> _Answer:
        """Return the result of the first call of ``make``; a failure is remembered, too."""
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
        """The system of the image; the image is pulled and started when it is first needed."""
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
    def _mounted(self) -> Mapping[str, MountedPython]:
        """The interpreters of this host that are mounted, by their paths in the container.

        The first is the one that the user named, unless it cannot be mounted.
        """
        return self._once("mounted", lambda: dict(self._mount_all()))

    def _mount_all(self) -> Iterator[tuple[str, MountedPython]]:
        with suppress(Unavailable):  # raised again when a Python is needed
            found = self._mount_named()
            yield found.program, found
        for number, each in enumerate(find_managed_pythons(self.settings.claims), 1):
            found = mount_managed(each, number)
            yield found.program, found

    def _mount_named(self) -> MountedPython:
        return self._once("named", lambda: mount_python(self.settings.python))

    def _open(self, *, gpu: bool = False) -> Container:
        """Return the running container of this package.

        Start a new container if the previous one was ended at a limit.
        """
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
        for each in self._mounted.values():
            yield from each.mounts

    def _look(self) -> CleanSystem:
        """Ask the container's system for its libc, loader and Pythons."""
        _, image = self._image
        entry = self._entry
        known = CleanSystem(name=entry.name, pinned=image.pinned, reservation=entry.reservation)
        return identify_system(self._open(), known, self.timeout)

    @property
    def target(self) -> TargetPython:
        """The interpreter of the package's environment, or else the first one available."""
        if self._target is None:
            self._target = self._ask(next(self._list_pythons()))
        return self._target

    def _list_pythons(self) -> Iterator[str]:
        """Yield the image's interpreters, and then those of this host that run in the container.

        Raises Unavailable if none of this host runs there.
        """
        yield from self.system.pythons
        lacks: list[Unavailable] = []
        fitting = False
        for program in self._mounted:
            try:
                self._once(f"fitting {program}", partial(self._require_fitting, program))
            except Unavailable as error:
                lacks.append(error)
                continue
            fitting = True
            yield program
        if not fitting:
            self._mount_named()
            raise lacks[0]

    def _require_fitting(self, program: str) -> None:
        require_fitting(self._mounted[program], self._open(), self.system.title, self.timeout)

    @property
    def installed(self) -> InstalledFolders | None:
        """The prefix on this host that is mounted as the container's environment."""
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
        """Install the package for the first Python in the container that accepts it."""
        require_movable(package)
        require_system(package.claims, self.system)
        if not isinstance(package, Wheel):
            raise Unavailable(
                f"in an image, {package.noun} is not installed: only its objects are loaded"
            )
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
        """Make a virtual environment for an interpreter in the container, without running it."""
        home = target.executable.parent
        prefix = self.folder / posixpath.basename(PACKAGE)
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "python").symlink_to(target.executable)
        lines = (f"home = {home}", "include-system-site-packages = false", "")
        (prefix / "pyvenv.cfg").write_text("\n".join(lines), encoding="utf-8")
        self._prefix = Prefix(folder=prefix, site="")
        make_readable(prefix)
        made = self._ask(f"{PACKAGE}/bin/python")
        site = os.path.relpath(made.site_packages, PACKAGE)
        self._prefix = replace(self._prefix, site=site)
        return made

    def _fill(self, wheel: Wheel, target: TargetPython) -> InstallReport | None:
        assert self._prefix is not None
        refused = fill(
            WheelInstallation(
                wheel=wheel,
                prefix=self._prefix,
                target=target,
                system=self.system,
                settings=self.settings,
                requires=self.requires,
                interpreter=self._find_host_python(target),
            )
        )
        make_readable(self._prefix.folder)
        if not refused:
            return None
        return InstallReport(python=target.name, installer="uv", error=self.scrub(refused))

    def _find_host_python(self, target: TargetPython) -> Path | None:
        """Return a Python like the environment's that runs on this host, or None."""
        if self._base in self._mounted:
            return self._mounted[self._base].host
        for each in find_managed_pythons(self.settings.claims):
            same = target.version.startswith("{}.{}.".format(*each.version[:2]))
            if same and each.free_threaded == target.free_threaded and not each.musl:
                return each.program
        return None

    def run(
        self,
        script: str | Path,
        request: Mapping[str, object],
        *,
        timeout: float | None = None,
        conditions: Conditions | None = None,
    ) -> ProbeAnswer:
        """Run a probe in a separate process in the container."""
        conditions = self._put_decoys(conditions or Conditions())
        shared = {"bytecode": f"{WORK}/bytecode"} if conditions.bytecode else {}
        where = {"site_packages": str(self.site_packages)} if self._target else {}
        python = str(self.target.executable)
        return self._run_probe(python, script, {**request, **where, **shared}, conditions, timeout)

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that each probe gets: none, as a package knows only what it brings along."""
        return {}

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
            make_readable(self.folder / posixpath.basename(PROBE))
            words = (f"{PROBE}/{script.name}", f"{_PROBES}/process.py")
        if self._base in self._mounted:
            conditions = _lead(conditions, self._mounted[self._base].variables)
        alone = () if conditions.site else ("-S",)
        limits = limit(conditions, self.limits, timeout)
        # The supervisor ends the processes that the probe leaves behind.
        supervised = (python, "-I", "-S", f"{_SCRIPTS}/supervisor.py")
        ended = container.run(
            (*supervised, python, *alone, *OPTIONS, *words),
            timeout=timeout,
            variables={**self.variables, **conditions.variables},
            talk=Conversation({**request, **limits}, conditions.stages),
        )
        return judge_end(ended, timeout)

    def _put_decoys(self, conditions: Conditions) -> Conditions:
        """Write the decoys, with the paths that they have in the container."""
        conditions = super()._put_decoys(conditions)
        folder = self.folder / posixpath.basename(DECOYS)
        led = conditions.variables.get("LD_LIBRARY_PATH", "")
        if not conditions.decoys:
            return conditions
        make_readable(folder)
        paths = led.replace(str(folder), DECOYS)
        return replace(conditions, variables={**conditions.variables, "LD_LIBRARY_PATH": paths})

    def driver_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return no variables: the engine puts the driver where loaders find it."""
        del environ
        return {}

    def resolve(self, package: Package, paths: Sequence[str]) -> tuple[LoaderAnswer, ...]:
        """Load objects with the system's loader, each in a separate process."""
        require_system(package.claims, self.system)
        prefix = self._once("prefix", partial(self._lay_out, package))
        programs = {item.path for item in package.objects if item.kind is Kind.EXECUTABLE}
        loader = SystemLoader(container=self._open(), system=self.system, timeout=self.timeout)
        found: dict[str, LoaderAnswer] = {}
        for python in (True, False):
            places = {
                posixpath.join(prefix.root, prefix.place(package, path)): path
                for path in paths
                if (path not in programs) is python
            }
            for place, answer in loader.load(tuple(places), python=python).items():
                found[places[place]] = replace(
                    answer,
                    path=places[place],
                    printed=prefix.rename(package, answer.printed),
                    complaints=prefix.rename(package, answer.complaints),
                )
        return tuple(found[path] for path in paths)

    def _lay_out(self, package: Package) -> Prefix | UnpackedFiles:
        if isinstance(package, Wheel):
            return self._unpack(package)
        laid = unpack_files(package, self.folder / posixpath.basename(PACKAGE), self.timeout)
        make_readable(laid.folder)
        return laid

    def _unpack(self, wheel: Wheel) -> Prefix:
        """Install the wheel if there is a Python for it; otherwise only unpack it."""
        try:
            self.require_installed(wheel)
        except Unavailable:
            # the wheel was to be installed in the prefix, and was refused
            if self._prefix is not None:
                raise
        if self._prefix is None:
            folder = self.folder / posixpath.basename(PACKAGE)
            self._prefix = Prefix(folder=folder, site=wheel.layout.site_packages)
            target = describe_absent_python(find_python_version(wheel), self.system)
            report = self._fill(wheel, target)
            if report is not None:
                raise Unavailable(f"its requirements cannot be installed: {report.error}")
        return self._prefix

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file in the container, in hexadecimal.

        Return "" if it cannot be read.
        """
        place = os.path.normpath(self.site_packages / path)
        if self._prefix is not None and Path(place).is_relative_to(PACKAGE):
            return hash_file(self._prefix.folder / os.path.relpath(place, PACKAGE))
        ended = self._open().run(("sha256sum", place), timeout=self.timeout)
        return ended.stdout.partition(" ")[0] if ended.status == 0 else ""

    def scrub(self, text: str) -> str:
        """Return the text with paths relative to site-packages, and without temporary folders."""
        return super().scrub(text).replace(f"{PACKAGE}/", "environment/")

    def close(self) -> None:
        """End the containers, and remove the temporary folder."""
        for container in self._containers.values():
            container.close()
        self._containers.clear()
        self._files.close()
        super().close()


def _lead(conditions: Conditions, variables: Mapping[str, str]) -> Conditions:
    """Append the folders of the interpreter's libraries to LD_LIBRARY_PATH."""
    led = [each.get("LD_LIBRARY_PATH", "") for each in (conditions.variables, variables)]
    paths = {"LD_LIBRARY_PATH": ":".join(filter(None, led))} if any(led) else {}
    return replace(conditions, variables={**conditions.variables, **paths})


def _has_nvidia() -> bool:
    return any(device.name.startswith("nvidia") for device in find_devices())


# Installation for another system: the wheel is unpacked, and its requirements are resolved for the
# container's Python.
#
# During the installation no code of a package runs: the wheel's files are written to the paths that
# installers use, and uv accepts only wheels for the requirements.

_ELSEWHERE = (InstalledPackage, CondaLike)
"""Packages that need other packages; these are not resolved for an image."""
_GLIBC = (17, 28, *range(31, 41))
"""The minor versions of glibc that uv 0.13 accepts as ``--python-platform``."""
_PLACED = re.compile(rf"{PACKAGE}/([^\s:()]+)")
_PREFIX = "lib/python*/site-packages"
"""The folder of packages in a prefix that uv makes, with the version of uv's own interpreter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """A folder of this host that is mounted as an environment of another system."""

    folder: Path
    site: str  # path of site-packages in the prefix: "lib/python3.13/site-packages"
    root: ClassVar[str] = PACKAGE

    def place(self, package: Package, path: str) -> str:
        """Convert a path in the package to the path in this prefix.

        The version of Python in the two paths may differ.
        """
        inside = package.layout.inside(path)
        return path if inside is None else f"{self.site}/{inside}"

    def find(self, package: Package, place: str) -> str:
        """Convert a path in this prefix to the path in the package: the inverse of `place`."""
        if place.startswith(f"{self.site}/"):
            return package.layout.place(place.removeprefix(f"{self.site}/"))
        return place

    def rename(self, package: Package, text: str) -> str:
        """Replace paths in the container by paths in the package."""
        return _PLACED.sub(lambda match: self.find(package, posixpath.normpath(match[1])), text)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedFiles:
    """A folder of this host with the members of a package that no installer can install."""

    folder: Path
    # names of members, which are paths in that folder, by path in the package
    names: Mapping[str, str]
    paths: Mapping[str, str]  # paths in the package by names of members
    root: ClassVar[str] = PACKAGE

    def place(self, package: Package, path: str) -> str:
        """Convert an object's path in the package to its path in the folder."""
        del package
        return self.names.get(path, path)

    def find(self, package: Package, place: str) -> str:
        """Convert an object's path in the folder to its path in the package."""
        del package
        return self.paths.get(place, place)

    def rename(self, package: Package, text: str) -> str:
        """Replace paths in the container by paths in the package."""
        return _PLACED.sub(lambda match: self.find(package, posixpath.normpath(match[1])), text)


def require_movable(package: Package) -> None:
    """Raise NothingNamed for a package that runs only together with other packages."""
    if isinstance(package, _ELSEWHERE):
        raise NothingNamed(f"{package.noun} cannot be tested in an image")


def unpack_files(package: Package, folder: Path, seconds: float) -> UnpackedFiles:
    """Write all members of any package below a folder. Raises Unavailable, GatherError."""
    require_movable(package)
    folder.mkdir(exist_ok=True)
    with closing(open_tree(package.path)) as tree:
        try:
            unpack(tree, package, folder, seconds=seconds)
        except RefusedMember as error:
            raise Unavailable(f"it cannot be unpacked: {error}") from error
    members = [member for member in package.members if not member.is_directory]
    names = {member.path: member.archive_name for member in members}
    return UnpackedFiles(
        folder=folder, names=names, paths={name: path for path, name in names.items()}
    )


def require_system(claims: Claims, system: CleanSystem) -> None:
    """Raise NothingNamed if the package does not claim to run on this system."""
    if not any(_claims(claim, system) for claim in claims.systems):
        names = ", ".join(claim.name for claim in claims.systems) or "no system"
        there = f"{system.libc or 'no libc that is known'} on {system.architecture}"
        raise NothingNamed(f"the package is for {names}, image {system.name} has {there}")


def _claims(claim: SystemClaim, system: CleanSystem) -> bool:
    if claim.system == ANY_SYSTEM:
        return True
    fits = not claim.architectures or system.architecture in claim.architectures
    same = not claim.libc or claim.libc == system.libc.partition(" ")[0]
    old = claim.libc and claim.minimum is not None and claim.minimum > system.libc_version
    return claim.system == "linux" and fits and same and not old


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelInstallation:
    """A wheel, with the prefix into which it is installed and the system of that prefix."""

    wheel: Wheel
    prefix: Prefix
    target: TargetPython  # the interpreter for which requirements are resolved
    system: CleanSystem
    settings: PlaceSettings
    requires: tuple[str, ...] = ()  # additional requirements, which the wheel does not state
    interpreter: Path | None = None  # an interpreter like the target's on this host


def fill(installation: WheelInstallation) -> str:
    """Install the wheel and its requirements in the prefix; return "" or why uv refused.

    Raises Unavailable for requirements that cannot be resolved or a wheel that cannot be unpacked,
    GatherError if the network or the machine failed.
    """
    wheel, target = installation.wheel, installation.target
    require_wheels(wheel, installation.settings.given, target)
    items = (
        (text, read_requirement(text)) for text in (*wheel.requires_dist, *installation.requires)
    )
    held = tuple(text for text, item in items if item is None or applies(item, target.markers))
    refused = _install_required(held, installation) if held or installation.settings.given else ""
    (installation.prefix.folder / installation.prefix.site).mkdir(parents=True, exist_ok=True)
    unpack_wheel(wheel, installation.prefix)
    return refused


def _install_required(held: tuple[str, ...], installation: WheelInstallation) -> str:
    prefix, settings = installation.prefix, installation.settings
    root = prefix.folder.parent
    cwd = root / "empty"
    cwd.mkdir(exist_ok=True)
    # otherwise a requirement that requires the wheel would install another version of the wheel
    left_out = root / "left-out.txt"
    left_out.write_text(f"{installation.wheel.name}; sys_platform == 'never'\n", encoding="utf-8")
    installer = _find_uv(installation, cwd)
    given = describe_given(settings.given, installation.target.tags, root / "constraints.txt")
    requirements = (*given, "--override", str(left_out), *held)
    refused = install(
        installer, requirements, index=settings.index, cwd=cwd, timeout=settings.timeout
    )
    found = next(iter(prefix.folder.glob(_PREFIX)), None)
    if found is not None and found != prefix.folder / prefix.site:
        (prefix.folder / prefix.site).parent.mkdir(parents=True, exist_ok=True)
        found.rename(prefix.folder / prefix.site)
    return refused


def _find_uv(installation: WheelInstallation, cwd: Path) -> Installer:
    """Return uv with options for a Python that is not on this host; pip has no such options.

    For a free-threaded Python uv needs one: it has no option that says so.
    """
    settings, target = installation.settings, installation.target
    if find_uv() is None:
        raise Unavailable("its requirements cannot be resolved for another Python without uv")
    python = settings.python
    options: tuple[str, ...] = ("--python-version", target.version)
    if target.free_threaded:
        if installation.interpreter is None:
            version = ".".join(target.version.split(".")[:2])
            raise Unavailable(
                "its requirements cannot be resolved for a free-threaded Python that is not on "
                f"this host: uv python install {version}t"
            )
        python, options = installation.interpreter, ()
    installer = find_installer(python, cwd=cwd, timeout=settings.timeout)
    options = (*options, "--python-platform", _name_platform(installation.system))
    command = (*installer.command, "--prefix", str(installation.prefix.folder), *options)
    return replace(installer, command=command)


def _name_platform(system: CleanSystem) -> str:
    """Return the newest ``--python-platform`` of uv whose wheels run with the system's libc."""
    libc, version = system.libc.partition(" ")[0], system.libc_version
    if libc == "musl":
        return f"{system.architecture}-unknown-linux-musl"
    known = [minor for minor in _GLIBC if version and (2, minor) <= version]
    if not known:
        raise Unavailable(f"uv cannot resolve requirements for a system with {system.libc}")
    return f"{system.architecture}-manylinux_2_{known[-1]}"


def unpack_wheel(wheel: Wheel, prefix: Prefix) -> None:
    """Write the files of a wheel to the paths that installers use.

    Raises Unavailable, GatherError.
    """
    paths = {member.archive_name: member.path for member in wheel.members}
    root = prefix.folder.resolve()
    try:
        with zipfile.ZipFile(wheel.path) as archive:
            for entry in archive.infolist():
                if entry.is_dir() or entry.filename not in paths:
                    continue
                path = root / prefix.place(wheel, paths[entry.filename])
                if not path.parent.resolve().is_relative_to(root) or ".." in path.parts:
                    raise Unavailable(
                        f"{entry.filename}: leads out of the folder that it is unpacked in"
                    )
                path.parent.mkdir(parents=True, exist_ok=True)
                # Never write through a link: the environment's bin/python is a link to the image's.
                path.unlink(missing_ok=True)
                with archive.open(entry) as source, path.open("xb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
                path.chmod(0o755 if (entry.external_attr >> 16) & 0o111 else 0o644)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise Unavailable(f"it cannot be unpacked: {error}") from error
    except OSError as error:
        raise GatherError(f"{wheel.path.name}: cannot be unpacked: {error.strerror}") from error


def make_readable(folder: Path) -> None:
    """Let any user read a folder and all its contents, whatever this process's umask is."""
    for parent, _, names in os.walk(folder):
        Path(parent).chmod(0o755)
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o444)


def describe_absent_python(version: tuple[int, int], system: CleanSystem) -> TargetPython:
    """Describe a CPython that the image does not have, for which requirements are resolved."""
    platforms = tuple(_list_platforms(system))
    number = "{}.{}".format(*version)
    tags: Iterable[Tag] = (
        *cpython_tags(version, platforms=platforms),
        *compatible_tags(version, "cp{}{}".format(*version), platforms),
    )
    return TargetPython(
        executable=Path(),
        version=f"{number}.0",
        architecture=system.architecture,
        system=system.title,
        paths={},
        tags=frozenset(tags),
    )


def _list_platforms(system: CleanSystem) -> Iterable[str]:
    libc, *_ = system.libc.partition(" ")
    major, minor = (*system.libc_version, 0, 0)[:2]
    name = "musllinux" if libc == "musl" else "manylinux"
    older = ("2014", "2010", "1") if name == "manylinux" else ()
    yield from (f"{name}_{major}_{each}_{system.architecture}" for each in range(minor, -1, -1))
    yield from (f"{name}{each}_{system.architecture}" for each in older)
    yield f"linux_{system.architecture}"
