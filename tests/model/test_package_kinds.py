"""Every kind of package is known by its name, whatever else of ours is loaded."""

from __future__ import annotations

import subprocess
import sys

from binary_checks.model.packages import package_kinds


def test_a_process_that_has_read_no_package_knows_conda_packages_archives_and_folders() -> None:
    program = "from binary_checks.model.packages import package_kinds; print(*package_kinds())"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert {"Wheel", "InstalledPackage", "ObjectFolder", "CppArchive"} <= {*done.stdout.split()}
    assert any(name.startswith("Conda") for name in done.stdout.split())
    assert {*done.stdout.split()} <= package_kinds().keys()
