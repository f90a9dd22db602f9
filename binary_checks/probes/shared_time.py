"""The total time of all processes that a probe starts for one package."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 10
"""Total time in multiples of one process's timeout: 50 minutes with the default profile. A package
determines how many modules or tests it has; the slowest real packages take a few minutes.
"""


class SharedTime:
    """The remaining time for all imports, or all tests, of one package."""

    def __init__(self, timeout: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._most = now, SHARE * timeout
        self._end = now() + self._most

    @property
    def spent(self) -> str:
        """Why no further process is started, for the end of a sentence; "" while time remains."""
        if self._now() < self._end:
            return ""
        return f"the earlier processes took all {self._most:g} s that one package may take"
