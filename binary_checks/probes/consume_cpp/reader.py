"""Build C++ programs against an unpacked archive, then link and run them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from binary_checks.declaring import gathers
from binary_checks.errors import HostUnfit, NotApplicable, PackageError, Unavailable
from binary_checks.knowledge.library_names import cuda_of_label
from binary_checks.model import (
    BuildStep,
    Conditions,
    ConsumerReport,
    ConsumerRequest,
    ConsumerUnit,
    CppArchive,
    ElfFile,
    Ending,
    Format,
    ObjectFile,
    ObjectReader,
    OtherAbi,
    Place,
    ProgramBuild,
    Stage,
    TranslationUnit,
)
from binary_checks.places.unpacked import UnpackedPlace, find_programs, require_builds
from binary_checks.probes.consume_cpp.cmake_project import (
    BUILD,
    NAME,
    PROGRAM,
    SOURCE,
    Configured,
    Project,
    find_abi,
    read_configured,
)
from binary_checks.probes.consume_cpp.tools import (
    Tools,
    choose_tools,
    find_first_error,
    find_undefined,
    require_programs,
)
from binary_checks.probes.gpu_torch.reader import require_gpu
from binary_checks.probes.run_commands.reader import Command, CommandEnd, run_jobs
from binary_checks.probes.run_snippet.reader import name_system

_OWN_FOLDER = re.compile(r"\bbuild/(?:unit|module)\d+-\w+/(?:build/)?")
_OBJECT = f"CMakeFiles/{PROGRAM}.dir/{SOURCE}.o"
_ALONE, _OTHER = "alone", "other_abi"
_MOST_HANGS = 3  # units that may hang; each may take as long as the profile allows
_MOST_UNITS = 100
_WAYS = ("CMake", "the compiler alone")
EXAMPLE = "example"
"""The neutral unit, which links every library that the package exports and prints its version."""


@gathers(ConsumerReport)
def build_consumers(
    place: Place, package: CppArchive, request: ConsumerRequest, objects: ObjectReader
) -> ConsumerReport:
    """Build, link and run every unit that applies to this archive.

    Raises Unavailable if there is no compiler, NotApplicable if the archive has no files for C++
    build tools and the profile names no unit either.
    """
    system = name_system(place.target)
    wanted, elsewhere = _choose(package, request, system)
    modules = list_modules(package)
    if not wanted and not modules:
        raise NotApplicable("it has no CMake package and no pkg-config module")
    _require_native(package, place)
    own = require_builds(place)
    programs = _require_programs(package, request, own)
    tools = choose_tools(own, os.environ, objects, programs)  # before anything is unpacked
    own.require_installed(package)
    bench = _Bench(place=own, tools=tools, request=request, reader=objects)
    units = [*bench.build_all(wanted), *start_modules(own, tools, modules, bench.finish)]
    return ConsumerReport(
        python=place.target.name, tools=tools.shown, units=tuple(units), elsewhere=elsewhere
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """A unit to build."""

    name: str
    package: str
    unit: TranslationUnit | None  # None for the neutral example

    def begin(self) -> ConsumerUnit:
        """Return the unit's facts before it is built."""
        return ConsumerUnit(
            name=self.name,
            package=self.package,
            expected=self.unit.prints if self.unit else None,
            refuses=self.unit.refuses if self.unit else (),
        )


def _choose(
    package: CppArchive, request: ConsumerRequest, system: str
) -> tuple[list[_Wanted], tuple[tuple[str, str], ...]]:
    """Return the units that apply to the archive.

    Also return the name of each other unit, with the systems or variants to which that unit
    applies.
    """
    names = [each.name for each in package.cmake_packages if NAME.fullmatch(each.name)]
    first = request.package or next(iter(names), "")
    shown = [request.package] if request.package else names
    wanted = [_Wanted(name=f"{EXAMPLE} {each}", package=each, unit=None) for each in shown]
    elsewhere = []
    variant = package.claims.variant
    for name, unit in request.units.items():
        if not unit.source:
            continue
        if not any(fnmatchcase(system, glob) for glob in unit.systems):
            elsewhere.append((name, " and ".join(unit.systems)))
        elif variant and not any(fnmatchcase(variant, glob) for glob in unit.variants):
            elsewhere.append((name, f"builds for {' and '.join(unit.variants)}"))
        else:
            wanted.append(_Wanted(name=name, package=unit.package or first, unit=unit))
    return wanted, tuple(elsewhere)


def _require_native(package: CppArchive, place: Place) -> None:
    """Raise Unavailable for libraries that no program of this host can link."""
    name, _, architecture = name_system(place.target).partition("-")
    formats = {"linux": Format.ELF, "macos": Format.MACHO}
    if name not in formats:
        raise Unavailable("programs are built against archives only on Linux and macOS")
    objects = [each for each in package.objects if each.format in {*formats.values(), Format.PE}]
    native = [each for each in objects if each.format == formats[name]]
    if objects and not any(each.architecture == architecture for each in native):
        theirs = objects[0]
        raise Unavailable(
            f"its libraries are {theirs.format} for {theirs.architecture}, "
            f"but this host builds programs for {name} on {architecture}"
        )
    for claim in package.claims.systems:
        if claim.libc and place.target.libc and not place.target.libc.startswith(claim.libc):
            raise Unavailable(
                f"its libraries are for {claim.libc}, but this host has {place.target.libc}"
            )


def _require_programs(
    package: CppArchive, request: ConsumerRequest, place: UnpackedPlace
) -> tuple[Path, ...]:
    """Return the programs that the profile requires for this variant, besides a compiler.

    Those that are not on PATH are taken from the wheels that the profile names for the variant.
    """
    variant = package.claims.variant
    names = [
        name
        for glob, programs in request.programs.items()
        if fnmatchcase(variant, glob)
        for name in programs
    ]
    requires = [
        text.replace("{cuda}", cuda_of_label(variant))
        for glob, texts in request.toolkits.items()
        if fnmatchcase(variant, glob)
        for text in texts
    ]
    try:
        return require_programs(names, os.environ)
    except Unavailable:
        if not requires:
            raise
    root = place.install_toolkit(requires)
    return require_programs(names, {"PATH": str(root / "bin")})


@dataclass(frozen=True, kw_only=True)
class _Bench:
    """The folder and tools with which units are built, one after another."""

    place: UnpackedPlace
    tools: Tools
    request: ConsumerRequest
    reader: ObjectReader

    def build_all(self, wanted: Sequence[_Wanted]) -> Iterator[ConsumerUnit]:
        """Build all units; stop if the package makes CMake hang, or after several hangs."""
        hung: dict[str, str] = {}
        hangs = 0
        for number, each in enumerate(wanted):
            reason = f"find_package({each.package}) hung for {hung.get(each.package)} before"
            if hangs >= _MOST_HANGS or number >= _MOST_UNITS:
                reason = (
                    "not tried, as too many other programs hung"
                    if not hangs
                    else "others hung before"
                )
            elif each.package not in hung:
                unit = self._build(each, self.place.make_folder(f"unit{number}"))
                steps = (unit.configured, *(build.last for build in unit.builds))
                hangs += any(step and step.outcome is Ending.HUNG for step in steps)
                if unit.configured is not None and unit.configured.outcome is Ending.HUNG:
                    hung[each.package] = unit.configured.detail
                yield unit
                continue
            yield replace(each.begin(), untried=reason)

    def _build(self, wanted: _Wanted, folder: Path) -> ConsumerUnit:
        asked = wanted.unit
        unit = wanted.begin()
        if not wanted.package:
            return replace(
                unit, untried="the archive has no CMake package, and the profile names none"
            )
        _make_project(wanted, self.request).write(folder)
        command = self.tools.configure(folder, BUILD, self.place.prefix)
        ((end,),) = run_jobs(self.place, [[command]], self.tools.conditions)
        configured = self.finish(Stage.CONFIGURE, end)
        if end.outcome is not Ending.OK:
            return replace(unit, configured=configured)
        try:
            known = read_configured(folder, self.place.prefix)
        except PackageError as error:
            broken = replace(configured, outcome=Ending.EXITED, message=str(error))
            return replace(unit, configured=broken)
        unit = replace(
            unit, configured=configured, targets=known.targets, reads=tuple(self._own(known.reads))
        )
        if known.directory and not self._is_own(known.directory):
            found = (
                f"find_package finds it in {self.place.scrub(known.directory)}, not in this archive"
            )
            strayed = replace(configured, outcome=Ending.EXITED, message=found)
            return replace(unit, configured=strayed)
        return self._build_configured(unit, asked, folder, known)

    def _is_own(self, path: str) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.place.prefix.resolve())

    def _own(self, paths: Sequence[str]) -> Iterator[str]:
        """Yield the paths below the prefix, relative to the prefix."""
        beginning = f"{self.place.prefix}{os.sep}"
        return (path.removeprefix(beginning) for path in paths if path.startswith(beginning))

    def _build_configured(
        self, unit: ConsumerUnit, asked: TranslationUnit | None, folder: Path, known: Configured
    ) -> ConsumerUnit:
        """Build with CMake and, at the same time, with only the flags that CMake reported."""
        conditions, not_run = self._find_conditions(asked)
        jobs = _Jobs(tools=self.tools, folder=folder, known=known, runs=not not_run)
        other = jobs.compile_other_abi() if unit.refuses else None
        commands = [jobs.build_with_cmake(), jobs.build_alone(), *([other] if other else [])]
        with_cmake, alone, *rest = run_jobs(self.place, commands, conditions)
        builds = (
            self._read_cmake(with_cmake, folder),
            self._read_build(_WAYS[1], alone, folder / _ALONE / PROGRAM),
        )
        return replace(
            unit,
            builds=builds,
            not_run=not_run,
            other_abi=self._read_other(jobs, rest) if unit.refuses else None,
        )

    def _find_conditions(self, asked: TranslationUnit | None) -> tuple[Conditions, str]:
        """Return the conditions for running the program, or why it is only linked."""
        if asked is None or not asked.gpu:
            return self.tools.conditions, ""
        try:
            conditions, _ = self._gpu
        except HostUnfit as error:
            return self.tools.conditions, str(error)
        variables = {**conditions.variables, **self.tools.conditions.variables}
        return replace(conditions, variables=variables), ""

    @cached_property
    def _gpu(self) -> tuple[Conditions, object]:
        return require_gpu(self.place)

    def _read_cmake(self, ends: Sequence[CommandEnd], folder: Path) -> ProgramBuild:
        """Read the result of CMake's single command.

        If there is an object file, the compilation succeeded.
        """
        build = folder / BUILD
        compiled = (build / _OBJECT).is_file()
        first = Stage.LINK if compiled else Stage.COMPILE
        stages = (first, Stage.RUN)
        return self._describe(_WAYS[0], ends, stages, build / PROGRAM)

    def _read_build(self, way: str, ends: Sequence[CommandEnd], program: Path) -> ProgramBuild:
        return self._describe(way, ends, (Stage.COMPILE, Stage.LINK, Stage.RUN), program)

    def _describe(
        self, way: str, ends: Sequence[CommandEnd], stages: Sequence[Stage], program: Path
    ) -> ProgramBuild:
        last = self.finish(stages[len(ends) - 1], ends[-1])
        built = last.stage is Stage.RUN or (last.stage is Stage.LINK and last.outcome is Ending.OK)
        found = self._read_program(program) if built else None
        if not isinstance(found, ElfFile):
            return ProgramBuild(way=way, last=last, program=found)
        rpath, runpath = (tuple(map(self._name_place, p)) for p in (found.rpath, found.runpath))
        return ProgramBuild(
            way=way,
            last=last,
            program=replace(found, rpath=rpath, runpath=runpath),
            search_path=(*rpath, *runpath),
        )

    def _read_program(self, program: Path) -> ObjectFile | None:
        try:
            read = self.place.read_program(str(program.relative_to(self.place.work)), self.reader)
        except PackageError:  # the program deleted itself
            return None
        return next((each for each in read if isinstance(each, ObjectFile)), None)

    def _name_place(self, entry: str) -> str:
        """Return an entry of a search path; replace a folder of this run by a fixed name."""
        folders = {str(self.place.prefix): "$PREFIX", str(self.place.work): "$BUILD"}
        named = next((f for f in folders if entry == f or entry.startswith(f"{f}/")), "")
        return f"{folders[named]}{entry.removeprefix(named)}" if named else entry

    def _read_other(self, jobs: _Jobs, rest: Sequence[Sequence[CommandEnd]]) -> OtherAbi:
        if not rest:
            lack = f"{self.tools.shown.compiler} does not build with libstdc++"
            last = BuildStep(stage=Stage.COMPILE)
            return OtherAbi(flag="", last=last, untried=lack)
        (ends,) = rest
        stages = (Stage.COMPILE, Stage.LINK)
        last = self.finish(stages[len(ends) - 1], ends[-1])
        return OtherAbi(flag=jobs.other_abi, last=last)

    def finish(self, stage: Stage, end: CommandEnd) -> BuildStep:
        """Describe how a command ended, without temporary paths."""
        silent = end.outcome in {Ending.OK, Ending.HUNG, Ending.STOPPED}
        output = _OWN_FOLDER.sub("build/", self.place.scrub(end.output))
        return BuildStep(
            stage=stage,
            outcome=end.outcome,
            detail=end.detail,
            message="" if silent else find_first_error(output),
            printed=self.place.scrub(end.stdout).strip() if stage is Stage.RUN else "",
            undefined=find_undefined(output) if stage is not Stage.RUN else (),
        )


def _make_project(wanted: _Wanted, request: ConsumerRequest) -> Project:
    unit = wanted.unit
    project = Project(package=wanted.package, standard=request.standard)
    if unit is None:
        return replace(project, components=request.components)
    return replace(
        project,
        source=unit.source,
        components=unit.components or request.components,
        libraries=unit.libraries or request.libraries,
        defines=unit.defines,
    )


@dataclass(frozen=True, kw_only=True)
class _Jobs:
    """The commands that build a configured unit: with and without CMake, and for the other ABI."""

    tools: Tools
    folder: Path
    known: Configured
    runs: bool  # whether the programs are run, too

    def build_with_cmake(self) -> list[Command]:
        """Return the commands that compile and link the unit with CMake."""
        return [
            self.tools.build(self.folder, BUILD),
            *self._run(self.folder / BUILD / PROGRAM),
        ]

    def build_alone(self) -> list[Command]:
        """Return the commands that compile and link with only the flags that CMake reported."""
        return [*self._compile(_ALONE), *self._run(self.folder / _ALONE / PROGRAM)]

    @property
    def other_abi(self) -> str:
        """Return the flag for the other ABI; "" if the compiler has only one."""
        abi = find_abi(self.known.compile_flags, self.tools.abi)
        return abi.other.spell() if abi else ""

    def compile_other_abi(self) -> list[Command] | None:
        """Return the commands that build the unit for the other ABI; None if there is only one."""
        if not (flag := self.other_abi):
            return None
        return self._compile(_OTHER, (flag,), ("-Wl,--no-demangle",))

    def _compile(
        self, name: str, flags: tuple[str, ...] = (), links: tuple[str, ...] = ()
    ) -> list[Command]:
        folder = self.folder / name
        if self.folder.is_symlink() or os.path.lexists(folder):
            raise PackageError("code from the package replaced a build folder while CMake ran it")
        folder.mkdir()
        compiler, source = str(self.tools.compiler), str(self.folder / SOURCE)
        known = self.known
        return [
            Command(
                argv=(compiler, *known.compile_flags, *flags, "-c", source, "-o", "main.o"),
                folder=folder,
            ),
            Command(
                argv=(compiler, "main.o", "-o", PROGRAM, *known.link_flags, *links), folder=folder
            ),
        ]

    def _run(self, program: Path) -> list[Command]:
        return [Command(argv=(str(program),), folder=program.parent)] if self.runs else []


# The neutral example, built with the archive's pkg-config modules.

_MODULE = re.compile(
    r"(?P<folder>(?:lib(?:64)?|share)(?:/[^/]+)?/pkgconfig)/(?P<name>[\w.+-]+)\.pc"
)
_MOST = 50  # modules of one archive; Qt has 40
_PROGRAMS = ("pkg-config", "pkgconf")
_EXAMPLE = "int main() { return 0; }\n"
_STAGES = (Stage.COMPILE, Stage.LINK, Stage.RUN)
Finish = Callable[[Stage, CommandEnd], BuildStep]


def list_modules(package: CppArchive) -> dict[str, str]:
    """Return the names of the archive's modules, with the folder of each."""
    found = (_MODULE.fullmatch(member.path) for member in package.members)
    rows = sorted((m["name"], m["folder"]) for m in found if m)
    return dict(rows[:_MOST])


def start_modules(
    place: UnpackedPlace, tools: Tools, modules: dict[str, str], finish: Finish
) -> Iterator[ConsumerUnit]:
    """Build a program with each module; yield the results."""
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
        raise Unavailable("pkg-config prints flags that no shell can parse") from None


def _list_commands(
    place: UnpackedPlace, tools: Tools, folder: Path, flags: Sequence[str]
) -> list[Command]:
    """Return the commands that compile, link and run a program, with the search path of users."""
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
