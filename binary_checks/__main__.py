"""``python -m binary_checks`` is the ``binary-checks`` command."""

from __future__ import annotations

import sys

from binary_checks.command import main

if __name__ == "__main__":
    sys.exit(main())
