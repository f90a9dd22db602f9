"""What file names of C++ archives say, as projects spell them."""

from __future__ import annotations

import pytest

from binary_checks.packages.cpp_archive import FileName, names_system, parse_name


@pytest.mark.parametrize(
    ("label", "name", "version", "variant"),
    [
        ("libtorch-shared-with-deps-2.13.0%2Bcpu.zip", "libtorch", "2.13.0+cpu", "cpu"),
        ("libtorch-shared-with-deps-latest.zip", "libtorch", "", ""),
        (
            "libtorch-shared-with-deps-2.8.0.dev20250601+cpu.zip",
            "libtorch",
            "2.8.0.dev20250601+cpu",
            "cpu",
        ),
        ("onnxruntime-linux-x64-gpu-1.20.1.tgz", "onnxruntime", "1.20.1", "gpu"),
        ("libtensorflow-cpu-windows-x86_64.zip", "libtensorflow", "", "cpu"),
        ("cudnn-linux-x86_64-9.1.0.70_cuda12-archive.tar.xz", "cudnn", "9.1.0.70", "cu12"),
        ("clang+llvm-18.1.8-x86_64-linux-gnu.tar.xz", "clang+llvm", "18.1.8", ""),
        ("foo.zip", "foo", "", ""),
    ],
)
def test_name_version_and_variant(label: str, name: str, version: str, variant: str) -> None:
    assert parse_name(label)[:3] == (name, version, variant)


@pytest.mark.parametrize(
    ("label", "system", "architectures"),
    [
        ("libtorch-win-shared-with-deps-2.5.1+cpu.zip", "windows", ("x86_64",)),
        ("libtorch-win-arm64-shared-with-deps-2.7.0+cpu.zip", "windows", ("aarch64",)),
        ("libtorch-macos-arm64-2.5.1.zip", "macos", ("aarch64",)),
        ("libtorch-shared-with-deps-2.5.1+cpu.zip", "", ()),
        ("onnxruntime-osx-universal2-1.20.1.tgz", "macos", ("x86_64", "aarch64")),
        ("libtensorflow-cpu-darwin-x86_64.tar.gz", "macos", ("x86_64",)),
        ("sdk-win32.zip", "windows", ("i686",)),
        ("darwinian-winner-1.0.zip", "", ()),
    ],
)
def test_system_and_architecture(label: str, system: str, architectures: tuple[str, ...]) -> None:
    stated = parse_name(label).stated
    assert (stated.system, stated.architectures) == (system, architectures)


def test_linking_dependencies_and_abi() -> None:
    def stated(label: str) -> tuple[object, ...]:
        found: FileName = parse_name(f"libtorch-{label}-2.5.1+cu124.zip")
        said = found.stated
        return said.linking, said.with_deps, said.cxx11_abi, said.debug

    assert stated("cxx11-abi-static-without-deps") == ("static", False, True, None)
    assert stated("pre-cxx11-abi-shared-with-deps") == ("shared", True, False, None)
    assert stated("win-shared-with-deps-debug") == ("shared", True, None, True)
    assert stated("macos-arm64") == ("", None, None, None)


def test_which_names_promise_a_system() -> None:
    assert names_system("libtorch-shared-with-deps-2.13.0.zip")
    assert names_system("onnxruntime-win-x64-1.20.1.zip")
    assert not names_system("numpy-2.4.6.tar.gz")
