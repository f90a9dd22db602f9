"""Build tools of the host: the first program of each kind that works in the place."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import BuildTools, Conditions, ElfFile, Ending, ObjectReader
from binary_checks.places.unpacked import UnpackedPlace, find_named, find_programs
from binary_checks.probes.run_commands.reader import Command, CommandEnd, run_jobs

_COMPILERS = ("c++", "g++", "clang++")
_OLDEST = (3, 21)  # oldest version of CMake; earlier ones do not list imported targets
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_EMPTY = "int main() { return 0; }\n"
_MACROS = "#include <string>\n"
_ABI = re.compile(r"^#define _GLIBCXX_USE_CXX11_ABI ([01])$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tools:
    """The programs with which units are built."""

    cmake: Path
    generator: str
    maker: Path  # ninja or make
    compiler: Path
    abi: str  # the compiler's default ABI of libstdc++, "1" or "0"; "" for another library
    shown: BuildTools
    conditions: Conditions

    def configure(self, folder: Path, build: str, prefix: Path) -> Command:
        """Return the command that configures the project in a folder."""
        return Command(
            argv=(
                *(str(self.cmake), "-G", self.generator, "-S", ".", "-B", build),
                f"-DCMAKE_MAKE_PROGRAM={self.maker}",
                f"-DCMAKE_CXX_COMPILER={self.compiler}",
                f"-DCMAKE_PREFIX_PATH={prefix}",
                # The build type of users, but without the optimiser, which takes half of the time.
                *("-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG"),
                *("-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF", "-Wno-dev"),
            ),
            folder=folder,
        )

    def build(self, folder: Path, build: str) -> Command:
        """Return the command that builds the project."""
        return Command(argv=(str(self.cmake), "--build", build, "--parallel", "1"), folder=folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidates:
    """The programs of the host that may work."""

    cmakes: tuple[Path, ...]
    makers: tuple[tuple[str, Path], ...]  # (generator, program)
    compilers: tuple[Path, ...]


def find_candidates(environ: Mapping[str, str]) -> _Candidates:
    """Find all candidates; the program in CXX comes first.

    Raises Unavailable if programs are missing; the message lists all of them.
    """
    ninjas = find_programs(("ninja", "ninja-build"), environ)
    makes = find_programs(("make", "gmake"), environ)
    compilers = (*find_named("CXX", environ), *find_programs(_COMPILERS, environ))
    found = _Candidates(
        cmakes=find_programs(("cmake", "cmake3"), environ),
        makers=(*(("Ninja", p) for p in ninjas), *(("Unix Makefiles", p) for p in makes)),
        compilers=tuple(dict.fromkeys(compilers)),
    )
    lacks = []
    if not found.compilers:
        lacks.append(f"no C++ compiler ({', '.join(_COMPILERS)}); install g++ or clang++")
    if not found.cmakes:
        lacks.append("no cmake; install it (pip install cmake)")
    if not found.makers:
        lacks.append("neither ninja nor make; install one (pip install ninja)")
    if lacks:
        raise Unavailable(f"on PATH there is {', '.join(lacks)}")
    return found


def require_programs(names: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return each of these programs. Raises Unavailable if one is missing."""
    found = {name: find_programs((name,), environ)[:1] for name in names}
    if lacking := [name for name, paths in found.items() if not paths]:
        raise Unavailable(f"on PATH there is no {lacking[0]}, which this variant needs")
    return tuple(path for paths in found.values() for path in paths)


def choose_tools(
    place: UnpackedPlace,
    environ: Mapping[str, str],
    reader: ObjectReader,
    more: tuple[Path, ...] = (),
) -> Tools:
    """Choose the first program of each kind that works; make those in ``more`` visible, too.

    Raises GatherError if none works: then the host is the cause, not a package.
    """
    found = find_candidates(environ)
    programs = (*found.cmakes, *(path for _, path in found.makers), *found.compilers, *more)
    place.show(programs)
    folders = dict.fromkeys(str(path.parent) for path in (*more, *programs))
    # A script from PyPI finds its Python through its first line, and CMake finds programs on PATH.
    conditions = Conditions(variables={"PATH": os.pathsep.join((*folders, _SYSTEM_PATH))})
    trial = _Trial(place, conditions)
    cmake, output = trial.choose([(path, ("--version",)) for path in found.cmakes])
    version = _require_new_enough(cmake, output)
    maker, _ = trial.choose([(path, ("--version",)) for _, path in found.makers])
    generator = next(name for name, path in found.makers if path == maker)
    compiler, abi = trial.choose_compiler(found.compilers)
    _, spoken = trial.choose([(compiler, ("--version",))])
    return Tools(
        cmake=cmake,
        generator=generator,
        maker=maker,
        compiler=compiler,
        abi=abi,
        shown=BuildTools(
            cmake=f"CMake {version}",
            generator=generator,
            compiler=spoken.strip().partition("\n")[0],
            search_path=tuple(_read_search_path(place, reader)),
        ),
        conditions=conditions,
    )


def _read_search_path(place: UnpackedPlace, reader: ObjectReader) -> Iterator[str]:
    """Yield the search path in an empty program, since compilers of Nix and conda add one."""
    for program in place.read_program("trial/empty", reader):
        if isinstance(program, ElfFile):
            yield from (*program.rpath, *program.runpath)


def _require_new_enough(cmake: Path, output: str) -> str:
    found = re.search(r"(\d+)\.(\d+)[\w.-]*", output)
    if not found:
        raise GatherError(f"{cmake}: does not report the version of CMake")
    if (int(found[1]), int(found[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise Unavailable(
            f"cmake on PATH is {found[0]}, and {oldest} or later is needed (pip install cmake)"
        )
    return found[0]


@dataclass(frozen=True)
class _Trial:
    """A trial of programs in the place."""

    place: UnpackedPlace
    conditions: Conditions

    def choose(self, candidates: Sequence[tuple[Path, tuple[str, ...]]]) -> tuple[Path, str]:
        """Return the first program that succeeds, with its output."""
        reasons = []
        for path, arguments in candidates:
            (end,) = self._run([Command(argv=(str(path), *arguments), folder=self.place.work)])
            if end.outcome is Ending.OK:
                return path, end.stdout
            reasons.append(f"{path} {_describe_end(end)}")
        raise GatherError(f"it does not run here: {'; '.join(reasons)}")

    def choose_compiler(self, candidates: Sequence[Path]) -> tuple[Path, str]:
        """Return the first compiler whose empty program runs, with its ABI of libstdc++."""
        reasons = []
        folder = self.place.work / "trial"
        for path in candidates:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / "empty.cpp").write_text(_EMPTY, encoding="ascii")
            (folder / "macros.cpp").write_text(_MACROS, encoding="ascii")
            ends = self._run(
                [
                    Command(argv=(str(path), "empty.cpp", "-o", "empty"), folder=folder),
                    Command(argv=(str(folder / "empty"),), folder=folder),
                    Command(argv=(str(path), "-E", "-dM", "macros.cpp"), folder=folder),
                ]
            )
            if all(end.outcome is Ending.OK for end in ends):
                found = _ABI.search(ends[-1].stdout)
                return path, found[1] if found else ""
            reasons.append(f"{path} {_describe_end(ends[-1])}")
        raise GatherError(f"no C++ compiler builds an empty program here: {'; '.join(reasons)}")

    def _run(self, commands: Sequence[Command]) -> tuple[CommandEnd, ...]:
        (ends,) = run_jobs(self.place, [commands], self.conditions)
        return ends


def _describe_end(end: CommandEnd) -> str:
    how = {Ending.HUNG: "does not end within ", Ending.CRASHED: "crashes with "}.get(
        end.outcome, ""
    )
    if end.detail.startswith("exit status"):
        how = "ends with "
    reason = find_first_error(end.output)
    return f"{how}{end.detail}{reason and f' ({reason})'}"


# The relevant line in the output of CMake, a compiler or a linker.

_LONGEST = 600  # characters of an error
_MOST_NAMES = 200
_CMAKE = re.compile(
    r"^CMake Error(?: at (?P<place>\S+?:\d+)| in \S+?)?(?: \([^)\n]*\))?:[ \t]*", re.MULTILINE
)
_COMPILER = re.compile(r"^(?:\S[^\n]*: |[^\S\n]*)(?:fatal error|error|internal compiler error): .+")
_OF_DRIVERS = re.compile(
    r"collect2: error: |\S+: error: linker command failed|ninja: build stopped"
)
"""Summaries that follow another program's error."""
_LINKER = re.compile(
    r"undefined reference to|undefined symbol|Undefined symbols|multiple definition"
    r"|duplicate symbol|cannot find -l|cannot find \S|not found \(try using|symbol lookup error"
    r"|unable to find library|file (?:format )?not recognized|incompatible with"
    r"|error while loading shared libraries|No rule to make target|missing and no known rule"
)
_UNDEFINED = re.compile(
    r"(?:undefined reference to|undefined symbol:?) (?:\S+\.o: )?[`'\"]?(?P<name>[^\s'\"`]+)"
)


def find_first_error(output: str) -> str:
    """Return the first error in one line, or else the last line that is not empty, or ""."""
    if found := _CMAKE.search(output):
        paragraph = " ".join(_take_paragraphs(output[found.end() :]))
        return _cut(f"{found['place']}: {paragraph}" if found["place"] else paragraph)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not _OF_DRIVERS.match(line)] or lines
    for rule in (_COMPILER.match, _LINKER.search):
        if first := next((line for line in lines if rule(line)), ""):
            return _cut(first)
    return _cut(lines[-1]) if lines else ""


def _take_paragraphs(text: str) -> Iterator[str]:
    """Yield the rest of the first line and the indented lines after it, without CMake's guesses."""
    first, _, rest = text.partition("\n")
    yield from filter(None, (first.strip(),))
    for line in rest.splitlines():
        if line.strip() and not line.startswith(" "):
            return
        before, guesses, _ = line.partition("Possible reasons include:")
        yield from filter(None, (before.strip(),))
        if guesses:
            return


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def find_undefined(output: str) -> tuple[str, ...]:
    """Return the symbols that a linker did not find, each once, up to its first space."""
    names = dict.fromkeys(match["name"] for match in _UNDEFINED.finditer(output))
    return tuple(names)[:_MOST_NAMES]
