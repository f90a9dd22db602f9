"""When the tests run that install published wheels, which are of one kind alone."""

from __future__ import annotations

import sys

import pytest

ON_LINUX = (
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(
        sys.platform != "linux" or sys.version_info[:2] != (3, 11),
        reason="these wheels are for CPython 3.11 on Linux",
    ),
)
