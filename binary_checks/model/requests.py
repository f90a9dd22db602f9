"""What a profile asks of probes: each class is one table ``[probes.NAME]``, each field one key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NewType

Code = NewType("Code", str)
"""What runs where the package runs: a program, an expression, a name to import or to install."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The base of all requests; without its table in the profile, one that asks for nothing.

    A check that asks for one is asked for by whoever writes the table.
    """

    table: ClassVar[str] = ""  # the NAME


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaRequest(Request):
    """What a package built for CUDA is asked; all but ``module`` and ``snippet`` are expressions.

    They are evaluated after the import where no driver is to be found; ``version`` and
    ``compiled``, which tell of the build, on a GPU as well.
    """

    table: ClassVar[str] = "cuda"
    module: Code = Code("")  # what is imported; without it nothing is asked
    snippet: Code = Code("")  # a program for the CPU, run after the import with the module's name
    available: Code = Code("")  # whether CUDA can be used
    devices: Code = Code("")  # how many GPUs there are
    use: Code = Code("")  # something that needs a GPU
    version: Code = Code("")  # the CUDA of the build; nothing for a build for no CUDA
    rocm: Code = Code("")  # the ROCm of the build, or its HIP; nothing for a build for none
    architectures: Code = Code("")  # those that the package says it was compiled for
    parts: Mapping[str, Code] = field(default_factory=dict)  # whether each part was built, by name
    compiled: Mapping[str, Code] = field(default_factory=dict)  # versions, by NVIDIA's library
    nvrtc: Code = Code("")  # by which the package loads NVRTC, where its import does not


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCodeRequest(Request):
    """How much of the code for GPUs that a package ships is decompressed."""

    table: ClassVar[str] = "device_code"
    thorough: bool = False  # all of it, not a sample of each object; `--binary-thorough` says so


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxRequest(Request):
    """How much of the PTX that a package ships is compiled for GPUs that come later."""

    table: ClassVar[str] = "ptx"
    bytes: int = 20_000_000  # of PTX, each counted once for every target; a million takes 2 s
    targets: tuple[str, ...] = ()  # "sm_120"; (): the newest of each major from its own on
    requires: tuple[Code, ...] = ()  # what has nvJitLink, where the package requires none


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuRequest(Request):
    """What a package is to do on a GPU, step by step."""

    table: ClassVar[str] = "gpu"
    module: Code = Code("")  # what is imported; without it nothing is done
    steps: Literal["", "torch"] = ""  # the shipped set of steps
    leave_out: tuple[str, ...] = ()  # of that set
    thorough: bool = False  # whether its long steps are done, too; `--binary-thorough` says so
    requires: tuple[Code, ...] = ()  # what a thorough run installs beside: torchvision, torchaudio
    snippets: Mapping[str, Code] = field(default_factory=dict)  # more steps: programs by name
    architectures: Code = Code("")  # an expression: those that the package says it has code for


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetRequest(Request):
    """Programs that are run beside the installed package, each in a process of its own."""

    table: ClassVar[str] = "snippets"
    code: Mapping[str, Code] = field(default_factory=dict)  # by name; "" for one taken away
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # systems, as globs, by name
    requires: tuple[Code, ...] = ()  # requirements that the package has not itself


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationUnit:
    """A C++ program of one purpose that a consumer of a C++ archive compiles, links and runs."""

    source: Code  # its text; "" for one taken away
    package: Code = Code("")  # of CMake; "": the table's
    components: tuple[Code, ...] = ()  # of that package
    libraries: tuple[Code, ...] = ()  # for target_link_libraries; (): the table's
    defines: tuple[str, ...] = ()  # "NAME" or "NAME=value"
    systems: tuple[str, ...] = ("*",)  # globs on "linux-x86_64"
    variants: tuple[str, ...] = ("*",)  # globs on what the archive is built for: "cpu", "cu126"
    prints: str | None = None  # what it is to write to standard output
    refuses: tuple[str, ...] = ()  # mangled names, as globs, that the other C++ ABI does not find
    gpu: bool = False  # whether it is run only where a GPU can be used


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerRequest(Request):
    """What is built against a C++ archive, beside one neutral example for each CMake package."""

    table: ClassVar[str] = "consumer"
    package: Code = Code("")  # of CMake, for every unit; "": the archive's, where it has one alone
    components: tuple[Code, ...] = ()
    libraries: tuple[Code, ...] = ()  # such as "${TORCH_LIBRARIES}"; (): all imported libraries
    standard: int = 0  # of C++: 17; 0: the compiler's own
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By globs on the variant, what must be on PATH beside a compiler: "cu*" needs nvcc."""
    units: Mapping[str, TranslationUnit] = field(default_factory=dict)  # by name


_STATED = (
    r"(?m)^[ \t]*[\"']?(?:\w+[ \t]*=[ \t]*)*(?:__)?(?:git_version|git_revision|git_commit|git_sha"
    r"|git_hash|githash|commit_id|commit|full-revisionid)(?:__)?[\"']?[ \t]*(?::[^=\n\"']*)?[=:]"
    r"[ \t]*[\"']g?([0-9a-f]{7,64})[\"']"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRequest(Request):
    """What is read of every package of a release, to be held against the others."""

    table: ClassVar[str] = "release"
    commits: Mapping[str, str] = field(
        default_factory=lambda: {
            **dict.fromkeys(("*/version.py", "*/_version.py", "*/_version_meson.py"), _STATED),
            **dict.fromkeys(("build-hash", "*/build-hash"), r"\A\s*([0-9a-f]{7,64})\s*\Z"),
        }
    )
    """Files that say the commit, as globs: a regular expression with a group around it."""


_MODULES = ("*/version.py", "*/_version.py")
_TEXT = r"(?:None|False|[\"'][^\"'\n]*[\"'])"


def _assigns(names: str) -> str:
    """An assignment to one of the names at the left margin, and the text or None given to it."""
    return rf"(?m)^(?:{names})[ \t]*(?::[^=\n]*)?=[ \t]*({_TEXT})"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildsRequest(Request):
    """Generated files that state the CUDA or the ROCm of a build; they are read, and never run.

    By globs, in which a ``*`` stands for no slash: a regular expression with one group around the
    version. ``None``, ``False``, ``null``, ``0`` and ``OFF`` state that the build is for none.
    """

    table: ClassVar[str] = "builds"
    cuda: Mapping[str, str] = field(
        default_factory=lambda: {
            **dict.fromkeys(_MODULES, _assigns("cuda|cuda_version")),
            "*/version/__init__.py": _assigns("cuda_version"),
            "*/capi/build_and_package_info.py": _assigns("cuda_version"),
            "*/capi/version_info.py": _assigns("cuda_version"),
            "*/python/platform/build_info.py": r"[\"']cuda_version[\"'][,:]\s*[\"']([\d.]+)",
            "*/cpp_lib.json": r'"cuda":\s*(null|\d+|"[^"]*")',
            "*/.data/_wheel.json": r'"cuda":\s*("[^"]*")',
            "*/share/cmake/Caffe2/Caffe2Config.cmake": r"set\(CAFFE2_USE_CUDA (\w+)\)",
        }
    )
    rocm: Mapping[str, str] = field(
        default_factory=lambda: {
            **dict.fromkeys(_MODULES, _assigns("rocm|hip|rocm_version|hip_version")),
            "*/cpp_lib.json": r'"hip":\s*(null|\d+|"[^"]*")',
        }
    )
    labels: Mapping[str, str] = field(
        default_factory=lambda: {
            **dict.fromkeys(
                _MODULES,
                r"(?m)^__version__[^=\n]*=(?:[ \t]*\w+[ \t]*=)?[ \t]*[\"']([^\"'\n]+)[\"']",
            ),
            "build-version": r"\A\s*(\S+)",
            "*/build-version": r"\A\s*(\S+)",
        }
    )
    """Files that state a version with its label, such as 2.15.0+cu132."""


REQUESTS: tuple[type[Request], ...] = (
    CudaRequest,
    DeviceCodeRequest,
    PtxRequest,
    GpuRequest,
    SnippetRequest,
    ReleaseRequest,
    ConsumerRequest,
    BuildsRequest,
)
"""Those of our own probes."""
