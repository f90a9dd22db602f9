"""NVIDIA's wheels become a toolkit with the layout that compilers and CMake look for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.errors import Unavailable
from binary_checks.places import PlaceSettings
from binary_checks.places.unpacked import assemble_toolkit, install_toolkit
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a toolkit as on Linux")
SETTINGS = PlaceSettings(python=PYTHON, timeout=120)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder as NVIDIA's wheels have it, with a runtime that has one function."""
    folder = tmp_path / "nvidia" / "cu13"
    for name in ("bin/crt", "include", "lib", "nvvm/bin"):
        (folder / name).mkdir(parents=True)
    (folder / "bin/nvcc").write_text("#!/bin/sh\necho release 13.0\n")
    (folder / "include/cuda_runtime.h").write_text("int cudaRuntime(void);\n")
    (folder / "lib/libcudart_static.a").write_text("")
    for name in ("libcudart.so.13", "libnvrtc-builtins.so.13.0"):
        (folder / "lib" / name).write_text("")
    return folder


def test_libraries_have_the_names_by_which_linkers_find_them(source: Path, tmp_path: Path) -> None:
    root = assemble_toolkit(source, tmp_path / "cuda")
    assert (root / "lib64/libcudart.so").resolve() == source / "lib/libcudart.so.13"
    assert (root / "lib/libnvrtc-builtins.so").exists()
    assert (root / "lib64/libcudart_static.a").exists()
    assert (root / "include/cuda_runtime.h").is_file()
    said = subprocess.run((root / "bin/nvcc",), capture_output=True, text=True, check=True)
    assert said.stdout == "release 13.0\n"
    assert not (root / "bin/nvcc").is_symlink()  # it looks for its parts beside its real path


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_program_is_linked_with_the_runtime_and_the_stub_of_the_driver(
    source: Path, tmp_path: Path
) -> None:
    (tmp_path / "runtime.c").write_text("int cudaRuntime(void) { return 0; }\n")
    made = source / "lib/libcudart.so.13"
    command = ("cc", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13", "-o", made)
    subprocess.run((*command, tmp_path / "runtime.c"), check=True)
    root = assemble_toolkit(source, tmp_path / "cuda")
    (tmp_path / "main.c").write_text(
        "#include <cuda_runtime.h>\nint main(void) { return cudaRuntime(); }\n"
    )
    flags = (f"-I{root}/include", f"-L{root}/lib64", f"-L{root}/lib64/stubs")
    libraries = ("-lcudart", "-lcuda", f"-Wl,-rpath,{root}/lib64")
    program = tmp_path / "main"
    subprocess.run(("cc", tmp_path / "main.c", "-o", program, *flags, *libraries), check=True)
    assert subprocess.run((program,), check=False).returncode == 0


def wheel_with(folder: Path, members: dict[str, str]) -> str:
    return f"tools @ {build_wheel(folder, name='tools', tags=PURE, members=members).as_uri()}"


def test_the_wheels_are_installed_and_searched_for_nvcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    members = {"nvidia/cu13/bin/nvcc": "#!/bin/sh\n", "nvidia/cu13/lib/libcudart.so.13": ""}
    root = install_toolkit([wheel_with(tmp_path, members)], SETTINGS, tmp_path / "one")
    assert (root / "bin/nvcc").stat().st_mode & 0o111
    with pytest.raises(Unavailable, match="contains nvcc"):
        install_toolkit([wheel_with(tmp_path, {"tools.py": ""})], SETTINGS, tmp_path / "two")
