"""Build C++ programs against an unpacked archive, then link and run them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
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
    ABI_MACRO,
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
    own.require_unpacked(package)
    bench = _Bench(place=own, tools=tools, request=request, reader=objects)
    units = [*bench.build_all(wanted), *bench.build_modules(modules)]
    return ConsumerReport(
        python=place.target.name, tools=tools.shown, units=tuple(units), elsewhere=elsewhere
    )


_Wanted = tuple[ConsumerUnit, TranslationUnit | None]
"""A unit to build: its facts before it is built, and its source; None for the neutral example."""


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
    wanted: list[_Wanted] = [
        (ConsumerUnit(name=f"{EXAMPLE} {each}", package=each), None) for each in shown
    ]
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
            begun = ConsumerUnit(
                name=name,
                package=unit.package or first,
                expected=unit.prints,
                refuses=unit.refuses,
            )
            wanted.append((begun, unit))
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
        for number, (begun, asked) in enumerate(wanted):
            reason = f"find_package({begun.package}) hung for {hung.get(begun.package)} before"
            if hangs >= _MOST_HANGS:
                reason = "others hung before"
            elif begun.package not in hung:
                unit = self._build(begun, asked, self.place.make_folder(f"unit{number}"))
                steps = (unit.configured, *(build.last for build in unit.builds))
                hangs += any(step and step.outcome is Ending.HUNG for step in steps)
                if unit.configured is not None and unit.configured.outcome is Ending.HUNG:
                    hung[begun.package] = unit.configured.detail
                yield unit
                continue
            yield replace(begun, untried=reason)

    def _build(
        self, unit: ConsumerUnit, asked: TranslationUnit | None, folder: Path
    ) -> ConsumerUnit:
        """Configure a unit with CMake, then build it."""
        if not unit.package:
            return replace(
                unit, untried="the archive has no CMake package, and the profile names none"
            )
        _make_project(unit.package, asked, self.request).write(folder)
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
        below = f"{self.place.prefix}{os.sep}"
        own = [path.removeprefix(below) for path in known.reads if path.startswith(below)]
        unit = replace(unit, configured=configured, targets=known.targets, reads=tuple(own))
        directory = Path(os.path.realpath(known.directory))
        if known.directory and not directory.is_relative_to(self.place.prefix.resolve()):
            found = (
                f"find_package finds it in {self.place.scrub(known.directory)}, not in this archive"
            )
            strayed = replace(configured, outcome=Ending.EXITED, message=found)
            return replace(unit, configured=strayed)
        return self._build_configured(unit, asked, folder, known)

    def _build_configured(
        self, unit: ConsumerUnit, asked: TranslationUnit | None, folder: Path, known: Configured
    ) -> ConsumerUnit:
        """Build with CMake and, at the same time, with only the flags that CMake reported.

        Build for the compiler's other ABI, too, if the unit expects the archive to refuse it.
        """
        conditions, not_run = self._find_conditions(asked)
        running = [] if not_run else self._run(folder / BUILD)
        jobs = [[self.tools.build(folder, BUILD), *running]]
        alone = self._make_folder(folder, _ALONE)
        source = str(folder / SOURCE)
        commands = self._compile(alone, source, known.compile_flags, known.link_flags)
        jobs.append([*commands, *([] if not_run else self._run(alone))])
        abi = find_abi(known.compile_flags, self.tools.abi) if unit.refuses else ""
        other = f"-D{ABI_MACRO}={'10'[int(abi)]}" if abi else ""
        if other:
            compiled = (*known.compile_flags, other)
            linked = (*known.link_flags, "-Wl,--no-demangle")
            separate = self._make_folder(folder, _OTHER)
            jobs.append(self._compile(separate, source, compiled, linked))
        with_cmake, by_itself, *rest = run_jobs(self.place, jobs, conditions)
        # CMake compiles and links in one command; an object file shows that it compiled.
        linking = (folder / BUILD / _OBJECT).is_file()
        stages = (Stage.LINK if linking else Stage.COMPILE, Stage.RUN)
        return replace(
            unit,
            builds=(
                self._describe(_WAYS[0], with_cmake, stages, folder / BUILD / PROGRAM),
                self._describe(_WAYS[1], by_itself, _STAGES, alone / PROGRAM),
            ),
            not_run=not_run,
            other_abi=self._read_other(other, rest) if unit.refuses else None,
        )

    def _make_folder(self, folder: Path, name: str) -> Path:
        if folder.is_symlink() or os.path.lexists(folder / name):
            raise PackageError("code from the package replaced a build folder while CMake ran it")
        (folder / name).mkdir()
        return folder / name

    def _compile(
        self, folder: Path, source: str, flags: Sequence[str], links: Sequence[str]
    ) -> list[Command]:
        """Return the commands that compile and link a program."""
        compiler = str(self.tools.compiler)
        compiling = (compiler, *flags, "-c", source, "-o", "main.o")
        linking = (compiler, "main.o", "-o", PROGRAM, *links)
        return [Command(argv=argv, folder=folder) for argv in (compiling, linking)]

    def _run(self, folder: Path) -> list[Command]:
        return [Command(argv=(str(folder / PROGRAM),), folder=folder)]

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

    def _read_other(self, flag: str, rest: Sequence[Sequence[CommandEnd]]) -> OtherAbi:
        if not rest:
            lack = f"{self.tools.shown.compiler} does not build with libstdc++"
            last = BuildStep(stage=Stage.COMPILE)
            return OtherAbi(flag="", last=last, untried=lack)
        (ends,) = rest
        return OtherAbi(flag=flag, last=self.finish(_STAGES[len(ends) - 1], ends[-1]))

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

    def build_modules(self, modules: Mapping[str, str]) -> Iterator[ConsumerUnit]:
        """Build a neutral program with each of the archive's pkg-config modules."""
        found = find_programs(_PROGRAMS, os.environ)
        self.place.show(found[:1])
        folders = ":".join(
            str(self.place.prefix / each) for each in dict.fromkeys(modules.values())
        )
        for number, name in enumerate(modules):
            unit = ConsumerUnit(name=f"pkg-config {name}", package="")
            if not found:
                lack = f"on PATH there is neither {' nor '.join(_PROGRAMS)}; install pkgconf"
                yield replace(unit, untried=lack)
                continue
            asked = ("/usr/bin/env", f"PKG_CONFIG_PATH={folders}", str(found[0]))
            folder = self.place.make_folder(f"module{number}")
            command = Command(argv=(*asked, "--cflags", "--libs", name), folder=folder)
            ((end,),) = run_jobs(self.place, [[command]], self.tools.conditions)
            unit = replace(unit, configured=self.finish(Stage.CONFIGURE, end))
            yield self._build_module(unit, folder, end.stdout) if end.outcome is Ending.OK else unit

    def _build_module(self, unit: ConsumerUnit, folder: Path, stated: str) -> ConsumerUnit:
        """Build and run the program with the flags that pkg-config stated."""
        try:
            flags = shlex.split(stated)
        except ValueError:
            raise Unavailable("pkg-config prints flags that no shell can parse") from None
        (folder / SOURCE).write_text(_EXAMPLE, encoding="ascii")
        # the search path of users
        rpath = [f"-Wl,-rpath,{self.place.prefix / each}" for each in ("lib", "lib64")]
        links = ("-Wl,--no-as-needed", *flags, *rpath)
        commands = [*self._compile(folder, SOURCE, flags, links), *self._run(folder)]
        (ends,) = run_jobs(self.place, [commands], self.tools.conditions)
        last = self.finish(_STAGES[len(ends) - 1], ends[-1])
        return replace(unit, builds=(ProgramBuild(way=unit.name, last=last),))


def _make_project(package: str, unit: TranslationUnit | None, request: ConsumerRequest) -> Project:
    project = Project(package=package, standard=request.standard)
    if unit is None:
        return replace(project, components=request.components)
    return replace(
        project,
        source=unit.source,
        components=unit.components or request.components,
        libraries=unit.libraries or request.libraries,
        defines=unit.defines,
    )


_MODULE = re.compile(
    r"(?P<folder>(?:lib(?:64)?|share)(?:/[^/]+)?/pkgconfig)/(?P<name>[\w.+-]+)\.pc"
)
_PROGRAMS = ("pkg-config", "pkgconf")
_EXAMPLE = "int main() { return 0; }\n"
_STAGES = (Stage.COMPILE, Stage.LINK, Stage.RUN)


def list_modules(package: CppArchive) -> dict[str, str]:
    """Return the names of the archive's pkg-config modules, with the folder of each."""
    found = (_MODULE.fullmatch(member.path) for member in package.members)
    return dict(sorted((m["name"], m["folder"]) for m in found if m))
