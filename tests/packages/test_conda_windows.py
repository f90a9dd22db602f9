"""Where Windows may find the DLLs of a conda package, by words in its Python code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binary_checks import objects
from binary_checks.packages import open_package
from fixtures.build_conda import build_conda

pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")


@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_code_for_windows_says_where_dlls_are(tmp_path: Path, suffix: Any) -> None:
    adding = "import os\nos.add_dll_directory(os.path.dirname(__file__))\n"
    members = {
        "Lib/site-packages/demo/__init__.py": "def _delvewheel_patch_1():\n    " + adding,
        "Lib/site-packages/long/__init__.py": adding + "#" * (1 << 20),
        "Lib/site-packages/demo/x.dll": "none",
        "bin/code.py": adding,
    }
    path = build_conda(tmp_path, members=members, suffix=suffix, subdir="win-64")
    package = open_package(path, objects)
    assert "Lib/site-packages/demo" in package.dll_directories
    assert package.loading_code == ("Lib/site-packages/long/__init__.py",)
