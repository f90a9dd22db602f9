"""The generated files of a package are read for the CUDA and the ROCm that they state."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.model import StatedToolkits
from fixtures.build_wheel import build_wheel

TORCH = """
from typing import Optional

__version__ = '2.15.0+cu132'
debug = False
cuda: Optional[str] = '13.2'
hip: Optional[str] = None
"""


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            "torch/version.py",
            TORCH,
            [
                "(cuda: Optional[str] = '13.2') says CUDA 13.2",
                "(hip: Optional[str] = None) says no ROCm",
                "(__version__ = '2.15.0+cu132') says CUDA 13.2",
            ],
        ),
        (
            "onnxruntime/capi/build_and_package_info.py",
            "package_name = 'onnxruntime-gpu'\ncuda_version = '13.0'\n",
            ["(cuda_version = '13.0') says CUDA 13.0"],
        ),
        (
            "xformers/cpp_lib.json",
            '{"version": {"cuda": 1208, "hip": null, "torch": "2.10.0+cu128"}}',
            ['("cuda": 1208) says CUDA 12.8', '("hip": null) says no ROCm'],
        ),
        ("cupy/.data/_wheel.json", '{"cuda": "13.x"}', ['("cuda": "13.x") says CUDA 13']),
        (
            "torchaudio/version.py",
            "__version__ = '2.11.0+cu130'\n",
            ["(__version__ = '2.11.0+cu130') says CUDA 13.0"],
        ),
        (
            "torch/version.py",
            "__version__ = '2.8.0+rocm6.4'\ncuda = None\nhip = '6.4.43482-0f2d60242'\n",
            [
                "(cuda = None) says no CUDA",
                "(hip = '6.4.43482-0f2d60242') says ROCm 6.4",
                "(__version__ = '2.8.0+rocm6.4') says ROCm 6.4",
            ],
        ),
        (
            "torch/share/cmake/Caffe2/Caffe2Config.cmake",
            "if(0)\n  set(CAFFE2_USE_CUDA 0)\n",
            ["(set(CAFFE2_USE_CUDA 0)) says no CUDA"],
        ),
        ("torchvision/version.py", "if x > 0:\n    cuda = _check_cuda_version()\n", []),
        ("demo/_version.py", "version = '1.0'\n__version__ = version\n", []),
        ("demo/deep/version.py", "cuda = '12.6'\n", []),
    ],
)
def test_what_packages_state(tmp_path: Path, path: str, text: str, said: list[str]) -> None:
    with examine(build_wheel(tmp_path, members={path: text})) as examination:
        claims = examination.get(StatedToolkits).claims
    found = [f"{each.evidence} says {each.statement}" for each in claims]
    assert found == [f"{path} {each}" for each in said]


def test_a_profile_names_other_files(tmp_path: Path) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text("[probes.builds]\ncuda = {'demo/build.txt' = 'toolkit ([0-9.]+)'}\n")
    package = build_wheel(tmp_path, members={"demo/build.txt": "toolkit 12.6.3\n"})
    with examine(package, profile=str(profile)) as examination:
        (claim,) = examination.get(StatedToolkits).claims
    assert (claim.evidence, claim.version) == ("demo/build.txt (toolkit 12.6.3)", "12.6")


def test_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    text = "#" * (2 << 20) + "\ncuda = '12.6'\n"
    with examine(build_wheel(tmp_path, members={"demo/version.py": text})) as examination:
        stated = examination.get(StatedToolkits)
    assert [claim.version for claim in stated.claims] == ["12.6"]
    assert stated.unread == ()
