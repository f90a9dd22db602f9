"""Settings of probes in a profile: each class is a table ``[probes.NAME]``, each field a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NewType

Code = NewType("Code", str)
"""Text that is executed, imported or installed where the package runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The base class of requests; without its table in the profile, a request asks for nothing.

    Writing the table also enables the checks that depend on the request.
    """

    table: ClassVar[str] = ""  # NAME in ``[probes.NAME]``


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaRequest(Request):
    """Questions to a package built for CUDA: expressions, except ``module`` and ``snippet``.

    They are evaluated after the import, without a driver. ``version`` and ``compiled``, which
    describe the build, are also evaluated on a GPU.
    """

    table: ClassVar[str] = "cuda"
    module: Code = Code("")  # imported first; "": nothing is asked
    snippet: Code = Code("")  # a program for the CPU, run after the import with the module's name
    available: Code = Code("")  # whether CUDA can be used
    devices: Code = Code("")  # how many GPUs there are
    use: Code = Code("")  # an operation that needs a GPU
    version: Code = Code("")  # the build's CUDA version; None or "" for a build without CUDA
    rocm: Code = Code("")  # the build's ROCm or HIP version; None or "" for a build without ROCm
    xpu: Code = Code("")  # the build's SYCL version; None or "" for a build without SYCL
    architectures: Code = Code("")  # architectures that the package reports to be compiled for
    # name of a part -> whether it was built
    parts: Mapping[str, Code] = field(default_factory=dict)
    compiled: Mapping[str, Code] = field(default_factory=dict)  # NVIDIA's library -> version
    nvrtc: Code = Code("")  # makes the package load NVRTC, if importing the package does not


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCodeRequest(Request):
    """How much of a package's GPU code is decompressed."""

    table: ClassVar[str] = "device_code"
    # all of it instead of a sample of each object; also set by `--binary-thorough`
    thorough: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxRequest(Request):
    """How much of a package's PTX is compiled for later GPUs."""

    table: ClassVar[str] = "ptx"
    bytes: int = 20_000_000  # of PTX, counted once for every target; a million takes 2 s
    # "sm_120"; (): the newest of each major version, beginning with the PTX's own
    targets: tuple[str, ...] = ()
    # requirements that provide nvJitLink, if the package does not require it
    requires: tuple[Code, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuRequest(Request):
    """The work of a package on a GPU, step by step."""

    table: ClassVar[str] = "gpu"
    module: Code = Code("")  # imported first; "": nothing is run
    steps: Literal["", "torch"] = ""  # a shipped set of steps
    leave_out: tuple[str, ...] = ()  # steps of that set to leave out
    thorough: bool = False  # whether long steps are run, too; also set by `--binary-thorough`
    # further requirements of a thorough run: torchvision, torchaudio
    requires: tuple[Code, ...] = ()
    snippets: Mapping[str, Code] = field(default_factory=dict)  # further steps: programs by name
    # an expression: architectures for which the package reports to have code
    architectures: Code = Code("")


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetRequest(Request):
    """Programs that run with the package installed, each in its own process."""

    table: ClassVar[str] = "snippets"
    code: Mapping[str, Code] = field(default_factory=dict)  # by name; "" removes a snippet
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> globs on systems
    requires: tuple[Code, ...] = ()  # additional requirements, not required by the package
    # snippets of a thorough run -> further requirements that only they need
    long: Mapping[str, tuple[Code, ...]] = field(default_factory=dict)
    thorough: bool = False  # whether long snippets are run, too; also set by `--binary-thorough`


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportRequest(Request):
    """Imports of other modules that a package relies on, as a plugin of torch relies on torch."""

    table: ClassVar[str] = "imports"
    # modules that each process imports before the package's own
    first: tuple[Code, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationUnit:
    """A small C++ program that a consumer of a C++ archive compiles, links and runs."""

    source: Code  # source text; "" removes the unit
    package: Code = Code("")  # CMake package; "": the table's package
    components: tuple[Code, ...] = ()  # of that CMake package
    libraries: tuple[Code, ...] = ()  # for target_link_libraries; (): the table's libraries
    defines: tuple[str, ...] = ()  # "NAME" or "NAME=value"
    systems: tuple[str, ...] = ("*",)  # globs on "linux-x86_64"
    variants: tuple[str, ...] = ("*",)  # globs on the build variant of the archive: "cpu", "cu126"
    prints: str | None = None  # expected standard output
    # globs on mangled names that stay undefined with the other C++ ABI
    refuses: tuple[str, ...] = ()
    gpu: bool = False  # whether the program runs only if a GPU can be used


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerRequest(Request):
    """Programs built against a C++ archive, in addition to an example for each CMake package."""

    table: ClassVar[str] = "consumer"
    package: Code = Code("")  # CMake package of every unit; "": the archive's only CMake package
    components: tuple[Code, ...] = ()
    libraries: tuple[Code, ...] = ()  # such as "${TORCH_LIBRARIES}"; (): all imported libraries
    standard: int = 0  # C++ standard: 17; 0: the compiler's default
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Glob on the variant -> programs that must be on PATH in addition to a compiler: "cu*" needs
    nvcc.
    """
    toolkits: Mapping[str, tuple[Code, ...]] = field(default_factory=dict)
    """Glob on the variant -> requirements whose wheels contain these programs, if they are not on
    PATH; ``{cuda}`` stands for the variant's version: 13.2 for "cu132".
    """
    units: Mapping[str, TranslationUnit] = field(default_factory=dict)  # by name


_STATED = (
    r"(?m)^[ \t]*[\"']?(?:\w+[ \t]*=[ \t]*)*(?:__)?(?:git_version|git_revision|git_commit|git_sha"
    r"|git_hash|githash|commit_id|commit|full-revisionid)(?:__)?[\"']?[ \t]*(?::[^=\n\"']*)?[=:]"
    r"[ \t]*[\"']g?([0-9a-f]{7,64})[\"']"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRequest(Request):
    """Facts that are read from every package of a release, and compared between the packages."""

    table: ClassVar[str] = "release"
    commits: Mapping[str, str] = field(
        default_factory=lambda: {
            **dict.fromkeys(("*/version.py", "*/_version.py", "*/_version_meson.py"), _STATED),
            **dict.fromkeys(("build-hash", "*/build-hash"), r"\A\s*([0-9a-f]{7,64})\s*\Z"),
        }
    )
    """Glob on files that state the commit -> regular expression whose group is the commit."""


_MODULES = ("*/version.py", "*/_version.py")
_TEXT = r"(?:None|False|[\"'][^\"'\n]*[\"'])"


def _assigns(names: str) -> str:
    """Return a pattern for an unindented assignment of a string or None to one of the names."""
    return rf"(?m)^(?:{names})[ \t]*(?::[^=\n]*)?=[ \t]*({_TEXT})"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildsRequest(Request):
    """Generated files that state the CUDA or ROCm of a build; the files are read, never run.

    Keys are globs in which ``*`` matches no slash, values regular expressions whose group is the
    version. ``None``, ``False``, ``null``, ``0`` and ``OFF`` state a build without that toolkit.
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
    ImportRequest,
    ReleaseRequest,
    ConsumerRequest,
    BuildsRequest,
)
"""The requests of our own probes."""
