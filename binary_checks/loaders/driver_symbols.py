"""Which symbols NVIDIA's driver is taken to define: only the user's own could list them."""

from __future__ import annotations

import re

# The prefixes of the APIs that each library has, as their headers declare them (cuda.h, nvml.h,
# cuviddec.h, nvEncodeAPI.h). libcufile's cuFile functions are not the driver's.
_APIS = {
    "libcuda.so": re.compile(r"cu(?!File)[A-Z]\w*"),
    "libnvidia-ml.so": re.compile(r"nvml[A-Z]\w*"),
    "libnvcuvid.so": re.compile(r"cuvid[A-Z]\w*"),
    "libnvidia-encode.so": re.compile(r"NvEnc\w*"),
}


def is_driver(soname: str) -> bool:
    """Whether that library comes with the driver, and with nothing else."""
    return soname.removesuffix(".1") in _APIS


def may_define(soname: str, names: frozenset[str]) -> frozenset[str]:
    """Those of the names that a library of the driver can have."""
    api = _APIS[soname.removesuffix(".1")]
    return frozenset(name for name in names if api.fullmatch(name))
