"""How long the processes that one package has us start may take together."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 10
"""So many times as long as one process may take: 50 minutes, with the profile's usual timeout. A
package decides how many modules, or tests, it has; the slowest real ones take some minutes."""


class SharedTime:
    """The time that is left for the imports, or the tests, of one package."""

    def __init__(self, timeout: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._most = now, SHARE * timeout
        self._end = now() + self._most

    @property
    def spent(self) -> str:
        """Why no more is started, the end of a sentence; "" while there is time left."""
        if self._now() < self._end:
            return ""
        return f"those before it took {self._most:g} s, the most for one package"
