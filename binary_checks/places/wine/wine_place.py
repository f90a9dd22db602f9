"""A Windows under wine as a place: a wheel for it, a CPython of python.org, and nothing else.

wine is not Windows. What it does not find is evidence; what it lacks itself is "not inspected"; and
what works there is no proof that it works on Windows.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import packaging
from packaging.tags import Tag, compatible_tags, cpython_tags

from binary_checks.errors import Unavailable
from binary_checks.model import Ending, InstallReport, Package, Wheel
from binary_checks.model.places import Conditions, ProbeAnswer, TargetPython
from binary_checks.model.root_filesystem import RootFilesystem
from binary_checks.places.host_place import HostPlace
from binary_checks.places.image_prefix import Cargo, Prefix, fill
from binary_checks.places.image_running import ImageRunner
from binary_checks.places.interpreter import read_target, require_fit, spell_tags
from binary_checks.places.left_behind import hash_file
from binary_checks.places.running import HostFiles, run_probe
from binary_checks.systems.windows_libraries import windows_libraries

RESERVATION = "wine is not Windows: what works there is no proof that it works for users"
_PYTHON = "C:\\Python\\python.exe"
# wine 10 frees what it did not allocate where it is set.
_WITHOUT_TMPDIR = ("/bin/sh", "-c", 'unset TMPDIR; exec "$0" "$@"')
_BASE = "/mnt/windows"  # where a root has the Windows that is only read
_UNNAMED = re.compile(
    r"(?:The specified module could not be found|Module not found)\."
    r"|Could not find module '[^']*' \(or one of its dependencies\)\.(?: Try using [^.]*\.)?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Probe:
    """A probe that is to run."""

    script: str | Path
    request: Mapping[str, object]
    conditions: Conditions
    timeout: float
    visible: tuple[Path, ...] = ()  # what it reads of this host beside


class WinePlace(HostPlace):
    """A Windows under wine, in which a wheel is unpacked beside what it requires."""

    serves = (Wheel,)
    spelled = ("image:wine", "image:wine-trixie")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._version = ""
        self._start: Callable[[_Probe], ProbeAnswer] | None = None

    def _install(self, package: Package) -> InstallReport | None:
        assert isinstance(package, Wheel)
        label = self.settings.name.label
        if not self.sandbox.holds:
            raise Unavailable(f"{label}: it runs in a sandbox alone: {self.sandbox.reason}")
        from binary_checks.places.wine.made_windows import find_python, find_windows  # for few runs
        from binary_checks.places.wine.windows_python import lay_out
        from binary_checks.places.wine.wine_prefix import ENVIRONMENT, copy_prefix, find_wine

        version = choose_python(package)
        wine = find_wine(self.settings.name.argument)
        self._version = wine.version
        base = find_windows(wine, sandbox=self.sandbox, private=self.folder)
        archive = find_python(version)
        prefix, home = self.folder / "prefix", self.folder / "prefix" / "drive_c" / "Python"
        shown = _BASE if wine.root else str(base)
        copy_prefix(base, prefix, shown)
        lay_out(archive, home)
        variables = {**ENVIRONMENT, "WINEPREFIX": str(prefix)}
        self.writable = (prefix,)
        if wine.root is None:
            launcher = self._write_launcher(wine.program, variables)
            self._start = partial(self._start_here, launcher, (base, launcher))
        else:
            root = replace(wine.root, runner=(*_WITHOUT_TMPDIR, wine.program))
            self._start = partial(self._start_in, root, base, variables)
        self._target = self._ask()
        require_fit(package, self._target)
        refused = fill(
            Cargo(
                wheel=package,
                prefix=Prefix(folder=home, site="Lib/site-packages"),
                target=self._target,
                image=RootFilesystem(
                    name="wine", path=base, libc=f"wine {self._version}", architecture="x86_64"
                ),
                settings=self.settings,
                requires=self.requires,
            )
        )
        if not refused:
            return None
        return InstallReport(python=self._target.name, installer="uv", error=self.scrub(refused))

    def _write_launcher(self, wine: str, variables: Mapping[str, str]) -> Path:
        """Write what is started like an interpreter."""
        path = self.folder / "python"
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        command = f"{shlex.quote(wine)} {shlex.quote(_PYTHON)}"
        path.write_text(
            f'#!/bin/sh\nunset TMPDIR\nexport {exports}\nexec {command} "$@"\n', encoding="utf-8"
        )
        path.chmod(0o755)
        return path

    def _start_here(
        self, launcher: Path, interpreter: tuple[Path, ...], probe: _Probe
    ) -> ProbeAnswer:
        """Run a probe by this host's wine."""
        return run_probe(
            launcher,
            probe.script,
            probe.request,
            timeout=probe.timeout,
            sandbox=self.sandbox,
            conditions=probe.conditions,
            files=HostFiles(visible=probe.visible, writable=self.writable, interpreter=interpreter),
        )

    def _start_in(
        self, root: RootFilesystem, base: Path, variables: Mapping[str, str], probe: _Probe
    ) -> ProbeAnswer:
        """Run a probe by the wine of a root."""
        conditions = probe.conditions
        runner = ImageRunner(
            image=root,
            sandbox=self.sandbox,
            timeout=probe.timeout,
            bound=((base, _BASE), *((path, str(path)) for path in probe.visible)),
            writable=self.writable,
            conditions=replace(conditions, variables={**variables, **conditions.variables}),
        )
        return runner.run_probe(_PYTHON, probe.script, probe.request)

    def _ask(self) -> TargetPython:
        assert self._start is not None
        folder = Path(packaging.__file__).parent
        probe = _Probe(
            script="identify",
            request={"packaging": str(folder)},
            conditions=Conditions(),
            timeout=self.timeout,
            visible=(folder,),
        )
        answer = self._start(probe)
        if answer.outcome is not Ending.OK or not answer.answer:
            last = answer.stderr.strip().rpartition("\n")[2]
            reason = last or " ".join((answer.outcome.value, answer.detail))
            raise Unavailable(f"wine {self._version} runs no Python: {reason}")
        target = read_target(Path(_PYTHON), answer.answer)
        system = f"wine {self._version}, which is not Windows"
        return replace(target, system=system, reservation=RESERVATION)

    def run(
        self,
        script: str | Path,
        request: Mapping[str, object],
        *,
        timeout: float | None = None,
        conditions: Conditions | None = None,
    ) -> ProbeAnswer:
        """Run a probe; raises Unavailable where wine itself lacks what the package asks for."""
        if self._start is None or self._target is None:
            raise Unavailable(f"{self.settings.name.label}: nothing was installed there")
        where = {"site_packages": str(self.site_packages)}
        answer = self._start(
            _Probe(
                script=script,
                request={**request, **where},
                conditions=conditions or Conditions(),
                timeout=self.timeout if timeout is None else timeout,
            )
        )
        return judge_answer(answer, self._version)

    def digest(self, path: str) -> str:
        """The SHA-256 of a file there."""
        place = path.replace("\\", "/").removeprefix("C:/")
        drive = self.folder / "prefix" / "drive_c"
        inside = "" if place != path.replace("\\", "/") else "Python/Lib/site-packages"
        real = Path(os.path.realpath(drive / inside / place))  # what ran there may have made links
        return hash_file(real) if real.is_relative_to(os.path.realpath(drive)) else ""

    def scrub(self, text: str) -> str:
        """Write paths relative to site-packages, with "/"."""
        text = re.sub(r"(?i)C:\\{1,2}Python\\{1,2}Lib\\{1,2}site-packages\\{1,2}", "", text)
        return super().scrub(text)

    def shown(self, path: str) -> str:
        """Write a path with "/", relative to site-packages when it lies below it."""
        return self.scrub(path).replace("\\", "/")


def judge_answer(answer: ProbeAnswer, version: str) -> ProbeAnswer:
    """Name what was not found; raises Unavailable where wine itself lacks it."""
    from binary_checks.places.wine.wine_prefix import find_unimplemented, list_lacking

    if function := find_unimplemented(answer.stderr):
        raise Unavailable(f"wine {version} does not implement {function}")
    lacking = tuple(dict.fromkeys(list_lacking(answer.stderr)))
    for name, needing in lacking:
        if name.lower() in windows_libraries("x86_64"):
            raise Unavailable(
                f"wine {version} has no {name}, which {needing} needs and Windows has"
            )
    return replace(answer, answer=_name_lacking(answer.answer, lacking))


def choose_python(wheel: Wheel) -> str:
    """Choose the newest Python for Windows that takes the wheel; raises Unavailable."""
    from binary_checks.places.wine.windows_python import ARCHIVES

    for version in reversed(tuple(ARCHIVES)):
        if not wheel.tags or not _list_tags(version).isdisjoint(wheel.tags):
            return version
    there = ", ".join(ARCHIVES)
    raise Unavailable(f"it is for {spell_tags(wheel.tags)}, wine has Pythons {there} for win_amd64")


def _list_tags(version: str) -> frozenset[Tag]:
    numbers = tuple(map(int, version.split(".")))
    found: Iterable[Tag] = (
        *cpython_tags(numbers, platforms=["win_amd64"]),
        *compatible_tags(numbers, "cp{}{}".format(*numbers), ["win_amd64"]),
    )
    return frozenset(found)


def _name_lacking(answer: Any, lacking: tuple[tuple[str, str], ...]) -> Any:
    """Say in a probe's answer which libraries were not found, where nothing else can be meant."""
    names = sorted({name for name, _ in lacking}, key=str.lower)
    if not names or (len(names) > 1 and len({needing for _, needing in lacking}) > 1):
        return answer
    if isinstance(answer, Mapping):
        return {key: _name_lacking(value, lacking) for key, value in answer.items()}
    if isinstance(answer, list):
        return [_name_lacking(value, lacking) for value in answer]
    if isinstance(answer, str):
        verb = "is" if len(names) == 1 else "are"
        sentence = f"{lacking[0][1]} needs {' and '.join(names)}, which {verb} not there"
        return _UNNAMED.sub(lambda _: sentence, answer)
    return answer
