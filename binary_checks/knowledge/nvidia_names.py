"""Knows NVIDIA's libraries by name: which come with the driver, and of which CUDA they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binary_checks.knowledge.grafted_names import strip_graft
from binary_checks.model import Package

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DRIVER_LIBRARIES = (
    "libcuda.so.1",
    "libcuda.so",
    "libnvidia-ml.so.1",
    "libnvidia-ml.so",
    "libnvcuvid.so.1",
    "libnvidia-encode.so.1",
    "nvcuda.dll",
    "nvml.dll",
    "nvcuvid.dll",
    "nvencodeapi64.dll",
)
"""What no package brings: each fits the one kernel module that it was installed with."""

# The prefixes of the APIs that each library has, as their headers declare them (cuda.h, nvml.h,
# cuviddec.h, nvEncodeAPI.h). libcufile's cuFile functions are not the driver's.
_APIS = {
    "libcuda.so": re.compile(r"cu(?:dbg|(?!File)[A-Z])\w*"),
    "libnvidia-ml.so": re.compile(r"nvml[A-Z]\w*"),
    "libnvcuvid.so": re.compile(r"cuvid[A-Z]\w*"),
    "libnvidia-encode.so": re.compile(r"NvEnc\w*"),
}

# The toolkit's libraries and those above it, without what carries the name by chance (libcurl).
_CUDA = (
    r"(?i)lib(?:cuda\w*|cublas\w*|cufft\w*|cufile\w*|curand|cusolver\w*|cusparse\w*|cudnn\w*|"
    r"cupti|cutensor\w*|nccl|nvrtc[\w-]*|nvJitLink|nvjpeg\w*|nvToolsExt|nvtx3\w*|nvblas|nvfatbin|"
    r"nvshmem\w*|nvinfer\w*|nvonnxparser|npp\w+|cusparseLt|nvcomp\w*|torch_cuda\w*|c10_cuda)"
    r"[.-].*\bso\b.*|"
    r"(?:cudart|cublas|cublaslt|cufft|cufftw|curand|cusolver|cusolvermg|cusparse|cudnn|nvrtc|"
    r"nvjitlink|nvjpeg|nvblas|npp\w+|cupti|nvtoolsext|nccl|nvinfer|nvonnxparser|nvfatbin|nvcomp|"
    r"nvrtc-builtins)\w*[_-]\d[\w.]*\.dll|"
    r"(?:torch_cuda\w*|c10_cuda|cutensor(?:mg)?)\.dll"
)
_BEGINNINGS = ("cu", "nv", "npp", "nccl", "torch_cuda", "c10_cuda")
"""Those of all of them, behind ``lib``."""

# Those whose own number is CUDA's major version.
_NUMBERED = (
    r"(?i)lib(?:cudart|cublas|cublasLt|nvblas|nvrtc(?:-builtins)?(?:\.alt)?|nvJitLink|nvjpeg|cupti|"
    r"nvfatbin|npp[a-z]+)\.so\.(?P<elf>\d{1,4})(?:\..*)?|"
    r"(?:(?:cudart|cublas|cublaslt|nvblas|nvjpeg|npp[a-z]+|nvrtc(?:-builtins)?)64|nvjitlink|"
    r"nvfatbin)_(?P<pe>\d{2})\d?(?:_\d+)?(?:\.alt)?\.dll"
)
# Those that count by themselves, where the number stands for one CUDA alone.
_COUNTED = {
    "libcufft.so.10": 11,
    "libcufft.so.11": 12,
    "libcufft.so.12": 13,
    "libcusolver.so.12": 13,
    "libcusparse.so.11": 11,
    "cufft64_10.dll": 11,
    "cufft64_11.dll": 12,
    "cufft64_12.dll": 13,
    "cusolver64_12.dll": 13,
    "cusparse64_11.dll": 11,
}
_DISTRIBUTION = r"(?i)(?:^|[-_.])cu(?:da)?-?(?P<major>1[0-9])\d?x?(?=[-_.]|$)"
_LABEL = r"(?:^|[.])cu(?P<major>1\d)(?P<minor>\d?)(?=[.]|$)"
_OF_THE_TOOLKIT = frozenset(
    {"cuda-toolkit", "nvidia-cuda-runtime", "nvidia-cuda-nvrtc", "nvidia-nvjitlink"}
)
"""Distributions without a number in their names whose version is CUDA's."""
EXACT = ("==", "~=", "===")


def is_driver_library(name: str) -> bool:
    """Whether it comes with NVIDIA's driver, whoever bundled it, and with nothing else."""
    return strip_graft(name).lower() in DRIVER_LIBRARIES


def is_cuda_library(name: str) -> bool:
    """Whether it is a library of CUDA, of what NVIDIA builds above it, or torch's half for it."""
    if not name.lower().removeprefix("lib").startswith(_BEGINNINGS):
        return False
    plain = strip_graft(name)
    return re.fullmatch(_CUDA, plain) is not None and not is_driver_library(plain)


def is_nvidia_library(name: str) -> bool:
    """Whether NVIDIA itself builds it; torch builds its own half for CUDA."""
    return is_cuda_library(name) and re.match(r"(?:lib)?(?:torch|c10)_", name) is None


def cuda_of_library(name: str) -> int | None:
    """CUDA's major version as a library's name tells it; None where it does not."""
    plain = strip_graft(name)
    match = re.fullmatch(_NUMBERED, plain)
    if match:
        return int(match["elf"] or match["pe"])
    return _COUNTED.get(re.sub(r"(?<=\.so\.)(\d+)\..*", r"\1", plain.lower()))


def cuda_of_name(distribution: str) -> int | None:
    """CUDA's major version in a distribution's name: ``nvidia-cublas-cu12``, ``cupy-cuda12x``."""
    match = re.search(_DISTRIBUTION, distribution)
    return int(match["major"]) if match else None


def cuda_of_label(label: str) -> str:
    """CUDA's version in a local version label or variant: "12.6" of ``cu126``; "" without one."""
    match = re.search(_LABEL, label)
    return ".".join(filter(None, match.groups())) if match else ""


def cuda_of_requirement(requirement: Requirement) -> str:
    """CUDA's version that a requirement asks for, as far as it is said: "13.2", "12" or ""."""
    name = requirement.name.lower().replace("_", "-")
    major = cuda_of_name(name)
    bare = re.sub(r"-cu1\d$", "", name)
    if bare in _OF_THE_TOOLKIT:
        for each in requirement.specifier:
            if each.operator in EXACT and re.match(r"1\d\.\d{1,4}\b", each.version):
                return ".".join(each.version.split(".")[:2])
            if each.operator in EXACT and each.version[:2].isdecimal():
                return each.version[:2]
    return str(major or "")


def is_for_cpu(package: Package) -> bool:
    """Whether its name or its variant says that it does without a GPU."""
    label, name = package.claims.variant, package.name.lower().replace("_", "-")
    return "cpu" in label.split(".") or name.endswith("-cpu")


def is_driver_soname(soname: str) -> bool:
    """Whether that library comes with the driver on Linux, and its symbols are the driver's."""
    return soname.removesuffix(".1") in _APIS


def is_driver_function(name: str) -> bool:
    """Whether a symbol can only be of a library of the driver, by its name."""
    return any(api.fullmatch(name) for api in _APIS.values())


def find_driver_symbols(soname: str, names: frozenset[str]) -> frozenset[str]:
    """Those of the names that a library of the driver can have: only the user's could list them."""
    api = _APIS[soname.removesuffix(".1")]
    return frozenset(name for name in names if api.fullmatch(name))
