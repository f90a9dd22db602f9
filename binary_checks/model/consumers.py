"""What became of C++ programs that were built against an unpacked archive, linked and run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from binary_checks.model.objects import ObjectFile
from binary_checks.model.probes import Ending, ProbeReport


class Stage(str, Enum):
    """How far a program came on its way."""

    CONFIGURE = "configure"  # find_package, and CMake's generation of the build
    COMPILE = "compile"
    LINK = "link"
    RUN = "run"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildTools:
    """With what everything was built."""

    cmake: str  # "CMake 4.4.4"
    generator: str  # "Ninja", "Unix Makefiles"
    compiler: str  # the first line of its --version
    search_path: tuple[str, ...] = ()  # that the compiler itself puts into every program

    def spell(self) -> str:
        """How reports name them."""
        return f"{self.cmake} ({self.generator}), {self.compiler}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedTarget:
    """A target that ``find_package`` made, as CMake knows it after that."""

    name: str  # "Torch::torch"
    kind: str = ""  # "SHARED_LIBRARY", "STATIC_LIBRARY", "INTERFACE_LIBRARY", "EXECUTABLE", ...
    file: str = ""  # what it stands for, relative to the prefix when it lies there; "" for none
    is_absent: bool = False  # the file is not there


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildStep:
    """One command on the way, and how it ended."""

    stage: Stage
    outcome: Ending = Ending.OK
    detail: str = ""  # signal name, seconds of the limit, exit status; one line
    message: str = ""  # the first error that it reported, one line
    printed: str = ""  # by the program that was run: what it wrote to standard output
    undefined: tuple[
        str, ...
    ] = ()  # names that the linker did not find, mangled if it said them so


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramBuild:
    """One way to build a program, up to where it ended."""

    way: str  # "CMake", "the compiler alone", "pkg-config NAME"
    last: BuildStep
    program: ObjectFile | None = None  # read by our reader; None where there is none
    search_path: tuple[str, ...] = ()
    """Of the program: entries below the prefix begin with ``$PREFIX``, those of the build with
    ``$BUILD``."""

    @property
    def links(self) -> bool:
        """Whether there is a program."""
        return self.last.stage is Stage.RUN


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherAbi:
    """The same program compiled for the other ABI of libstdc++: it must not link."""

    flag: str  # "-D_GLIBCXX_USE_CXX11_ABI=0"
    last: BuildStep
    untried: str = ""  # why it was not built


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerUnit:
    """What became of one translation unit."""

    name: str
    package: str  # the argument of find_package
    builds: tuple[ProgramBuild, ...] = ()  # none where CMake does not configure it
    configured: BuildStep | None = None  # None: not tried
    reads: tuple[str, ...] = ()  # files below the prefix that CMake reads to configure it
    targets: tuple[ImportedTarget, ...] = ()
    expected: str | None = None  # what it is to print; None: anything
    refuses: tuple[str, ...] = ()  # globs on mangled names that the other C++ ABI must miss
    other_abi: OtherAbi | None = None  # None: nothing of it was built, or it refuses nothing
    not_run: str = ""  # why no device of the host can be used to run it, so that it is only linked
    untried: str = ""  # why nothing of it was built


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerReport(ProbeReport):
    """Every unit, built against the archive in a folder that it was moved to."""

    tools: BuildTools
    units: tuple[ConsumerUnit, ...] = ()
    elsewhere: tuple[tuple[str, str], ...] = ()  # names of units that are not for it, and why
