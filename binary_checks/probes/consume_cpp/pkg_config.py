"""Builds the neutral example by what the archive's own pkg-config modules say."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from binary_checks.errors import Unavailable
from binary_checks.model import Ending
from binary_checks.model.packages import CppArchive
from binary_checks.model.probes import BuildStep, ConsumerUnit, ProgramBuild, Stage
from binary_checks.places.unpacked import UnpackedPlace, find_programs
from binary_checks.probes.consume_cpp.cmake_project import PROGRAM, SOURCE
from binary_checks.probes.consume_cpp.tools import Tools
from binary_checks.probes.run_commands.reader import Command, CommandEnd, run_jobs

_MODULE = re.compile(
    r"(?P<folder>(?:lib(?:64)?|share)(?:/[^/]+)?/pkgconfig)/(?P<name>[\w.+-]+)\.pc"
)
_MOST = 50  # modules; Qt has 40
_PROGRAMS = ("pkg-config", "pkgconf")
_EXAMPLE = "int main() { return 0; }\n"
_STAGES = (Stage.COMPILE, Stage.LINK, Stage.RUN)
Finish = Callable[[Stage, CommandEnd], BuildStep]


def list_modules(package: CppArchive) -> dict[str, str]:
    """The names of its modules, and the folder of each."""
    found = (_MODULE.fullmatch(member.path) for member in package.members)
    rows = sorted((m["name"], m["folder"]) for m in found if m)
    return dict(rows[:_MOST])


def start_modules(
    place: UnpackedPlace, tools: Tools, modules: dict[str, str], finish: Finish
) -> Iterator[ConsumerUnit]:
    """Build a program by each module."""
    if not modules:
        return
    found = find_programs(_PROGRAMS, os.environ)
    folders = ":".join(str(place.prefix / each) for each in dict.fromkeys(modules.values()))
    for number, name in enumerate(modules):
        unit = ConsumerUnit(name=f"pkg-config {name}", package="")
        if not found:
            yield ConsumerUnit(
                name=unit.name,
                package="",
                untried=f"on PATH there is neither {' nor '.join(_PROGRAMS)}; install pkgconf",
            )
            continue
        place.show(found[:1])
        folder = place.make_folder(f"module{number}")
        yield _build(place, tools, (name, found[0], folders), folder, finish)


def _build(
    place: UnpackedPlace,
    tools: Tools,
    module: tuple[str, Path, str],
    folder: Path,
    finish: Finish,
) -> ConsumerUnit:
    name, program, folders = module
    (folder / SOURCE).write_text(_EXAMPLE, encoding="ascii")
    asked = Command(
        argv=(
            "/usr/bin/env",
            f"PKG_CONFIG_PATH={folders}",
            str(program),
            "--cflags",
            "--libs",
            name,
        ),
        folder=folder,
    )
    ((end,),) = run_jobs(place, [[asked]], tools.conditions)
    step = finish(Stage.CONFIGURE, end)
    unit = ConsumerUnit(name=f"pkg-config {name}", package="", configured=step)
    if end.outcome is not Ending.OK:
        return unit
    flags = _split(end.stdout)
    (ends,) = run_jobs(place, [_list_commands(place, tools, folder, flags)], tools.conditions)
    last = finish(_STAGES[len(ends) - 1], ends[-1])
    build = ProgramBuild(way=f"pkg-config {name}", last=last)
    return ConsumerUnit(name=unit.name, package="", configured=step, builds=(build,))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise Unavailable("pkg-config gives flags that no shell can read") from None


def _list_commands(
    place: UnpackedPlace, tools: Tools, folder: Path, flags: Sequence[str]
) -> list[Command]:
    """Compile, link and run it; where its libraries lie, users say themselves."""
    compiler = str(tools.compiler)
    rpath = [f"-Wl,-rpath,{place.prefix / each}" for each in ("lib", "lib64")]
    return [
        Command(argv=(compiler, *flags, "-c", SOURCE, "-o", "main.o"), folder=folder),
        Command(
            argv=(compiler, "main.o", "-o", PROGRAM, "-Wl,--no-as-needed", *flags, *rpath),
            folder=folder,
        ),
        Command(argv=(str(folder / PROGRAM),), folder=folder),
    ]
