"""A CUDA toolkit assembled from NVIDIA's wheels, for build tools that expect an installed one.

The wheels of CUDA 13 contain nvcc, headers and libraries in ``nvidia/cu13``, but no links such as
``libcudart.so``, by which linkers and CMake find a library, and no folder ``lib64``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from binary_checks.errors import Unavailable
from binary_checks.places.host_place import PlaceSettings
from binary_checks.places.installers import find_installer, install
from binary_checks.places.venv import make_venv

_NUMBERED = re.compile(r"(?P<name>lib[\w.-]+?\.so)\.[\d.]+")


def install_toolkit(requires: Sequence[str], settings: PlaceSettings, folder: Path) -> Path:
    """Install the wheels below a folder, and return the root of the toolkit made from them.

    Raises Unavailable if a wheel is not available or none contains nvcc, GatherError if the index
    or the machine failed.
    """
    root = folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    python = make_venv(settings.python, root, settings.timeout)
    cwd = root / "empty"
    installer = find_installer(python, cwd=cwd, timeout=settings.timeout)
    error = install(
        installer, tuple(requires), index=settings.index, cwd=cwd, timeout=settings.timeout
    )
    if error:
        raise Unavailable(f"{', '.join(requires)} cannot be installed: {error}")
    programs = sorted(python.parents[1].glob("lib*/python*/site-packages/nvidia/cu*/bin/nvcc"))
    if not programs:
        raise Unavailable(f"none of {', '.join(requires)} contains nvcc")
    return assemble_toolkit(programs[-1].parents[1], root / "cuda")


def assemble_toolkit(source: Path, root: Path) -> Path:
    """Make the usual layout of a toolkit from the folder of NVIDIA's wheels; return its root.

    Programs are copied, because nvcc looks for its parts relative to its own real path.
    """
    shutil.copytree(source / "bin", root / "bin")
    for path in (root / "bin").iterdir():
        if path.is_file():
            path.chmod(0o755)
    for name in ("include", "nvvm"):
        if (source / name).is_dir():
            (root / name).symlink_to(source / name)
    libraries = root / "lib64"
    libraries.mkdir()
    (root / "lib").symlink_to("lib64")
    for path in sorted((source / "lib").iterdir()):
        (libraries / path.name).symlink_to(path)
        found = _NUMBERED.fullmatch(path.name)
        if found and not (libraries / found["name"]).is_symlink():
            (libraries / found["name"]).symlink_to(path)
    # CMake looks for a stub of the driver, which no wheel has. For a linker this is a script that
    # names another library: a program that calls the driver itself is not linked.
    (libraries / "stubs").mkdir()
    (libraries / "stubs" / "libcuda.so").write_text("INPUT ( -lc )\n", encoding="ascii")
    return root
