"""Base class of places: probes run in them, and paths are reported relative to them."""

from __future__ import annotations

import csv
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import ClassVar, TypeVar

from binary_checks.errors import BinaryChecksError, NotApplicable, Unavailable
from binary_checks.model import (
    WRITTEN_BY_INSTALLERS,
    Claims,
    CleanSystem,
    Conditions,
    InstalledFolders,
    InstallReport,
    InstallWay,
    LoaderAnswer,
    Package,
    PlaceName,
    ProbeAnswer,
    TargetPython,
    Wheel,
    decode_hash,
)
from binary_checks.places.limits import Limits
from binary_checks.places.running import identify, run_probe
from binary_checks.places.sandbox import Sandbox

_DRIVER = "libcuda.so.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceSettings:
    """The user's settings for all places."""

    name: PlaceName = field(default_factory=PlaceName)
    # claims of the package for which the place is made
    claims: Claims = field(default_factory=Claims)
    # the interpreter from which to make an environment, or the one of an existing environment
    python: Path
    # whether another interpreter on PATH may be chosen, as the user named none
    may_choose: bool = False
    timeout: float  # seconds for each probe, and for each step of an installation
    sandbox: Sandbox = field(default_factory=Sandbox)
    given: tuple[Path, ...] = ()  # wheels, or folders of wheels, that satisfy requirements
    channels: tuple[str, ...] = ()  # conda channels: names, URLs, ``file:`` URLs for folders
    index: bool = True  # whether other requirements come from the index of the user's installer
    builds: bool = False  # whether to build sdists and to follow requirements by URL
    # how the package is installed; usually by its file alone
    way: InstallWay = field(default_factory=InstallWay)
    keep: Path | None = None  # the folder for environments that the user wants to keep


_Place = TypeVar("_Place", bound="HostPlace")
_Result = TypeVar("_Result")


class HostPlace:
    """Base class for the places; see `binary_checks.model.places.Place`."""

    # the kinds of packages that this place can hold
    serves: ClassVar[tuple[type[Package], ...]] = ()
    # the kinds of `PlaceName` that it accepts, or a whole name with its argument
    spelled: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: PlaceSettings, requires: tuple[str, ...] = ()) -> None:
        self.settings, self.timeout, self.sandbox = settings, settings.timeout, settings.sandbox
        self.requires = requires  # additional requirements, which the package does not state
        self.preinstalled: tuple[str, ...] = ()
        self._target: TargetPython | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._results: dict[str, object] = {}
        self.install_seconds = 0.0

    @property
    def python(self) -> Path:
        """The interpreter of the place."""
        return self._target.executable if self._target else self.settings.python

    @property
    def target(self) -> TargetPython:
        """Facts about the interpreter of the place."""
        if self._target is None:
            self._target = self._find_target()
        return self._target

    def _find_target(self) -> TargetPython:
        return self._identify(self.settings.python)

    @property
    def label(self) -> str:
        """The name of the place in messages, as the user wrote it."""
        return self.settings.name.label

    @property
    def site_packages(self) -> Path:
        """The folder in which packages are installed."""
        return self.target.site_packages

    @property
    def limits(self) -> Limits:
        """The files that probes in this place see, and how much they may use."""
        return self.sandbox.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self.sandbox = replace(self.sandbox, limits=limits)

    @property
    def folder(self) -> Path:
        """A temporary folder, which is removed together with the place unless it is kept."""
        if self._folder is None:
            prefix, keep = "binary_checks-", self.settings.keep
            if keep is not None:  # its name is the package's, so that people find it
                keep.parent.mkdir(parents=True, exist_ok=True)
                prefix, keep = f"{keep.name}-", keep.parent
            self._folder = tempfile.TemporaryDirectory(
                prefix=prefix, dir=keep, ignore_cleanup_errors=True
            )
        return Path(self._folder.name).resolve()

    @property
    def installed(self) -> InstalledFolders | None:
        """The folders of the installed package, or None if only the installer knows them."""
        return None

    def with_requirements(self: _Place, requires: tuple[str, ...]) -> _Place:
        """Return another place of this kind for the package and these requirements."""
        return type(self)(self.settings, requires)

    def install(self, package: Package) -> InstallReport | None:
        """Install the package at the first call, and remember the outcome, even a failure."""

        def install() -> InstallReport | None:
            start = time.monotonic()
            try:
                return self._install(package)
            except BinaryChecksError:
                self.close()
                raise
            finally:
                self.install_seconds = time.monotonic() - start

        return self._once("installation", install)

    def _once(self, name: str, make: Callable[[], _Result]) -> _Result:
        """Return the result of the first call of ``make``; a failure is remembered, too."""
        if name not in self._results:
            try:
                self._results[name] = make()
            except BinaryChecksError as error:
                self._results[name] = error
        result = self._results[name]
        if isinstance(result, BinaryChecksError):
            raise result.with_traceback(None)
        return result  # type: ignore[return-value]

    def _install(self, package: Package) -> InstallReport | None:
        raise NotImplementedError

    def require_installed(self, package: Package) -> None:
        """Raise Unavailable if the package could not be installed."""
        report = self.install(package)
        if report is not None and report.error:
            raise Unavailable(f"it could not be installed: {report.error}")

    def _identify(self, python: Path) -> TargetPython:
        return identify(python, timeout=self.timeout, sandbox=self.sandbox)

    def run(
        self,
        script: str | Path,
        request: Mapping[str, object],
        *,
        timeout: float | None = None,
        conditions: Conditions | None = None,
    ) -> ProbeAnswer:
        """Run a probe in a separate process."""
        where = {"site_packages": str(self.site_packages)} if self._target else {}
        seconds = self.timeout if timeout is None else timeout
        return self._start(script, {**request, **where}, conditions or Conditions(), seconds)

    def _start(
        self,
        script: str | Path,
        request: Mapping[str, object],
        conditions: Conditions,
        timeout: float,
    ) -> ProbeAnswer:
        limits = self.limits
        # compile each module only once: this saves a minute for twenty imports of torch
        if conditions.bytecode:
            folder = self.folder / "bytecode"
            folder.mkdir(exist_ok=True)
            request = {**request, "bytecode": str(folder)}
            limits = replace(limits, writable=(*limits.writable, folder))
        return run_probe(
            self.python,
            script,
            request,
            timeout=timeout,
            sandbox=replace(self.sandbox, limits=limits),
            conditions=self._put_decoys(conditions),
        )

    def _put_decoys(self, conditions: Conditions) -> Conditions:
        """Write the decoy libraries to a folder, and put this folder first in LD_LIBRARY_PATH."""
        if not conditions.decoys:
            return conditions
        digest = sha256()
        for name, each in sorted(conditions.decoys.items()):
            digest.update(f"{name}/{len(each)}/".encode() + each)
        # sets of decoys with equal contents share a folder
        folder = self.folder / "decoys" / digest.hexdigest()[:16]
        if not folder.exists():
            folder.mkdir(parents=True)
            for name, content in conditions.decoys.items():
                (folder / name).write_bytes(content)
        paths = (str(folder), conditions.variables.get("LD_LIBRARY_PATH", ""))
        variables = {**conditions.variables, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
        return replace(conditions, variables=variables)

    @property
    def system(self) -> CleanSystem | None:
        """None: packages run on this host's system."""
        return None

    def resolve(self, package: Package, paths: Sequence[str]) -> tuple[LoaderAnswer, ...]:
        """Raise NotApplicable: this host is not a clean system."""
        del package, paths
        raise NotApplicable("only in an image: --binary-place image:REFERENCE")

    def driver_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables with which processes find the driver.

        On some hosts the driver is in a folder that only ``LD_LIBRARY_PATH`` names; other folders
        in this variable are left out.
        """
        folders = filter(None, environ.get("LD_LIBRARY_PATH", "").split(":"))
        found = [folder for folder in folders if Path(folder, _DRIVER).exists()]
        return {"LD_LIBRARY_PATH": ":".join(found)} if found and os.name == "posix" else {}

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file of the place, in hexadecimal."""
        return hash_file(self.site_packages / path)

    def scrub(self, text: str) -> str:
        """Return the text with paths relative to site-packages, and without temporary folders."""
        for folder, shown in self._name_folders().items():
            for spelling in {str(folder), str(folder.resolve())}:
                text = text.replace(spelling + os.sep, shown).replace(spelling, shown or ".")
        return re.sub(r"\b0x[0-9a-fA-F]{6,}\b", "0x…", text)

    def _name_folders(self) -> dict[Path, str]:
        """Return the folders that messages do not show, with the text in place of each."""
        temporary = {} if self._folder is None else {Path(self._folder.name): "environment/"}
        return {self.site_packages: "", **temporary}

    def shown(self, path: str) -> str:
        """Return a path with "/", relative to site-packages if it is below that folder."""
        return self.scrub(path).replace(os.sep, "/")

    def keep(self) -> None:
        """Leave the temporary folder where it is when the place is closed."""
        if self._folder is not None:
            # The parameter for this, delete=False, is new in Python 3.12.
            self._folder._finalizer.detach()  # type: ignore[attr-defined]
            self._folder = None

    def close(self) -> None:
        """Remove the temporary folder with all its contents."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self: _Place) -> _Place:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def shorten_paths(text: str, *folders: Path) -> str:
    """Replace each path in these folders by its file name."""
    for folder in folders:
        text = text.replace(f"{folder.as_uri()}/", "").replace(f"{folder}{os.sep}", "")
    return text


class NoPlace(HostPlace):
    """A place for packages that no other place can hold, or not in the way that a profile lists.

    Every method that needs a real place raises Unavailable or NotApplicable.
    """

    def _install(self, package: Package) -> InstallReport:
        if self.settings.way.name:
            raise NotApplicable(f"{package.noun} is not installed as {self.label}")
        raise Unavailable(f"{package.noun} is only inspected: nothing installs or runs it")


# Comparison of an installation with the wheel and its RECORD.


def compare(wheel: Wheel, target: TargetPython) -> InstallReport:
    """Compare site-packages with the wheel; hash every file of the wheel.

    The report has the sorted paths, relative to site-packages, that differ.
    """
    landings = map_installed_paths(wheel, target)
    site = target.site_packages
    missing = {name for name, path in landings.items() if not path.is_file()}
    recorded = {row.path: decode_hash(row.hash) for row in wheel.record or ()}
    # the computed SHA-256 of each file in hexadecimal, or else RECORD's
    digests = {m.archive_name: m.sha256 or recorded.get(m.archive_name, "") for m in wheel.members}
    expected = {
        landings[name]: digest
        for name, digest in digests.items()
        if digest and name in landings and name not in missing and not _is_rewritten(name)
    }
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        actual = dict(zip(expected, pool.map(hash_file, expected), strict=True))
    return InstallReport(
        python=target.name,
        unrecorded=_place(_find_unrecorded(wheel, site, landings), site),
        altered=_place((path for path in expected if actual[path] != expected[path]), site),
        missing=_place((landings[name] for name in missing), site),
    )


def map_installed_paths(wheel: Wheel, target: TargetPython) -> dict[str, Path]:
    """Return the installed path of each file of the archive, by its name in the archive.

    Leave out files whose installed path is not certain: headers, and names with ``..``.
    """
    folders = target.paths
    root = Path(folders["purelib" if wheel.root_is_purelib else "platlib"])
    places = {name: Path(folders[name]) for name in ("purelib", "platlib", "scripts", "data")}
    landings = {}
    for member in wheel.members:
        name, base = member.archive_name, root
        first, _, rest = name.partition("/")
        if first.endswith(".data"):
            scheme, _, name = rest.partition("/")
            base = places.get(scheme, Path())
        if not member.is_directory and base.parts and ".." not in name.split("/"):
            landings[member.archive_name] = base / name
    return landings


def _is_rewritten(archive_name: str) -> bool:
    """Return whether installers change the file, as they do with RECORD and scripts."""
    parts = archive_name.split("/")
    own = len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] in WRITTEN_BY_INSTALLERS
    return own or (parts[0].endswith(".data") and parts[1] == "scripts")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a regular file in hexadecimal; "" if it cannot be read."""
    digest = sha256()
    try:
        if not path.is_file():  # reading a pipe or a device might never end
            return ""
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def _find_unrecorded(wheel: Wheel, site: Path, landings: Mapping[str, Path]) -> Iterator[Path]:
    """Find the files in site-packages that neither RECORD nor another project lists."""
    if wheel.record is None:
        return  # the check of RECORD reports this; here each file would be reported
    recorded = {landings[row.path] for row in wheel.record if row.path in landings}
    foreign = set(_list_foreign(wheel, site))
    for folder, _, file_names in os.walk(site):
        if Path(folder).name == "__pycache__":
            continue
        generated = WRITTEN_BY_INSTALLERS if folder == str(site / wheel.dist_info) else ()
        for path in (Path(folder, name) for name in file_names if name not in generated):
            if path not in recorded and path not in foreign:
                yield path


def _list_foreign(wheel: Wheel, site: Path) -> Iterator[Path]:
    """Yield the files of all other projects: requirements, and pip if pip had to be installed."""
    for record in site.glob("*.dist-info/RECORD"):
        if record.parent.name != wheel.dist_info:
            yield record
            with record.open(encoding="utf-8", newline="") as file:
                for row in csv.reader(file):
                    yield site / row[0]


def _place(paths: Iterable[Path], site: Path) -> tuple[str, ...]:
    return tuple(sorted(Path(os.path.relpath(path, site)).as_posix() for path in paths))
