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
    HUNG = "hung"  # killed at the time limit
    STOPPED = "stopped"  # killed at another limit: processes, memory or disk
    EXITED = "exited"  # exited on its own, with a status or too early


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeReport:
    """The base class of all probe answers; a check with such a parameter makes its probe run."""

    python: str  # "CPython 3.11.7"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of a probe, and how it ended."""

    name: str  # the module, or the path of the extension
    outcome: Ending = Ending.OK
    detail: str = ""  # exception text, signal name, seconds of the limit, exit status; one line
    # the step itself was over: the outcome is that of the process afterwards
    finished: bool = False
    stderr: str = ""  # what it wrote to stderr, cut to its last lines
    origin: str = ""  # __file__ of the imported module, relative to site-packages if inside
    origin_sha256: str = ""  # hexadecimal, of that file after the import; "" if it is gone
    version: str = ""  # the module's __version__, if it is a str
    missing_module: str = ""  # the module that a ModuleNotFoundError names
    missing_file: str = ""  # the file below site-packages that a FileNotFoundError names
    broken_file: str = ""  # the file below site-packages that a SyntaxError names
    directory_changed: str = ""  # the working directory afterwards, if it changed
    # whether the GIL was enabled again; None if it is never disabled
    gil_enabled: bool | None = None
    extensions: tuple[str, ...] = ()  # files of the extension modules imported afterwards
    libraries: tuple[str, ...] | None = None  # objects mapped afterwards; None: unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallReport(ProbeReport):
    """The installation of a package into a fresh environment."""

    installer: str = ""  # "uv 0.13.8"
    error: str = ""  # the installer's message if it refused the package; one line
    unrecorded: tuple[str, ...] = ()  # installed files that RECORD does not list
    altered: tuple[str, ...] = ()  # files whose hash differs from that in the wheel's RECORD
    missing: tuple[str, ...] = ()  # files of the wheel that are not installed
    libraries: tuple[tuple[str, str], ...] = ()
    """In a conda prefix, the libraries of all other packages: (path, package)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport(ProbeReport):
    """The import of each top-level name, each in its own process."""

    reservation: str = ""  # what a pass there does not prove, as a sentence
    # whether an installer installed the package's requirements
    requirements_installed: bool = False
    steps: tuple[Step, ...] = ()
    untried: tuple[str, ...] = ()  # names for which no time was left
    limit: str = ""  # the time limit, as the end of a sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtensionReport(ProbeReport):
    """The load of each extension module, all in one process; again alone after a crash."""

    architecture: str = ""  # as in `ObjectFile`, of the machine that the process ran on
    # named after the extension's path, or "" for the end of the process
    steps: tuple[Step, ...] = ()
    untried: tuple[str, ...] = ()  # skipped after too many crashes and hangs
    libraries: tuple[str, ...] | None = None  # objects mapped at the end; None: unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetRun:
    """One snippet, run in its own process."""

    step: Step  # named after the snippet
    printed: str = ""  # its output to sys.stdout, stripped
    unavailable: str = ""  # why it could not inspect, as it reports itself; the step is OK then


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetReport(ProbeReport):
    """The snippets of a profile, run with the package installed."""

    system: str = ""  # "linux-x86_64"
    runs: tuple[SnippetRun, ...] = ()
    elsewhere: tuple[str, ...] = ()  # names of snippets for other systems
    preinstalled: tuple[str, ...] = ()  # requirements that were already installed: "numpy 2.4.6"


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedTestReport(ProbeReport):
    """The tests in a conda package, run where it is installed."""

    runs: tuple[SnippetRun, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # names of the other tests, each with the reason


# Results of a clean system's loader for the objects of a package.


class LoadFaultKind(str, Enum):
    """The kind of a loader's failure."""

    LIBRARY = "library"  # a needed library is missing
    VERSION = "version"  # a library lacks a version of its symbols
    SYMBOL = "symbol"  # no loaded object defines a symbol
    REFUSED = "refused"  # the loader refuses the object, with a message of its own


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadFault:
    """One reason why an object does not load."""

    kind: LoadFaultKind
    path: str  # the object with the fault, relative to the prefix or in the system
    root: str  # the object that was loaded, relative to the prefix
    name: str = ""  # of the library or symbol
    version: str = ""  # "GLIBC_2.36"
    provider: str = ""  # the library that lacks the version: "libc.so.6"
    detail: str = ""  # the loader's message, in one line


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReport(ProbeReport):
    """Each object of a package, loaded with everything it needs by a clean system's own loader."""

    system: str  # its name in messages: "image bullseye (glibc 2.31)"
    libc: str = ""  # "glibc 2.31"
    architecture: str = ""  # as in `ObjectFile`
    reservation: str = ""  # what a pass there does not prove, as a sentence
    loaded: tuple[str, ...] = ()  # objects that were tried, relative to the prefix
    faults: tuple[LoadFault, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # objects without a result, and why


# A package's answers about GPUs, without and with one.


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The value of one Python expression in a process that has imported the package."""

    question: str  # the expression
    # repr() for values of other types
    value: bool | int | float | str | tuple[str, ...] | None = None
    error: str = ""  # "RuntimeError: text" if it raised; one line


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDevice:
    """One GPU as the driver describes it."""

    name: str = ""
    capability: str = ""  # compute capability, "9.0"
    memory: int = 0  # bytes
    problem: str = ""  # why it cannot be used, the end of a sentence; "" if it can

    @property
    def is_slice(self) -> bool:
        """Whether it is a part of a GPU (MIG), according to its name: "NVIDIA H100 MIG 1g.10gb"."""
        return " MIG " in self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuHost:
    """The host according to NVIDIA's driver, without any toolkit."""

    library: str = ""  # file of the driver's library; "" if there is none
    driver: str = ""  # the driver's version, "580.95.05"; "" if unknown
    cuda: str = ""  # the newest CUDA that the driver supports, "13.0"
    devices: tuple[GpuDevice, ...] = ()
    problem: str = ""  # why no device can be used, the end of a sentence; "" if one can
    # A fault that may make some work fail although devices can be used, as a sentence.
    doubt: str = ""
    # errors not corrected by ECC, on all devices since the driver was loaded
    memory_errors: int = 0

    @property
    def usable(self) -> tuple[GpuDevice, ...]:
        """The devices that can be used; each is judged separately."""
        return tuple(each for each in self.devices if not each.problem)


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryVersions:
    """The versions of one of NVIDIA's libraries, "9.10.2"; "" if unknown."""

    name: str  # "cudnn"
    compiled: str = ""  # version of the headers that the package was built with
    loaded: str = ""  # version reported by the library in the process
    installed: str = ""  # version of the distribution that contains it
    # the exact version of that distribution that an installed distribution requires
    pinned: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaReport(ProbeReport):
    """A package imported, tried and asked without any driver or toolkit."""

    step: Step = field(default_factory=lambda: Step(name=""))  # named after the module
    stage: str = ""  # current stage if the process ended early: "import torch", an expression
    answers: tuple[Answer, ...] = ()
    host: GpuHost = field(default_factory=GpuHost)  # what could not be hidden from it
    system: str = ""  # "linux-x86_64"
    versions: tuple[LibraryVersions, ...] = ()  # of NVIDIA's libraries, asked in another process
    versions_step: Step | None = None  # of that process; None: there was nothing to ask


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedAnswers:
    """A package imported and asked with a driver that does not start."""

    state: str  # why it does not start: "no-device", "driver-mismatch", "old-driver"
    step: Step  # named after the module
    stage: str = ""  # current stage if the process ended early: "import torch", an expression
    answers: tuple[Answer, ...] = ()
    lack: str = ""  # why this proves nothing, as a sentence; "" if it does


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusingDriverReport(ProbeReport):
    """How a package behaves with a stub of NVIDIA's driver that fails to start in several ways."""

    refused: tuple[RefusedAnswers, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A figure measured by a step on a GPU."""

    step: str
    name: str  # for relative errors with the dtype, "float32 gradients"; "seconds", "bytes kept"
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReport(ProbeReport):
    """Steps of work on a GPU; after a failure, the remaining steps in another process."""

    host: GpuHost = field(default_factory=GpuHost)
    runtime: str = ""  # the CUDA runtime that the package contains or loads, "13.2"
    steps: tuple[Step, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # steps that were not done here, and why
    # steps, or parts of them, that do not apply to the package
    inapplicable: tuple[tuple[str, str], ...] = ()
    measurements: tuple[Measurement, ...] = ()
    versions: tuple[LibraryVersions, ...] = ()
    architectures: tuple[str, ...] = ()  # for which the package reports to have code, "sm_90"


# Compilers for GPU code, run on the CPU where the package is installed.


@dataclass(frozen=True, kw_only=True, slots=True)
class Compilation:
    """The result of a compiler for one target: a cubin, or an error."""

    target: str  # the requested target, "sm_90"
    made: str = ""  # the target of the resulting cubin, "sm_90"; "" without one
    error: str = ""  # the compiler's message; one line


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilerReport(ProbeReport):
    """The base class of a compiler's results for a small kernel and several targets."""

    step: Step = field(default_factory=lambda: Step(name=""))  # named after the compiler
    stage: str = ""  # current stage if the process ended early: "import torch"
    library: str = ""  # the compiler's file, relative to site-packages if inside
    version: str = ""  # "13.2"
    # architectures for which the package reports to have code, "sm_90"
    reported: tuple[str, ...] = ()
    compilations: tuple[Compilation, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NvrtcReport(CompilerReport):
    """NVIDIA's run-time compiler, as the package loads it."""

    unloaded: tuple[str, ...] = ()  # if it is not loaded, its files in the environment
    refusal: str = ""  # the exception of the package when it was to load it; one line
    supported: tuple[str, ...] = ()  # targets that it reports to support; () if unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class TritonReport(CompilerReport):
    """Triton with its own assembler."""

    unknown: tuple[str, ...] = ()  # requested targets that it does not know


# PTX of a package, and its translation by nvJitLink for later GPUs.


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxText:
    """One PTX text in an object of the package."""

    path: str  # of the object
    offset: int  # bytes from the start of the file to the entry that contains it
    architecture: str  # "sm_90a", from its .target
    version: str  # "8.8", from its .version
    content: bytes
    member: str = ""  # the member of a static archive that contains it


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxTexts:
    """A sample of the package's PTX, of the size that the profile sets."""

    texts: tuple[PtxText, ...] = ()  # without duplicates
    found: int = 0  # number of different texts in the package
    size: int = 0  # bytes of all different texts
    # (path of the object, what could not be read)
    unread: tuple[tuple[str, UnreadDeviceCode], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxLink:
    """The result of translating one text for one target."""

    text: PtxText
    target: str  # "sm_120"
    assembled: bool = False
    refusal: str = ""  # the assembler's error message; one line
    line: int = 0  # the line of the text with the error; 0 if unknown
    kernel: str = ""  # mangled name of the function or kernel with that line
    lack: str = ""  # why it was neither assembled nor refused


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxLinkReport(ProbeReport):
    """The sample, linked on the CPU by the nvJitLink of the package's environment."""

    step: Step = field(default_factory=lambda: Step(name=""))  # of its own start
    library: str = ""  # its file, relative to site-packages if inside
    version: str = ""  # "13.5"
    known: tuple[str, ...] = ()  # targets for which it makes machine code
    links: tuple[PtxLink, ...] = ()
    # texts left out after too many crashes, or without a suitable target
    untried: tuple[PtxText, ...] = ()


# C++ programs built against an unpacked archive, linked and run.


class Stage(str, Enum):
    """How far the build and run of a program got."""

    CONFIGURE = "configure"  # find_package, and CMake's generation of the build
    COMPILE = "compile"
    LINK = "link"
    RUN = "run"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildTools:
    """The tools with which everything was built."""

    cmake: str  # "CMake 4.4.4"
    generator: str  # "Ninja", "Unix Makefiles"
    compiler: str  # the first line of its --version
    # the search path that the compiler itself adds to every program
    search_path: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the name in reports."""
        return f"{self.cmake} ({self.generator}), {self.compiler}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedTarget:
    """An imported target that ``find_package`` defined, as CMake describes it afterwards."""

    name: str  # "Torch::torch"
    kind: str = ""  # "SHARED_LIBRARY", "STATIC_LIBRARY", "INTERFACE_LIBRARY", "EXECUTABLE", ...
    file: str = ""  # its file, relative to the prefix if inside; "" for none
    is_absent: bool = False  # the file is missing


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildStep:
    """One command, and how it ended."""

    stage: Stage
    outcome: Ending = Ending.OK
    detail: str = ""  # signal name, seconds of the limit, exit status; one line
    message: str = ""  # the first error that it printed, one line
    printed: str = ""  # standard output of the program that was run
    # symbols that the linker did not find, mangled if its message has them so
    undefined: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramBuild:
    """One way to build a program, up to the step where it ended."""

    way: str  # "CMake", "the compiler alone", "pkg-config NAME"
    last: BuildStep
    program: ObjectFile | None = None  # the program as read by our reader; None if there is none
    search_path: tuple[str, ...] = ()
    """Search path of the program: entries below the prefix begin with ``$PREFIX``, entries of the
    build folder with ``$BUILD``."""

    @property
    def links(self) -> bool:
        """Whether the program was linked."""
        return self.last.stage is Stage.RUN


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherAbi:
    """The same program compiled for the other ABI of libstdc++; it must not link."""

    flag: str  # "-D_GLIBCXX_USE_CXX11_ABI=0"
    last: BuildStep
    untried: str = ""  # why it was not built


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerUnit:
    """The results for one translation unit."""

    name: str
    package: str  # the argument of find_package
    builds: tuple[ProgramBuild, ...] = ()  # empty if CMake does not configure it
    configured: BuildStep | None = None  # None: not tried
    reads: tuple[str, ...] = ()  # files below the prefix that CMake reads to configure it
    targets: tuple[ImportedTarget, ...] = ()
    expected: str | None = None  # the expected output; None: any
    # globs on mangled names that must be undefined with the other C++ ABI
    refuses: tuple[str, ...] = ()
    other_abi: OtherAbi | None = None  # None: nothing was built, or no such names are given
    not_run: str = ""  # why the program was only linked: no device of the host can run it
    untried: str = ""  # why nothing of it was built


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerReport(ProbeReport):
    """Every unit, built against the archive after moving it to another folder."""

    tools: BuildTools
    units: tuple[ConsumerUnit, ...] = ()
    # names of units for other systems or variants, and why
    elsewhere: tuple[tuple[str, str], ...] = ()
