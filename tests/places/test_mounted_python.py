"""The interpreter of this host that a container is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import Unavailable
from binary_checks.places.containers import mount_python


def test_a_program_that_is_no_python_is_named_in_one_line(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(Unavailable) as refused:
        mount_python(program)
    reason = f"{program}: not a Python 3.8 or later that runs here: it ends with exit status 3"
    assert str(refused.value) == reason
