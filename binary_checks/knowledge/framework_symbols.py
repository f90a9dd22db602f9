"""Knows the symbols that only a framework's own libraries define, whatever else is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable

from binary_checks.knowledge.nvidia_names import is_cuda_library
from binary_checks.model.mangling import namespace_of

_LIBRARIES = {"torch": re.compile(r"lib(?:torch(?:_\w+)?|c10(?:_\w+)?)\.(?:so|dylib)")}
_CORES = {"torch": re.compile(r"lib(?:c10|torch_cpu)\.(?:so|dylib)")}
"""Of these one is always loaded where another one is."""
_NAMESPACES = {"torch": frozenset({"at", "c10", "c10d", "caffe2", "torch"})}
_FUNCTIONS = {"torch": re.compile(r"(?:aoti_torch|torch)_\w+")}
"""Those of its stable C interface, torch/csrc/stable and aoti_torch/c/shim.h."""
_WITHOUT = re.compile(
    r"lib(?:avcodec|avdevice|avfilter|avformat|avutil|swresample|swscale)\.so\b.*"
)
"""Libraries of C, beside NVIDIA's, that extensions of frameworks need: FFmpeg's."""


def framework_of(symbol: str) -> str:
    """The framework in whose namespaces a symbol is, or whose C interface has it; "" if none."""
    space = namespace_of(symbol)
    for name, functions in _FUNCTIONS.items():
        if space in _NAMESPACES[name] or functions.fullmatch(symbol):
            return name
    return ""


def find_own_symbols(
    names: frozenset[str], loaded: Iterable[str], unseen: Iterable[str]
) -> frozenset[str]:
    """Those of the names that no library of the ``unseen`` can define.

    They are of a framework whose libraries are ``loaded``, all that the process needs of them, and
    the others are NVIDIA's or plain C.
    """
    unseen, loaded = tuple(unseen), tuple(loaded)
    if not all(is_cuda_library(name) or _WITHOUT.fullmatch(name) for name in unseen):
        return frozenset()
    whole = {
        framework
        for framework, core in _CORES.items()
        if any(map(core.match, loaded)) and not any(map(_LIBRARIES[framework].match, unseen))
    }
    return frozenset(name for name in names if whole and framework_of(name) in whole)
