"""Results of installing and running a package: the typed answers of probes."""

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
    EXITED = "exited"  # exited by itself, with a status or too early


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeReport:
    """The base class of probe answers; a check with such a parameter makes its probe run."""

    python: str  # "CPython 3.11.7"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of a probe, and how it ended."""

    name: str  # the module, or the path of the extension
    outcome: Ending = Ending.OK
    detail: str = ""  # one line: exception text, signal name, seconds of the limit, exit status
    # the step had ended before: the outcome describes the process after the step
    finished: bool = False
    stderr: str = ""  # the last lines that the step wrote to stderr
    origin: str = ""  # __file__ of the imported module, relative to site-packages if inside
    origin_sha256: str = ""  # hexadecimal, of that file after the import; "" if it is gone
    version: str = ""  # the module's __version__, if it is a str
    missing_module: str = ""  # the module that a ModuleNotFoundError names
    missing_file: str = ""  # the file below site-packages that a FileNotFoundError names
    broken_file: str = ""  # the file below site-packages that a SyntaxError names
    directory_changed: str = ""  # the working directory after the step, if the step changed it
    # whether the step enabled the GIL again; None if this Python never disables the GIL
    gil_enabled: bool | None = None
    extensions: tuple[str, ...] = ()  # files of the extension modules imported after the step
    libraries: tuple[str, ...] | None = None  # objects mapped after the step; None: unknown
    # the module without whose earlier import the step fails: "torch"
    after: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallReport(ProbeReport):
    """The installation of a package into a fresh environment."""

    installer: str = ""  # "uv 0.13.8"
    error: str = ""  # the message with which the installer refused the package; one line
    unrecorded: tuple[str, ...] = ()  # installed files that RECORD does not list
    altered: tuple[str, ...] = ()  # files whose hash differs from the hash in the wheel's RECORD
    missing: tuple[str, ...] = ()  # files of the wheel that are not installed
    libraries: tuple[tuple[str, str], ...] = ()
    """In a conda prefix, the libraries of all other packages: (path, package)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport(ProbeReport):
    """The import of each top-level name, each in its own process."""

    reservation: str = ""  # a sentence on the limits of a passed import; "" if there are none
    # whether an installer installed the package's requirements
    requirements_installed: bool = False
    steps: tuple[Step, ...] = ()
    untried: tuple[str, ...] = ()  # names that were not imported because the time was used up
    limit: str = ""  # the time limit, as the end of a sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtensionReport(ProbeReport):
    """Loading each extension module: all in one process, and each separately after a crash."""

    architecture: str = ""  # as in `ObjectFile`, of the machine that the process ran on
    # named after the extension's path, or "" for the end of the process
    steps: tuple[Step, ...] = ()
    untried: tuple[str, ...] = ()  # not loaded because of too many crashes and hangs
    libraries: tuple[str, ...] | None = None  # objects mapped at the end; None: unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedTogether(ProbeReport):
    """The objects that fresh processes had loaded after one import, where a simulation has doubts.

    Each process imported a top-level name, or an extension module after its parent package.
    """

    architecture: str = ""  # as in `ObjectFile`, of the machine that the processes ran on
    processes: tuple[tuple[str, ...], ...] = ()  # relative to site-packages if below it


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetRun:
    """One snippet, run in its own process."""

    step: Step  # named after the snippet
    printed: str = ""  # its output to sys.stdout, stripped
    # why the snippet could not inspect anything, in its own words; its step is OK then
    unavailable: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetReport(ProbeReport):
    """The snippets of a profile, run with the package installed."""

    system: str = ""  # "linux-x86_64"
    runs: tuple[SnippetRun, ...] = ()
    elsewhere: tuple[str, ...] = ()  # names of snippets for other systems
    long: tuple[str, ...] = ()  # names of snippets that only a thorough run runs
    untried: tuple[tuple[str, str], ...] = ()  # (name of a long snippet that did not run, reason)
    preinstalled: tuple[str, ...] = ()  # requirements that were already installed: "numpy 2.4.6"


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedTestReport(ProbeReport):
    """The tests in a conda package, run where it is installed."""

    runs: tuple[SnippetRun, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # (name of a test that did not run, reason)


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
    reservation: str = ""  # a sentence on the limits of a successful load; "" if there are none
    loaded: tuple[str, ...] = ()  # objects that were tried, relative to the prefix
    faults: tuple[LoadFault, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # (object without a result, reason)


# A package's answers about GPUs, without and with one.


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The value of one Python expression in a process that has imported the package."""

    question: str  # the expression
    # repr() of values of other types
    value: bool | int | float | str | tuple[str, ...] | None = None
    error: str = ""  # "RuntimeError: text" if the expression raised; one line


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDevice:
    """One GPU as the driver describes it."""

    name: str = ""  # "NVIDIA H200"; of a part of a GPU "NVIDIA H100 MIG 1g.10gb"
    capability: str = ""  # compute capability, "9.0"
    memory: int = 0  # bytes
    # why the device cannot be used, as the end of a sentence; "" if it can be used
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuHost:
    """The host according to the driver of its GPUs, without any toolkit."""

    platform: str = "cuda"  # "cuda" for NVIDIA's driver, "rocm" for AMD's, "xpu" for Intel's
    library: str = ""  # file of the driver's library, or its device file; "" if there is none
    driver: str = ""  # the driver's version, "580.95.05"; "" if unknown
    cuda: str = ""  # the newest CUDA that the driver supports, "13.0"
    devices: tuple[GpuDevice, ...] = ()
    problem: str = ""  # why no device can be used, as the end of a sentence; "" if one can be used
    # a fault that may break some work although devices can be used, as a sentence
    doubt: str = ""
    # errors not corrected by ECC, on all devices since the driver was loaded
    memory_errors: int = 0

    @property
    def usable(self) -> tuple[GpuDevice, ...]:
        """The devices that can be used."""
        return tuple(each for each in self.devices if not each.problem)


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryVersions:
    """The versions of one of NVIDIA's libraries, "9.10.2"; "" if unknown."""

    name: str  # "cudnn"
    compiled: str = ""  # version of the headers that the package was built with
    loaded: str = ""  # version reported by the library in the process
    installed: str = ""  # version of the distribution that contains the library
    # the exact version of that distribution that an installed distribution requires
    pinned: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaReport(ProbeReport):
    """Results of importing a package and asking it questions, without any driver or toolkit."""

    step: Step = field(default_factory=lambda: Step(name=""))  # named after the module
    stage: str = ""  # current stage if the process ended early: "import torch", an expression
    answers: tuple[Answer, ...] = ()
    # parts of the driver that could not be hidden from the package
    host: GpuHost = field(default_factory=GpuHost)
    system: str = ""  # "linux-x86_64"
    versions: tuple[LibraryVersions, ...] = ()  # of NVIDIA's libraries, asked in another process
    versions_step: Step | None = None  # the step in that process; None: no versions were asked


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedAnswers:
    """Results of importing a package and asking it questions, with a driver that fails to start."""

    state: str  # why the driver fails to start: "no-device", "driver-mismatch", "old-driver"
    step: Step  # named after the module
    stage: str = ""  # current stage if the process ended early: "import torch", an expression
    answers: tuple[Answer, ...] = ()
    lack: str = ""  # why the answers prove nothing, as a sentence; "" if they do


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusingDriverReport(ProbeReport):
    """How a package behaves with a stub of NVIDIA's driver that fails to start in several ways."""

    refused: tuple[RefusedAnswers, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A figure measured by a step on a GPU."""

    step: str
    # "float32 gradients" for relative errors, which depend on the dtype; "seconds", "bytes kept"
    name: str
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReport(ProbeReport):
    """Steps of work on a GPU; after a failure, the remaining steps run in another process."""

    host: GpuHost = field(default_factory=GpuHost)
    runtime: str = ""  # the CUDA runtime that the package contains or loads, "13.2"
    steps: tuple[Step, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # (step that was not run, reason)
    # (step or part of a step that does not apply to the package, reason)
    inapplicable: tuple[tuple[str, str], ...] = ()
    measurements: tuple[Measurement, ...] = ()
    versions: tuple[LibraryVersions, ...] = ()
    # architectures for which the package reports to have code, "sm_90"
    architectures: tuple[str, ...] = ()


# Compilers for GPU code, run on the CPU after the package is installed.


@dataclass(frozen=True, kw_only=True, slots=True)
class Compilation:
    """The result of a compiler for one target: a cubin, or an error."""

    target: str  # the requested target, "sm_90"
    made: str = ""  # the target stated in the resulting cubin, "sm_90"; "" without a cubin
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
    """NVIDIA's run-time compiler NVRTC, loaded by the package."""

    # files of NVRTC in the environment, if the package did not load it
    unloaded: tuple[str, ...] = ()
    refusal: str = ""  # the exception raised by the package when asked to load NVRTC; one line
    supported: tuple[str, ...] = ()  # targets that the compiler reports to support; () if unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class TritonReport(CompilerReport):
    """Triton with its own assembler."""

    unknown: tuple[str, ...] = ()  # requested targets that Triton does not know


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
    """A sample of the package's PTX, as large as the profile allows."""

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
    lack: str = ""  # why the text was neither translated nor refused


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxLinkReport(ProbeReport):
    """The sample, translated on the CPU by the nvJitLink of the package's environment."""

    step: Step = field(default_factory=lambda: Step(name=""))  # the start of nvJitLink
    library: str = ""  # the library's file, relative to site-packages if inside
    version: str = ""  # "13.5"
    known: tuple[str, ...] = ()  # targets for which nvJitLink makes machine code
    links: tuple[PtxLink, ...] = ()
    # texts without a result, after too many crashes or for lack of a suitable target
    untried: tuple[PtxText, ...] = ()


# C++ programs built against an unpacked archive, linked and run.


class Stage(str, Enum):
    """The stages of building and running a program."""

    CONFIGURE = "configure"  # find_package, and CMake's generation of the build
    COMPILE = "compile"
    LINK = "link"
    RUN = "run"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildTools:
    """The tools with which all programs were built."""

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
    """An imported target, as CMake describes it after ``find_package`` defined it."""

    name: str  # "Torch::torch"
    kind: str = ""  # "SHARED_LIBRARY", "STATIC_LIBRARY", "INTERFACE_LIBRARY", "EXECUTABLE", ...
    file: str = ""  # the target's file, relative to the prefix if inside; "" if it has none
    is_absent: bool = False  # whether the file is missing


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildStep:
    """One command, and how it ended."""

    stage: Stage
    outcome: Ending = Ending.OK
    detail: str = ""  # one line: signal name, seconds of the limit, exit status
    message: str = ""  # the first error message of the command, one line
    printed: str = ""  # standard output of the program that was run
    # symbols that the linker did not find, mangled if the linker's message has mangled names
    undefined: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramBuild:
    """One way to build a program, up to the last stage reached."""

    way: str  # "CMake", "the compiler alone", "pkg-config NAME"
    last: BuildStep
    program: ObjectFile | None = None  # the program as read by our reader; None if it was not built
    search_path: tuple[str, ...] = ()
    """Search path of the program: entries below the prefix begin with ``$PREFIX``, entries of the
    build folder with ``$BUILD``."""

    @property
    def links(self) -> bool:
        """Whether the program was linked."""
        return self.last.stage is Stage.RUN


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherAbi:
    """The same program compiled for libstdc++'s other ABI; this program must not link."""

    flag: str  # "-D_GLIBCXX_USE_CXX11_ABI=0"
    last: BuildStep
    untried: str = ""  # why this program was not built


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerUnit:
    """The results for one translation unit."""

    name: str
    package: str  # the argument of find_package
    builds: tuple[ProgramBuild, ...] = ()  # empty if CMake cannot configure the unit
    configured: BuildStep | None = None  # None: CMake was not run
    # files below the prefix that CMake reads while configuring the unit
    reads: tuple[str, ...] = ()
    targets: tuple[ImportedTarget, ...] = ()
    expected: str | None = None  # the expected output; None: any
    # globs on mangled names that must stay undefined with the other C++ ABI
    refuses: tuple[str, ...] = ()
    # None: no program was built, or the unit names no such symbols
    other_abi: OtherAbi | None = None
    not_run: str = ""  # why the program was linked but not run: no device of the host can run it
    untried: str = ""  # why the unit was not built


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerReport(ProbeReport):
    """The results for all units, built against the archive after moving it to another folder."""

    tools: BuildTools
    units: tuple[ConsumerUnit, ...] = ()
    # (name of a unit for other systems or variants, reason)
    elsewhere: tuple[tuple[str, str], ...] = ()
