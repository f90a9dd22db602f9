"""Whether packages are large enough to be shared among workers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from binary_checks.packages import recognises

SMALL = 256 << 10
"""Bytes of a package on average, below which it takes as long to tell of its items as to judge."""
FEW = 32 << 20
"""Bytes of all packages, below which they are judged before workers have started."""
NOT_SHARED = pytest.StashKey[str]()
"""What to say where workers were asked for in vain."""
_ASKED = ("--dist", "-d", "--tx")


def is_worth_sharing(config: pytest.Config) -> bool:
    """Whether workers would be done sooner, or were asked for by more than their number.

    What is installed and run takes seconds, whatever its size.
    """
    words = map(str, config.invocation_params.args)
    if not config.option.binary_static or any(word.startswith(_ASKED) for word in words):
        return True
    sizes = list(_sizes(config.args))
    return len(sizes) > 1 and sum(sizes) >= max(FEW, SMALL * len(sizes))


def _sizes(arguments: Iterable[str]) -> Iterable[int]:
    paths = {Path(argument.split("::", 1)[0]) for argument in arguments}
    return (path.stat().st_size for path in paths if recognises(path) and path.is_file())
