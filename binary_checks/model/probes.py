"""What happened when a package was installed and run: the typed answers of probes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from binary_checks.model.device import UnreadDeviceCode
from binary_checks.model.objects import ObjectFile


class Ending(str, Enum):
    """How one probed step ended."""

    OK = "ok"
    RAISED = "raised"  # a Python exception
    LOADER_ERROR = "loader error"  # the dynamic loader refused
    CRASHED = "crashed"  # killed by a signal
    HUNG = "hung"  # killed at its time limit
    STOPPED = "stopped"  # killed at another limit: of processes, memory or disk
    EXITED = "exited"  # left by itself, with a status or too early


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeReport:
    """The base of all probe answers; a check that asks for one makes its probe run."""

    python: str  # "CPython 3.11.7"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One thing a probe did, and how it ended."""

    name: str  # the module, or the path of the extension
    outcome: Ending = Ending.OK
    detail: str = ""  # exception text, signal name, seconds of the limit, exit status; one line
    finished: bool = False  # the step itself was over: the outcome is how the process then ended
    stderr: str = ""  # what it wrote to stderr, cut to its last lines
    origin: str = ""  # __file__ of what was imported, relative to site-packages when below it
    origin_sha256: str = ""  # hexadecimal, of that file after the import; "" when it is gone
    version: str = ""  # the module's __version__, when it is a str
    missing_module: str = ""  # the module that a ModuleNotFoundError names
    missing_file: str = ""  # the file below site-packages that a FileNotFoundError names
    broken_file: str = ""  # the file below site-packages that a SyntaxError names
    directory_changed: str = ""  # the working directory after it, when it is another
    gil_enabled: bool | None = None  # whether the GIL is back; None where it is never away
    extensions: tuple[str, ...] = ()  # files of the extension modules imported afterwards
    libraries: tuple[str, ...] | None = None  # objects mapped afterwards; None: nobody can say


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallReport(ProbeReport):
    """The installation of a package into a fresh environment."""

    installer: str = ""  # "uv 0.13.8"
    error: str = ""  # the installer's own words, when it refused the package; one line
    unrecorded: tuple[str, ...] = ()  # files that installation left and RECORD does not name
    altered: tuple[str, ...] = ()  # files whose hash is not the one that the wheel's RECORD gives
    missing: tuple[str, ...] = ()  # files of the wheel that are not there
    libraries: tuple[tuple[str, str], ...] = ()
    """Of a conda prefix the libraries of all other packages: path -> package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport(ProbeReport):
    """The import of each top-level name, each in a process of its own."""

    reservation: str = ""  # what a pass there does not prove, as a sentence
    requirements_installed: bool = False  # an installer put there what the package requires
    steps: tuple[Step, ...] = ()
    untried: tuple[str, ...] = ()  # names for which there was no time left
    limit: str = ""  # which limit that was, the end of a sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtensionReport(ProbeReport):
    """The load of each extension module, all in one process, alone again after a crash."""

    architecture: str = ""  # the model's spelling, of the machine that the process ran on
    steps: tuple[Step, ...] = ()  # name is the path of the extension, "" for the process's own end
    untried: tuple[str, ...] = ()  # left out after too many crashes and hangs
    libraries: tuple[str, ...] | None = None  # objects mapped at the end; None: nobody can say


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetRun:
    """One snippet, run in a process of its own."""

    step: Step  # name is the snippet's
    printed: str = ""  # what it wrote to sys.stdout, without white space at both ends
    unavailable: str = ""  # why it could not look, by its own word; then the step is OK


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetReport(ProbeReport):
    """The snippets of a profile, run beside the package."""

    system: str = ""  # "linux-x86_64"
    runs: tuple[SnippetRun, ...] = ()
    elsewhere: tuple[str, ...] = ()  # names of those that are for other systems
    beside: tuple[str, ...] = ()  # what they require and was there already: "numpy 2.4.6"


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedTestReport(ProbeReport):
    """The tests that a conda package carries, run where it is installed."""

    runs: tuple[SnippetRun, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # names of the others, each with the reason


# What the loader of a clean system says of the objects of a package.


class LoadFaultKind(str, Enum):
    """What a loader misses, or does."""

    LIBRARY = "library"  # a needed library is not there
    VERSION = "version"  # a library is there, and lacks a version of its symbols
    SYMBOL = "symbol"  # nothing that is loaded defines a symbol
    REFUSED = "refused"  # it does not take the object, in its own words


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadFault:
    """One thing for which an object does not load."""

    kind: LoadFaultKind
    path: str  # the object that lacks it, in the prefix; of the system, where it is one of its own
    root: str  # the object that was loaded, in the prefix
    name: str = ""  # of the library or symbol
    version: str = ""  # "GLIBC_2.36"
    provider: str = ""  # the library that lacks the version: "libc.so.6"
    detail: str = ""  # the loader's words, in one line


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReport(ProbeReport):
    """Each object of a package, loaded by a clean system's own loader with all that it needs."""

    system: str  # how sentences call it: "image bullseye (glibc 2.31)"
    libc: str = ""  # "glibc 2.31"
    architecture: str = ""  # the model's spelling
    reservation: str = ""  # what a pass there does not prove, as a sentence
    loaded: tuple[str, ...] = ()  # objects that were tried, in the prefix
    faults: tuple[LoadFault, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # objects without an answer, and why


# What a package answers about GPUs, where there is none and where there is one.


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What one Python expression gave in a process that had imported the package."""

    question: str  # the expression
    value: bool | int | float | str | tuple[str, ...] | None = None  # the repr of anything else
    error: str = ""  # "RuntimeError: text", when it raised; one line


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDevice:
    """One GPU as the driver describes it."""

    name: str = ""
    capability: str = ""  # compute capability, "9.0"
    memory: int = 0  # bytes
    problem: str = ""  # why it cannot be used, the end of a sentence; "" when it can

    @property
    def is_slice(self) -> bool:
        """Whether it is a part of a GPU (MIG), as its name says: "NVIDIA H100 MIG 1g.10gb"."""
        return " MIG " in self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuHost:
    """What NVIDIA's driver says of the host, asked without any toolkit."""

    library: str = ""  # file of the driver's library; "" when there is none
    driver: str = ""  # the driver's version, "580.95.05"; "" when it does not say
    cuda: str = ""  # the newest CUDA that the driver serves, "13.0"
    devices: tuple[GpuDevice, ...] = ()
    problem: str = ""  # why no device can be used, the end of a sentence; "" when one can
    # What is wrong although devices can be used, a sentence: some work may fail for it.
    doubt: str = ""
    memory_errors: int = 0  # that no ECC corrected, in all devices since the driver was loaded

    @property
    def usable(self) -> tuple[GpuDevice, ...]:
        """The devices that can be used: each is judged by itself."""
        return tuple(each for each in self.devices if not each.problem)


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryVersions:
    """The versions of one of NVIDIA's libraries, "9.10.2"; "" where it cannot be asked."""

    name: str  # "cudnn"
    compiled: str = ""  # of the headers that the package was built with
    loaded: str = ""  # as the library in the process says
    installed: str = ""  # of the distribution that brings it
    pinned: str = ""  # the one version of that distribution that an installed one requires


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaReport(ProbeReport):
    """A package imported, tried and asked where no driver and no toolkit is to be found."""

    step: Step = field(default_factory=lambda: Step(name=""))  # name is the module
    stage: str = ""  # what the process was at when it ended early: "import torch", an expression
    answers: tuple[Answer, ...] = ()
    host: GpuHost = field(default_factory=GpuHost)  # what could not be hidden
    system: str = ""  # "linux-x86_64"
    versions: tuple[LibraryVersions, ...] = ()  # of NVIDIA's libraries, asked in another process
    versions_step: Step | None = None  # of that process; None: there was nothing to ask about


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedAnswers:
    """A package imported and asked where a driver is there and does not start."""

    state: str  # why it does not: "no-device", "driver-mismatch", "old-driver"
    step: Step  # name is the module
    stage: str = ""  # what the process was at when it ended early: "import torch", an expression
    answers: tuple[Answer, ...] = ()
    lack: str = ""  # why this proves nothing, a sentence; "" where it does


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusingDriverReport(ProbeReport):
    """What a package does where a stub of NVIDIA's driver refuses to start, in several ways."""

    refused: tuple[RefusedAnswers, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A figure that a step on a GPU came to."""

    step: str
    name: str  # of a relative error the dtype first, "float32 gradients"; "seconds", "bytes kept"
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReport(ProbeReport):
    """Steps of work on a GPU; after one that failed, the others in another process."""

    host: GpuHost = field(default_factory=GpuHost)
    runtime: str = ""  # the CUDA runtime that the package brings or loads, "13.2"
    steps: tuple[Step, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # steps that were not done here, and why
    inapplicable: tuple[tuple[str, str], ...] = ()  # steps, or parts of them, that are not for it
    measurements: tuple[Measurement, ...] = ()
    versions: tuple[LibraryVersions, ...] = ()
    architectures: tuple[str, ...] = ()  # that the package says it has code for, "sm_90"


# What compilers of code for GPUs make of it on the CPU, where the package is installed.


@dataclass(frozen=True, kw_only=True, slots=True)
class Compilation:
    """What a compiler made for one target: a cubin, or an error."""

    target: str  # "sm_90", as it was asked for
    made: str = ""  # for what the cubin is that came of it, "sm_90"; "" without one
    error: str = ""  # the compiler's own words; one line


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilerReport(ProbeReport):
    """The base: one compiler, asked for a small kernel for each of some targets."""

    step: Step = field(default_factory=lambda: Step(name=""))  # name is the compiler's
    stage: str = ""  # what the process was at when it ended early: "import torch"
    library: str = ""  # the compiler's file, relative to site-packages when below it
    version: str = ""  # "13.2"
    reported: tuple[str, ...] = ()  # architectures that the package says it has code for, "sm_90"
    compilations: tuple[Compilation, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NvrtcReport(CompilerReport):
    """NVIDIA's run-time compiler, as the package loads it."""

    lying: tuple[str, ...] = ()  # where it is not loaded, the files of it in the environment
    refusal: str = ""  # what the package raised when it was to load it; one line
    supported: tuple[str, ...] = ()  # targets that it says it compiles for; () where it cannot say


@dataclass(frozen=True, kw_only=True, slots=True)
class TritonReport(CompilerReport):
    """Triton, with the assembler in it."""

    unknown: tuple[str, ...] = ()  # targets that it was asked for and does not know


# PTX that a package ships, and what nvJitLink makes of it for GPUs that come later.


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxText:
    """One text of PTX, as it lies in an object of the package."""

    path: str  # of the object
    offset: int  # bytes from the start of the file: the entry that holds it
    architecture: str  # "sm_90a", of its .target
    version: str  # "8.8", of its .version
    content: bytes
    member: str = ""  # of a static archive, which has it


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxTexts:
    """A sample of the package's PTX, as large as the profile has it."""

    texts: tuple[PtxText, ...] = ()  # each content once
    found: int = 0  # texts that differ, of which these are the sample
    size: int = 0  # bytes of all of them
    unread: tuple[tuple[str, UnreadDeviceCode], ...] = ()  # by the object's path


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxLink:
    """What became of one text for one target."""

    text: PtxText
    target: str  # "sm_120"
    assembled: bool = False
    refusal: str = ""  # the assembler's error; one line
    line: int = 0  # of the text, at which it found that; 0 where it does not say
    kernel: str = ""  # mangled, the function or kernel that has the line
    lack: str = ""  # why it is neither assembled nor refused


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxLinkReport(ProbeReport):
    """The sample, linked on the CPU by the nvJitLink of the package's environment."""

    step: Step = field(default_factory=lambda: Step(name=""))  # of its own start
    library: str = ""  # its file, relative to site-packages when below it
    version: str = ""  # "13.5"
    known: tuple[str, ...] = ()  # targets that it makes machine code for
    links: tuple[PtxLink, ...] = ()
    untried: tuple[PtxText, ...] = ()  # those after too many crashes, or that no target takes


# What became of C++ programs that were built against an unpacked archive, linked and run.


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
