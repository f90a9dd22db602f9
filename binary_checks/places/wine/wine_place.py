"""A Windows under wine as a place: a wheel for it, a CPython of python.org, and nothing else.

wine is not Windows. What it does not find is evidence; what it lacks itself is "not inspected"; and
what works there is no proof that it works on Windows.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
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
from binary_checks.places.interpreter import read_target, require_fit, spell_tags
from binary_checks.places.left_behind import hash_file
from binary_checks.places.running import HostFiles, run_probe
from binary_checks.systems.windows_libraries import windows_libraries

RESERVATION = "wine is not Windows: what works there is no proof that it works for users"
_HOME = "C:\\Python"
_LAUNCHER = """\
#!/bin/sh
export WINEPREFIX={prefix} WINEDEBUG=-all,err+module WINEDLLOVERRIDES='mscoree,mshtml='
exec {wine} {python} "$@"
"""
_UNNAMED = re.compile(
    r"(?:The specified module could not be found|Module not found)\."
    r"|Could not find module '[^']*' \(or one of its dependencies\)\.(?: Try using [^.]*\.)?"
)


class WinePlace(HostPlace):
    """A Windows under wine, in which a wheel is unpacked beside what it requires."""

    serves = (Wheel,)
    spelled = ("image:wine",)

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._version = ""
        self._seen: tuple[Path, ...] = ()  # of this host, to run the interpreter

    @property
    def interpreter(self) -> tuple[Path, ...] | None:
        """What of this host's files the interpreter is made of."""
        return self._seen

    def _install(self, package: Package) -> InstallReport | None:
        assert isinstance(package, Wheel)
        if not self.sandbox.holds:
            raise Unavailable(f"image:wine: it runs in a sandbox alone: {self.sandbox.reason}")
        from binary_checks.places.wine.made_windows import find_python, find_windows  # for few runs
        from binary_checks.places.wine.windows_python import lay_out
        from binary_checks.places.wine.wine_prefix import copy_prefix, find_wine, read_version

        version = choose_python(package)
        wine = find_wine()
        self._version = read_version(wine)
        base = find_windows(wine, self._version, sandbox=self.sandbox, private=self.folder)
        archive = find_python(version)
        prefix = self.folder / "prefix"
        copy_prefix(base, prefix)
        home = prefix / "drive_c" / "Python"
        lay_out(archive, home)
        launcher = self._write_launcher(wine, prefix)
        self.writable, self._seen = (prefix,), (base, launcher)
        self._target = self._ask(launcher)
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

    def _write_launcher(self, wine: str, prefix: Path) -> Path:
        """Write what is started like an interpreter."""
        path = self.folder / "python"
        words = {"wine": wine, "prefix": prefix, "python": f"{_HOME}\\python.exe"}
        quoted = {name: shlex.quote(str(word)) for name, word in words.items()}
        path.write_text(_LAUNCHER.format(**quoted), encoding="utf-8")
        path.chmod(0o755)
        return path

    def _ask(self, launcher: Path) -> TargetPython:
        folder = Path(packaging.__file__).parent
        files = HostFiles(visible=(folder,), writable=self.writable, interpreter=self.interpreter)
        answer = run_probe(
            launcher,
            "identify",
            {"packaging": str(folder)},
            timeout=self.timeout,
            sandbox=self.sandbox,
            files=files,
        )
        if answer.outcome is not Ending.OK or not answer.answer:
            last = answer.stderr.strip().rpartition("\n")[2]
            reason = last or " ".join((answer.outcome.value, answer.detail))
            raise Unavailable(f"wine {self._version} runs no Python: {reason}")
        target = read_target(launcher, answer.answer)
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
        from binary_checks.places.wine.wine_prefix import find_unimplemented, list_lacking

        answer = super().run(script, request, timeout=timeout, conditions=conditions)
        if function := find_unimplemented(answer.stderr):
            raise Unavailable(f"wine {self._version} does not implement {function}")
        lacking = tuple(dict.fromkeys(list_lacking(answer.stderr)))
        for name, needing in lacking:
            if name.lower() in windows_libraries("x86_64"):
                raise Unavailable(
                    f"wine {self._version} has no {name}, which {needing} needs and Windows has"
                )
        return replace(answer, answer=_name_lacking(answer.answer, lacking))

    def digest(self, path: str) -> str:
        """The SHA-256 of a file there."""
        place = path.replace("\\", "/").removeprefix("C:/")
        drive = self.folder / "prefix" / "drive_c"
        inside = "" if place != path.replace("\\", "/") else "Python/Lib/site-packages"
        return hash_file(Path(os.path.normpath(drive / inside / place)))

    def scrub(self, text: str) -> str:
        """Write paths relative to site-packages, with "/"."""
        text = re.sub(r"(?i)C:\\{1,2}Python\\{1,2}Lib\\{1,2}site-packages\\{1,2}", "", text)
        return super().scrub(text)

    def shown(self, path: str) -> str:
        """Write a path with "/", relative to site-packages when it lies below it."""
        return self.scrub(path).replace("\\", "/")


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
