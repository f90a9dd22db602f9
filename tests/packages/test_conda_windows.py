"""What a conda package's Python code has Windows load: no more of it is kept than is followed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks import objects
from binary_checks.model import ObjectReader, Visited, VisitRequest
from binary_checks.packages import open_package
from binary_checks.trees import TarTree
from fixtures.build_conda import build_conda

pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")


@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_code_for_windows_says_where_dlls_are_and_too_much_of_it_is_not_kept(
    tmp_path: Path, suffix: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adding = "import os\nos.add_dll_directory(os.path.dirname(__file__))\n"
    members = {
        "Lib/site-packages/demo/__init__.py": adding,
        "Lib/site-packages/long/__init__.py": adding + "#" * (1 << 20),
        "Lib/site-packages/demo/x.dll": "none",
    }
    kept: list[Mapping[str, int]] = []
    visit = TarTree.visit

    def watch(
        tree: TarTree, reader: ObjectReader, wanted: VisitRequest, *more: Any
    ) -> list[Visited]:
        kept.append(wanted.texts)
        return visit(tree, reader, wanted, *more)

    monkeypatch.setattr(TarTree, "visit", watch)
    path = build_conda(tmp_path, members=members, suffix=suffix, subdir="win-64")
    package = open_package(path, objects)
    assert "Lib/site-packages/demo" in package.dll_directories
    assert package.loading_code == ("Lib/site-packages/long/__init__.py",)
    assert kept[-1] == {"Lib/site-packages/demo/__init__.py": len(adding)}
