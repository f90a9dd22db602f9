"""What developers read first about a wheel with a mistake; a wheel without one is fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mistakes import cmake_projects, meson_projects, setuptools_projects
from tests.mistakes.building import CALLING, VEC, Mistake, Workshop, verify, verify_healthy

pytestmark = [pytest.mark.slow, pytest.mark.network]
MISTAKES = {
    f"{backend}: {name}": mistake
    for backend, mistakes in (
        ("Meson", meson_projects.MISTAKES),
        ("CMake", cmake_projects.MISTAKES),
        ("setuptools", setuptools_projects.MISTAKES),
    )
    for name, mistake in mistakes.items()
}
VENDORED = {"vendor/vec.c": VEC}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_first_line_names_the_mistake(
    mistake: Mistake, workshop: Workshop, tmp_path: Path
) -> None:
    verify(mistake, workshop, tmp_path)


def test_a_project_of_meson_without_a_mistake_is_fit(workshop: Workshop, tmp_path: Path) -> None:
    files = meson_projects.with_library("library('vec', 'vec.c', install: true)")
    verify_healthy(files, workshop, tmp_path)


def test_a_project_of_cmake_without_a_mistake_is_fit(workshop: Workshop, tmp_path: Path) -> None:
    files = cmake_projects.with_library(cmake_projects.BESIDE, cmake_projects.ORIGIN)
    verify_healthy(files, workshop, tmp_path)


def test_a_project_of_setuptools_without_a_mistake_is_fit(
    workshop: Workshop, tmp_path: Path
) -> None:
    linking, before = setuptools_projects.LINKING, setuptools_projects.VENDOR
    files = setuptools_projects.project(linking, core=CALLING, files=VENDORED)
    verify_healthy(files, workshop, tmp_path, before=before, libraries="vendor")
