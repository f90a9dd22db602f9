"""Pyodide in Node as a place: CPython for WebAssembly, from the npm package that the user has.

The wheel and its requirements are unpacked in a folder of this host, which every process mounts as
site-packages. Nothing is fetched by the runtime itself.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import resources
from itertools import product
from pathlib import Path

import packaging
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from binary_checks.errors import GatherError, NothingNamed, NoWheelError, Unavailable
from binary_checks.model import (
    Conditions,
    Ending,
    InstalledFolders,
    Package,
    ProbeAnswer,
    TargetPython,
    Wheel,
)
from binary_checks.places.foreign_tags import ForeignPython
from binary_checks.places.host_place import HostPlace, PlaceSettings, hash_file
from binary_checks.places.image_place import Prefix, unpack_archive, unpack_wheel
from binary_checks.places.installers import download, list_requirements, read_applicable
from binary_checks.places.running import explain_silence, read_target, require_fit, run_command
from binary_checks.places.unpacked import find_files_of
from binary_checks.places.venv import require_wheels

_DRIVER = "pyodide_driver.mjs"
_FATAL = re.compile(r"^Fatal Python error: (.*)", re.MULTILINE)
_FAILED = "exit status 70"  # the driver's status after a failure of the runtime
_PROBES, _PACKAGING, _PROBE = "/mnt/probes", "/mnt/packaging", "/mnt/probe"
_WITHOUT_PROCESSES = frozenset({"run_commands"})
"""Probes that start programs, which WebAssembly cannot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """An unpacked npm package of Pyodide, and the Node that runs it."""

    node: Path
    folder: Path
    version: str  # "314.0.4"
    abi: str  # "2026_0", as in pyemscripten_2026_0_wasm32
    emscripten: str  # "emscripten_5_0_3"

    @property
    def title(self) -> str:
        """The name in messages."""
        return f"Pyodide {self.version}"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags that the runtime accepts, best first.

        PEP 783 names them ``pyemscripten``; Pyodide's own index names them ``pyodide``.
        """
        own = (f"{name}_{self.abi}" for name in ("pyemscripten", "pyodide"))
        return tuple(f"{name}_wasm32" for name in (*own, self.emscripten))


def find_runtime(argument: str, start: Path) -> Runtime:
    """Return the runtime in the folder that the user named, or else in the nearest node_modules.

    Raises GatherError if the runtime or Node is missing.
    """
    node = shutil.which("node")
    if node is None:
        raise GatherError("node is not on PATH: install Node.js 20 or later")
    folder = (start / argument).resolve()
    if not argument:
        near = (each / "node_modules" / "pyodide" for each in (start, *start.parents))
        found = next(filter(Path.is_dir, near), None)
        if found is None:
            raise GatherError(
                "there is no node_modules/pyodide in this folder or above: run `npm install "
                "pyodide`, or name the unpacked npm package: pyodide:FOLDER"
            )
        folder = found.resolve()
    try:
        info = json.loads((folder / "pyodide-lock.json").read_bytes())["info"]
        version = str(json.loads((folder / "package.json").read_bytes())["version"])
        abi, platform = str(info["abi_version"]), str(info["platform"])
        if not (folder / "pyodide.mjs").is_file():
            raise FileNotFoundError
    except (OSError, ValueError, KeyError, TypeError):
        raise GatherError(
            f"{folder.name} is not an unpacked npm package of Pyodide, with pyodide.mjs and the "
            "ABI in pyodide-lock.json"
        ) from None
    return Runtime(node=Path(node), folder=folder, version=version, abi=abi, emscripten=platform)


class PyodidePlace(HostPlace):
    """Pyodide in Node with a wheel and its requirements; each probe starts a fresh runtime."""

    serves = (Package,)
    spelled = ("pyodide",)

    def __init__(self, settings: PlaceSettings, requires: tuple[str, ...] = ()) -> None:
        super().__init__(settings, requires)
        self._runtime: Runtime | None = None
        self._prefix: Prefix | None = None

    @property
    def runtime(self) -> Runtime:
        """The runtime that the user named. Raises GatherError if there is none."""
        if self._runtime is None:
            try:
                self._runtime = find_runtime(self.settings.name.argument, Path.cwd())
            except GatherError as error:
                raise GatherError(f"{self.label}: {error}") from None
        return self._runtime

    def _find_target(self) -> TargetPython:
        runtime = self.runtime
        result = self._launch("identify", {"packaging": _PACKAGING}, Conditions(), self.timeout)
        if reason := explain_silence(result):
            raise GatherError(f"{self.label}: {runtime.title} does not run here: {reason}")
        found = read_target(runtime.folder / "pyodide.mjs", result.answer)
        ranked = tuple(_add_tags(found.ranked_tags, runtime))
        return replace(
            found,
            system=runtime.title,
            libc="",  # Emscripten's confstr() claims a glibc
            # its prefix is "/", from which sysconfig makes "//lib/python3.14"
            paths={name: f"/{path.lstrip('/')}" for name, path in found.paths.items()},
            ranked_tags=ranked,
            tags=frozenset(ranked),
        )

    def _install(self, package: Package) -> None:
        """Unpack the wheel and its requirements, if the runtime has the ABI of the wheel."""
        if not isinstance(package, Wheel):
            raise NothingNamed(f"{self.label}: {package.noun} is not installed in Pyodide")
        wasm = sorted({tag.platform for tag in package.tags if tag.platform.endswith("wasm32")})
        if wasm and set(wasm).isdisjoint(self.runtime.platforms):
            runtime = self.runtime
            raise GatherError(
                f"{self.label}: the wheel is for {', '.join(wasm)}, {runtime.title} has the ABI "
                f"{runtime.abi}: name the folder of an npm package that has the wheel's"
            )
        target = self.target
        try:
            require_fit(package, target)
        except Unavailable as error:
            raise NothingNamed(f"{self.label}: {error}") from error
        require_wheels(package, self.settings.given, target)
        site = str(target.site_packages).lstrip("/")
        prefix = Prefix(folder=self.folder / "prefix", site=site)
        (prefix.folder / site).mkdir(parents=True)
        for path in self._find_required(package, target):
            unpack_archive(path, prefix.folder / site)
        unpack_wheel(package, prefix)
        self._prefix = prefix

    def _find_required(self, wheel: Wheel, target: TargetPython) -> Iterator[Path]:
        """Yield a wheel for each project that the package requires, directly or indirectly."""
        folder, runtime = self.folder / "required", self.runtime
        version = tuple(int(part) for part in target.version.split(".")[:2])
        python = ForeignPython(
            version=version[:2],  # type: ignore[arg-type]
            free_threaded=False,
            platforms=runtime.platforms,
        )
        texts = [*wheel.requires_dist, *self.requires]
        pending = list(read_applicable(texts, target.markers))
        known = {canonicalize_name(wheel.name)}
        while pending:
            item = pending.pop(0)
            name = canonicalize_name(item.name)
            if name in known:
                continue
            known.add(name)
            path = _find_given(item, self.settings.given, target) or self._fetch(
                item, python, folder
            )
            pending += read_applicable(list_requirements([path]), target.markers, item.extras)
            yield path

    def _fetch(self, item: Requirement, python: ForeignPython, folder: Path) -> Path:
        lacking = f"its requirement {item.name} has no wheel for {self.runtime.title}"
        if not self.settings.index:
            raise Unavailable(f"{lacking} among the given ones: give it with --binary-with")
        spelled = f"{item.name}{item.specifier}"
        try:
            broke = download((spelled,), python, folder)
        except NoWheelError:
            raise Unavailable(f"{lacking} in the index: give it with --binary-with") from None
        found = _find_given(item, (folder,), self.target)
        if found is None:
            raise GatherError(f"{spelled}: {broke or 'pip downloaded no wheel'}")
        return found

    @property
    def installed(self) -> InstalledFolders | None:
        """The folder that is mounted as site-packages, once the package is unpacked."""
        if self._prefix is None:
            return None
        folder = self._prefix.folder
        return InstalledFolders(site_packages=folder / self._prefix.site, prefix=folder)

    def _start(
        self,
        script: str | Path,
        request: Mapping[str, object],
        conditions: Conditions,
        timeout: float,
    ) -> ProbeAnswer:
        """Run a probe in a separate process. Raises Unavailable for what WebAssembly cannot do."""
        if conditions.gpu:
            raise Unavailable("Pyodide has no access to GPUs")
        if conditions.decoys:
            raise Unavailable("Pyodide loads no libraries of a system")
        if script in _WITHOUT_PROCESSES:
            raise Unavailable("Pyodide starts no programs")
        asked = {**request, "site_packages": str(self.site_packages)}
        return self._launch(script, asked, conditions, timeout)

    def _launch(
        self,
        script: str | Path,
        request: Mapping[str, object],
        conditions: Conditions,
        timeout: float,
    ) -> ProbeAnswer:
        runtime = self.runtime
        with ExitStack() as files:
            ours = files.enter_context(
                resources.as_file(resources.files("binary_checks.places") / "scripts")
            )
            probes = files.enter_context(resources.as_file(resources.files("binary_checks.probes")))
            mounts = {probes: _PROBES, Path(packaging.__file__).parent: _PACKAGING}
            path = f"{_PROBES}/{script}/script.py"
            if isinstance(script, Path):
                mounts[script.absolute().parent] = _PROBE
                path = f"{_PROBE}/{script.name}"
            if self._prefix is not None:
                mounts[self._prefix.folder / self._prefix.site] = f"/{self._prefix.site}"
            asked = {
                "package": str(runtime.folder),
                "script": f"{_PROBES}/process.py",
                "words": [path],
                "variables": dict(conditions.variables),
                "mounts": {str(folder): place for folder, place in mounts.items()},
            }
            visible = (ours, runtime.folder, *mounts, *find_files_of(runtime.node))
            limits = replace(self.limits, visible=(*self.limits.visible, *visible))
            answer = run_command(
                (str(runtime.node), str(ours / _DRIVER), json.dumps(asked)),
                request,
                timeout=timeout,
                sandbox=replace(self.sandbox, limits=limits),
                # the runtime has no user's site-packages, but the package's code always runs
                conditions=replace(conditions, variables={}, site=True, calls=False),
            )
        said = _FATAL.findall(answer.stderr)
        if answer.outcome is Ending.CRASHED and answer.detail == _FAILED and said:
            return replace(answer, detail=said[-1])
        return answer

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file that was unpacked; "" for a file of the runtime."""
        place = posixpath.normpath(posixpath.join(str(self.site_packages), path)).lstrip("/")
        if self._prefix is None or not place.startswith(f"{self._prefix.site}/"):
            return ""
        return hash_file(self._prefix.folder / place)

    def scrub(self, text: str) -> str:
        """Return the text without the runtime's folder, and with paths in site-packages."""
        return super().scrub(text.replace(str(self.runtime.folder), "pyodide"))


def _add_tags(ranked: tuple[Tag, ...], runtime: Runtime) -> Iterator[Tag]:
    """Yield the interpreter's tags, with all names of the platform that it has."""
    for tag, platform in product(ranked, runtime.platforms):
        if tag.platform == runtime.platforms[-1]:
            yield Tag(tag.interpreter, tag.abi, platform)
    yield from (tag for tag in ranked if tag.platform not in runtime.platforms)


def _find_given(wanted: Requirement, given: tuple[Path, ...], target: TargetPython) -> Path | None:
    """Return the newest given wheel that satisfies a requirement; None if there is none."""
    found = []
    for path in given:
        for wheel in sorted(path.glob("*.whl")) if path.is_dir() else (path,):
            try:
                name, version, _, tags = parse_wheel_filename(wheel.name)
            except InvalidWheelFilename:
                continue
            fits = name == canonicalize_name(wanted.name) and not target.tags.isdisjoint(tags)
            if fits and wanted.specifier.contains(version, prereleases=True):
                found.append((version, wheel))
    return max(found)[1] if found else None
