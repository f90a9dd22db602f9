"""A container of an image as a place that contains only the package and its requirements.

Probes run with a Python of the image that accepts the package, or with this host's Python if it
runs in the container. If there is neither, the system's own loader can still load every object.
"""

from __future__ import annotations

import csv
import os
import posixpath
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

import packaging
from packaging.tags import Tag, compatible_tags, cpython_tags

from binary_checks.errors import GatherError, NothingNamed, Unavailable
from binary_checks.model import (
    ANY_SYSTEM,
    Claims,
    CleanSystem,
    CondaLike,
    Conditions,
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
    find_engine,
    find_image,
    identify_system,
    load_objects,
)
from binary_checks.places.existing import (
    Folders,
    find_metadata,
    name_projects,
    read_folders,
    select_versions,
)
from binary_checks.places.foreign_tags import find_oldest_python, list_linux_tags
from binary_checks.places.host_place import HostPlace, PlaceSettings, hash_file
from binary_checks.places.image_table import choose_image
from binary_checks.places.installers import (
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
from binary_checks.places.running import (
    OPTIONS,
    explain_silence,
    judge_end,
    limit,
    read_target,
    require_fit,
)
from binary_checks.places.sandbox import find_devices
from binary_checks.places.unpacked import RefusedMember, unpack
from binary_checks.places.venv import require_wheels
from binary_checks.trees import open_tree

# The place, and the interpreters in it.

PACKAGE, DECOYS, PROBE = "/mnt/package", "/mnt/decoys", "/mnt/probe"
"""Folders in the container: the package's prefix, decoy libraries, and the user's probe."""
_PROBES, _SCRIPTS, _PACKAGING = "/mnt/probes", "/mnt/scripts", "/mnt/packaging"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedImage:
    """An image of which a container was started, and what was found in it."""

    engine: ContainerEngine
    image: PulledImage
    system: CleanSystem
    mounted: Mapping[str, MountedPython]
    """The interpreters of this host that are mounted, by their paths in the container. The first is
    the one that the user named, unless it cannot be mounted.
    """


class ImagePlace(HostPlace):
    """A container with an unpacked package; for a wheel also with its requirements."""

    serves = (Package,)
    spelled = ("image",)

    def __init__(self, settings: PlaceSettings, requires: tuple[str, ...] = ()) -> None:
        super().__init__(settings, requires)
        # containers by whether they can use the host's GPUs
        self._containers: dict[bool, Container] = {}
        self._files = ExitStack()
        self._prefix: Prefix | None = None
        self._base = ""  # the interpreter from which the environment is made

    @property
    def system(self) -> CleanSystem:
        """The system of the image; the image is pulled and started when it is first needed."""
        return self._image.system

    @property
    def _image(self) -> StartedImage:
        return self._once("image", self._start_image)

    def _start_image(self) -> StartedImage:
        """Start a container, and ask its system for its libc, loader and Pythons."""
        entry = choose_image(self.settings.name.argument, self.settings.claims)
        try:
            engine = find_engine()
            image = find_image(engine, entry.reference)
            mounted = {each.program: each for each in self._mount_pythons()}
            mounts = tuple(self._list_mounts(mounted.values()))
            container = self._containers[False] = Container(engine, image, self.limits, mounts)
        except GatherError as error:
            raise GatherError(f"{self.label}: {error}") from None
        known = CleanSystem(name=entry.name, pinned=image.pinned, reservation=entry.reservation)
        return StartedImage(
            engine=engine,
            image=image,
            system=identify_system(container, known, self.timeout),
            mounted=mounted,
        )

    def _mount_pythons(self) -> Iterator[MountedPython]:
        with suppress(Unavailable):  # raised again when a Python is needed
            yield mount_python(self.settings.python)
        for number, each in enumerate(find_managed_pythons(self.settings.claims), 1):
            yield mount_managed(each, number)

    def _list_mounts(self, mounted: Iterable[MountedPython]) -> Iterator[tuple[Path, str]]:
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
        for each in mounted:
            yield from each.mounts

    def _open(self, *, gpu: bool = False) -> Container:
        """Return the running container of this package.

        Start a new container if the previous one was ended at a limit.
        """
        there, own = self._image, self._containers.get(gpu)
        if own is None or not own.runs:
            limits = replace(self.limits, gpu=gpu)
            # made anew, as an installation that fails removes the folder of this place
            mounts = tuple(self._list_mounts(there.mounted.values()))
            try:
                own = Container(there.engine, there.image, limits, mounts)
            except GatherError as error:
                with_gpus = " with the GPUs of this host" if gpu else ""
                raise GatherError(f"{self.label}{with_gpus}: {error}") from None
            self._containers[gpu] = own
        return own

    def _find_target(self) -> TargetPython:
        """Return the first interpreter available, until the package has an environment."""
        return self._ask(next(self._list_pythons()))

    def _list_pythons(self) -> Iterator[str]:
        """Yield the image's interpreters, and then those of this host that run in the container.

        Raises Unavailable if none of this host runs there.
        """
        yield from self.system.pythons
        lacks: list[Unavailable] = []
        there = self._image
        for program, python in there.mounted.items():
            try:
                require_fitting(python, self._open(), self.system.title, self.timeout)
            except Unavailable as error:
                lacks.append(error)
                continue
            yield program
        if len(lacks) == len(there.mounted):
            mount_python(self.settings.python)  # raises the reason why it is not mounted
            raise lacks[0]

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
        if reason := explain_silence(answer):
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
            wheel,
            self._prefix,
            target,
            self.system,
            self.settings,
            requires=self.requires,
            interpreter=self._find_host_python(target),
        )
        make_readable(self._prefix.folder)
        if not refused:
            return None
        return InstallReport(python=target.name, installer="uv", error=self.scrub(refused))

    def _find_host_python(self, target: TargetPython) -> Path | None:
        """Return a Python like the environment's that runs on this host, or None."""
        if self._base in self._image.mounted:
            return self._image.mounted[self._base].host
        for each in find_managed_pythons(self.settings.claims):
            same = target.version.startswith("{}.{}.".format(*each.version[:2]))
            if same and each.free_threaded == target.free_threaded and not each.musl:
                return each.program
        return None

    def _start(
        self,
        script: str | Path,
        request: Mapping[str, object],
        conditions: Conditions,
        timeout: float,
    ) -> ProbeAnswer:
        """Run a probe in a separate process in the container."""
        conditions = self._put_decoys(conditions)
        shared = {"bytecode": f"{WORK}/bytecode"} if conditions.bytecode else {}
        python = str(self.target.executable)
        return self._run_probe(python, script, {**request, **shared}, conditions, timeout)

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
        path = f"{_PROBES}/{script}/script.py"
        container = self._open(gpu=conditions.gpu and _has_nvidia())
        if isinstance(script, Path):
            shutil.copyfile(script, self.folder / posixpath.basename(PROBE) / script.name)
            make_readable(self.folder / posixpath.basename(PROBE))
            path = f"{PROBE}/{script.name}"
        if self._base in self._image.mounted:
            # the interpreter's libraries are found after those of the probe
            own, variables = self._image.mounted[self._base].variables, conditions.variables
            led = [each.get("LD_LIBRARY_PATH", "") for each in (variables, own)]
            paths = {"LD_LIBRARY_PATH": ":".join(filter(None, led))} if any(led) else {}
            conditions = replace(conditions, variables={**variables, **paths})
        alone = () if conditions.site else ("-S",)
        limits = limit(conditions, self.limits, timeout)
        # The supervisor ends the processes that the probe leaves behind.
        supervised = (python, "-I", "-S", f"{_SCRIPTS}/supervisor.py")
        ended = container.run(
            (*supervised, python, *alone, *OPTIONS, f"{_PROBES}/process.py", path),
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
        prefix = self._lay_out(package)
        programs = {item.path for item in package.objects if item.kind is Kind.EXECUTABLE}
        container = self._open()
        found: dict[str, LoaderAnswer] = {}
        for python in (True, False):
            places = {
                posixpath.join(prefix.root, prefix.place(package, path)): path
                for path in paths
                if (path not in programs) is python
            }
            answers = load_objects(
                container, self.system, self.timeout, tuple(places), python=python
            )
            for place, answer in answers.items():
                found[places[place]] = replace(
                    answer,
                    path=places[place],
                    printed=prefix.rename(package, answer.printed),
                    complaints=prefix.rename(package, answer.complaints),
                )
        return tuple(found[path] for path in paths)

    def _lay_out(self, package: Package) -> Prefix:
        """Install a wheel if there is a Python for it; otherwise only unpack the package."""
        if not isinstance(package, Wheel):
            laid = unpack_files(package, self.folder / posixpath.basename(PACKAGE), self.timeout)
            make_readable(laid.folder)
            return laid
        try:
            self.require_installed(package)
        except Unavailable:
            # the wheel was to be installed in the prefix, and was refused
            if self._prefix is not None:
                raise
        if self._prefix is None:
            # the folder of this place is a new one after an installation that failed
            folder = self.folder / posixpath.basename(PACKAGE)
            self._prefix = Prefix(folder=folder, site=package.layout.site_packages)
            target = describe_absent_python(find_oldest_python(package)[0], self.system)
            report = self._fill(package, target)
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
_PREFIX = "lib/python*/site-packages"
"""The folder of packages in a prefix that uv makes, with the version of uv's own interpreter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """Where the files of a package are in a container, and in which folder of this host."""

    folder: Path  # the folder of this host that is mounted at the root
    # path of site-packages below the root ("lib/python3.13/site-packages"), or absolute in an image
    site: str
    root: str = PACKAGE
    # for a package that is unpacked but not installed: the paths of its files below the root, by
    # their paths in the package, and the reverse
    names: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)

    def place(self, package: Package, path: str) -> str:
        """Convert a path in the package to the path below the root.

        The version of Python in the two paths may differ.
        """
        inside = None if self.names else package.layout.inside(path)
        return self.names.get(path, path) if inside is None else f"{self.site}/{inside}"

    def find(self, package: Package, place: str) -> str:
        """Convert a path in the container to the path in the package: the inverse of `place`."""
        place = posixpath.normpath(posixpath.join(self.root, place))
        site = posixpath.join(self.root, self.site, "")
        if place.startswith(site) and not self.names:
            return package.layout.place(place.removeprefix(site))
        path = place.removeprefix(f"{self.root}/")
        return self.paths.get(path, path)

    def rename(self, package: Package, text: str) -> str:
        """Replace paths of the package's files in the container by paths in the package."""
        own = re.escape(self.site if posixpath.isabs(self.site) else self.root)
        return re.sub(rf"{own}/[^\s:()]+", lambda match: self.find(package, match[0]), text)


def require_movable(package: Package) -> None:
    """Raise NothingNamed for a package that runs only together with other packages."""
    if isinstance(package, _ELSEWHERE):
        raise NothingNamed(f"{package.noun} cannot be tested in an image")


def unpack_files(package: Package, folder: Path, seconds: float) -> Prefix:
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
    paths = {name: path for path, name in names.items()}
    return Prefix(folder=folder, site="", names=names, paths=paths)


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


def fill(  # noqa: PLR0913 - what is installed where, and for which system
    wheel: Wheel,
    prefix: Prefix,
    target: TargetPython,
    system: CleanSystem,
    settings: PlaceSettings,
    *,
    requires: tuple[str, ...] = (),
    interpreter: Path | None = None,
) -> str:
    """Install the wheel and its requirements in the prefix; return "" or why uv refused.

    ``target`` is the interpreter for which requirements are resolved, ``requires`` are additional
    requirements, which the wheel does not state, and ``interpreter`` is one like the target's on
    this host. Raises Unavailable for requirements that cannot be resolved or a wheel that cannot be
    unpacked, GatherError if the network or the machine failed.
    """
    require_wheels(wheel, settings.given, target)
    items = ((text, read_requirement(text)) for text in (*wheel.requires_dist, *requires))
    held = tuple(text for text, item in items if item is None or applies(item, target.markers))
    site, refused = prefix.folder / prefix.site, ""
    if held or settings.given:
        root = prefix.folder.parent
        cwd = root / "empty"
        cwd.mkdir(exist_ok=True)
        python, options = _choose_python(target, settings.python, interpreter)
        installer = find_installer(python, cwd=cwd, timeout=settings.timeout)
        options = (*options, "--python-platform", _name_platform(system))
        command = (*installer.command, "--prefix", str(prefix.folder), *options)
        installer = replace(installer, command=command)
        # otherwise a requirement that requires the wheel would install another version of it
        left_out = root / "left-out.txt"
        left_out.write_text(f"{wheel.name}; sys_platform == 'never'\n", encoding="utf-8")
        given = describe_given(settings.given, target.tags, root / "constraints.txt")
        requirements = (*given, "--override", str(left_out), *held)
        refused = install(
            installer, requirements, index=settings.index, cwd=cwd, timeout=settings.timeout
        )
        found = next(iter(prefix.folder.glob(_PREFIX)), site)
        if found != site:
            site.parent.mkdir(parents=True, exist_ok=True)
            found.rename(site)
    site.mkdir(parents=True, exist_ok=True)
    unpack_wheel(wheel, prefix)
    return refused


def _choose_python(
    target: TargetPython, python: Path, like_target: Path | None
) -> tuple[Path, tuple[str, ...]]:
    """Return the Python that uv asks, and uv's options for the target; pip has no such options.

    For a free-threaded Python uv needs one on this host: it has no option that says so.
    """
    if find_uv() is None:
        raise Unavailable("its requirements cannot be resolved for another Python without uv")
    if not target.free_threaded:
        return python, ("--python-version", target.version)
    if like_target is None:
        version = ".".join(target.version.split(".")[:2])
        raise Unavailable(
            "its requirements cannot be resolved for a free-threaded Python that is not on "
            f"this host: uv python install {version}t"
        )
    return like_target, ()


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
    places = {member.archive_name: prefix.place(wheel, member.path) for member in wheel.members}
    unpack_archive(wheel.path, prefix.folder, places)


def unpack_archive(path: Path, folder: Path, places: Mapping[str, str] | None = None) -> None:
    """Write the files of a zip archive below a folder: all, or those with a place in the folder.

    Raises Unavailable, GatherError.
    """
    root = folder.resolve()
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                place = entry.filename if places is None else places.get(entry.filename)
                if entry.is_dir() or place is None:
                    continue
                written = root / place
                if not written.parent.resolve().is_relative_to(root) or ".." in written.parts:
                    raise Unavailable(
                        f"{entry.filename}: leads out of the folder that it is unpacked in"
                    )
                written.parent.mkdir(parents=True, exist_ok=True)
                # Never write through a link: the environment's bin/python is a link to the image's.
                written.unlink(missing_ok=True)
                with archive.open(entry) as source, written.open("xb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
                written.chmod(0o755 if (entry.external_attr >> 16) & 0o111 else 0o644)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise Unavailable(f"{path.name}: cannot be unpacked: {error}") from error
    except OSError as error:
        raise GatherError(f"{path.name}: cannot be unpacked: {error.strerror}") from error


def make_readable(folder: Path) -> None:
    """Let any user read a folder and all its contents, whatever this process's umask is."""
    for parent, _, names in os.walk(folder):
        Path(parent).chmod(0o755)
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o444)


def describe_absent_python(version: tuple[int, int], system: CleanSystem) -> TargetPython:
    """Describe a CPython that the image does not have, for which requirements are resolved."""
    libc, minor = system.libc.partition(" ")[0], (*system.libc_version, 0, 0)[1]
    platforms = tuple(list_linux_tags(libc, range(minor, -1, -1), system.architecture))
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


# A package that an image contains, such as torch in a released image: judged where it lies.
#
# Its files are copied out of the image to be read. It runs in a container of the image, by the
# image's own interpreter and with the image's own variables, as users of the image run it.

_MOST_OUTSIDE = 1000  # files outside of site-packages that are copied
_LARGEST_RECORD = 64 << 20  # bytes
_OURS = ("HOME", "TMPDIR", "LC_ALL")
"""Variables that a container of ours sets itself."""


class InsidePlace(ImagePlace):
    """A container with the package that its image contains."""

    serves = (InstalledPackage,)

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that the image sets for its users."""
        variables = self._image.image.variables
        return {name: text for name, text in variables.items() if name not in _OURS}

    def find_python(self, names: Sequence[str]) -> tuple[str, Folders]:
        """Return the first interpreter of the image that has all these distributions.

        Its folders are paths in the image. Raises NothingNamed if none has them.
        """
        system = self.system
        programs = list(dict.fromkeys((*system.commands, *system.pythons)))
        for program in programs:
            with suppress(GatherError):  # it does not start, or is too old
                found = self._ask_folders(program, names)
                if set(names) <= found.versions.keys():
                    return program, found
        known = ", ".join(programs) or "which has no Python"
        raise NothingNamed(f"{', '.join(names)}: not installed in {system.title} ({known})")

    def _ask_folders(self, program: str, names: Sequence[str]) -> Folders:
        answer = self._run_probe(program, "list_folders", {"names": list(names)}, Conditions())
        return read_folders(Path(program), answer)

    def _install(self, package: Package) -> None:
        """Find the package and its requirements in the image; install nothing."""
        program, folders = self.find_python((package.name,))
        site = self._find_site(folders, package.name)
        target = self._ask(program)
        paths = {**target.paths, "platlib": site, "purelib": site}
        self._target = replace(target, paths=paths)
        if self.requires:
            found = self._ask_folders(program, name_projects(self.requires))
            self.preinstalled = tuple(
                select_versions(self.requires, found.versions, target.markers)
            )

    def _find_site(self, folders: Folders, project: str) -> str:
        """Return the folder of the image that has the project's metadata."""
        named = re.sub(r"[-_.]+", "[-_.]", re.escape(project).replace(r"\-", "-"))
        pattern = re.compile(rf"{named}-[^-]+\.dist-info", re.IGNORECASE)
        for folder in map(str, folders.search):
            listed = self._open().run(("ls", "-1", folder), timeout=self.timeout, kept=1 << 22)
            if any(pattern.fullmatch(name) for name in listed.stdout.splitlines()):
                return folder
        raise NothingNamed(f"{self.system.title}: its metadata is not in a folder")

    def _lay_out(self, package: Package) -> Prefix:
        self.require_installed(package)
        site = str(self.site_packages)
        return Prefix(folder=Path(), site=site, root=str(self.target.prefix))

    def copy(self, names: Sequence[str], folder: Path) -> Folders:
        """Copy the image's site-packages into a folder of this host, and return its folders.

        Of files outside of site-packages only those are copied that RECORD of a named distribution
        lists. Raises NothingNamed or GatherError.
        """
        _, folders = self.find_python(names)
        prefix = posixpath.normpath(str(folders.prefix))
        container = self._open()
        script = (
            'for each; do for info in "$each"/*.dist-info "$each"/*.egg-info; do '
            'if [ -e "$info" ]; then echo "$each"; break; fi; done; done'
        )
        searched = map(str, folders.search)
        asked = container.run(("sh", "-c", script, "sh", *searched), timeout=self.timeout)
        # the folders of the image that contain distributions
        roots = tuple(dict.fromkeys(asked.stdout.splitlines()))
        copied = [folder.joinpath(*each.split("/")[1:]) for each in roots]
        for inside, path in zip(roots, copied, strict=True):
            path.mkdir(parents=True, exist_ok=True)
            container.copy_out(f"{inside}/.", path)
        for name in names:
            found = find_metadata(name, copied)
            if found is not None:
                self._copy_outside(found, folder, prefix)
        return Folders(
            search=tuple(copied),
            prefix=folder.joinpath(*prefix.split("/")[1:]),
            versions=folders.versions,
        )

    def _copy_outside(self, metadata: Path, folder: Path, prefix: str) -> None:
        site, record = metadata.parent, metadata / "RECORD"
        container = self._open()
        if not record.is_file() or record.stat().st_size > _LARGEST_RECORD:
            return
        with record.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = [row[0] for row in csv.reader(file) if row and row[0].startswith("../")]
        for row in rows[:_MOST_OUTSIDE]:
            path = Path(os.path.normpath(site / row))
            if not path.is_relative_to(folder):
                continue
            inside = "/" + path.relative_to(folder).as_posix()
            if inside.startswith(f"{prefix}/"):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    container.copy_out(inside, path)
                except GatherError:
                    continue  # a check reports a file that RECORD lists and the image lacks
