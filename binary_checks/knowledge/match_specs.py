"""What conda's match specifications say: ``conda-forge::numpy >=1.23,<3 *_cuda``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OF_CUDA = re.compile(r"(?i)cu(?:da|dnn|blas|fft|rand|solver|sparse|tensor|dss)|nvidia|\bnccl\b")


def is_of_cuda(match_spec: str) -> bool:
    """Whether a package of CUDA's, or a CUDA build of another, is asked for."""
    return _OF_CUDA.search(match_spec) is not None


def name_of(match_spec: str) -> str:
    """The package's name, in lower case as conda has it; "" for what is no specification."""
    found = re.match(r"(?:[^\s:]+::)?([\w.-]+)", match_spec.strip())
    return found[1].lower() if found else ""


def find_minimum(name: str, match_specs: Iterable[str]) -> tuple[int, int] | None:
    """The oldest version of a package that all of them allow; None where none of them says one."""
    found = [
        (int(match[1]), int(match[2] or 0))
        for each in match_specs
        if name and name_of(each) == name
        for match in re.finditer(r">=\s*(\d{1,4})(?:\.(\d{1,4}))?", each)
    ]
    return max(found) if found else None
