"""The long snippets for torch: they pass with the published packages, and find a wrong result.

``BINARY_CHECKS_TORCH`` names an interpreter with torch, and with torchvision and torchaudio for
their snippets. Published builds of these two are for CUDA, and torch for it has 4 GB.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from binary_checks.model import Code, SnippetRequest
from binary_checks.profile import load_profile

PYTHON = os.environ.get("BINARY_CHECKS_TORCH", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="BINARY_CHECKS_TORCH names no interpreter"),
]
SPOILED = {
    "max-autotune": ["import torch; torch.compile = lambda f, **how: (lambda x: f(x) * 1.25)"],
    "torchvision": [
        f"import torchvision.ops as o; f = o.{name}; o.{name} = lambda *a, **k: {change}"
        for name, change in (
            ("nms", "f(*a, **k).flip(0)"),
            ("roi_align", "f(*a, **k) * 1.25"),
            ("ps_roi_align", "f(*a, **k) * 1.25"),
            ("roi_pool", "f(*a, **k) - 1"),
            ("deform_conv2d", "f(*a, **k) * 1.25"),
        )
    ]
    + [
        f"import torchvision.io as o; f = o.{name}; o.{name} = lambda *a, **k: f(*a, **k).flip(2)"
        for name in ("decode_png", "decode_jpeg")
    ],
    "torchaudio": [
        "import torchaudio.functional as o; f = o.lfilter; o.lfilter = lambda *a, **k: a[0]",
        "import torchaudio.functional as o; f = o.forced_align; "
        "o.forced_align = lambda *a, **k: (f(*a, **k)[0] * 0, None)",
    ],
}


def run(name: str, before: str, folder: Path) -> subprocess.CompletedProcess[str]:
    table = load_profile("torch").probes["snippets"]
    library = name if name.startswith("torch") else "torch"
    find = f"import importlib.util as u; raise SystemExit(u.find_spec({library!r}) is None)"
    if subprocess.run((PYTHON, "-c", find), check=False).returncode:
        pytest.skip(f"{library} is not installed there")
    stop = "def unavailable(reason): raise SystemExit(reason)\n"
    code = f"{stop}{before}\n{table['code'][name]}"
    return subprocess.run(
        (PYTHON, "-c", code), cwd=folder, capture_output=True, text=True, check=False
    )


def test_every_long_snippet_is_tried_here() -> None:
    table = load_profile("torch").probes["snippets"]
    assert table["long"].keys() == SPOILED.keys()
    assert SnippetRequest(code={name: Code(table["code"][name]) for name in SPOILED})


@pytest.mark.parametrize("name", SPOILED)
def test_a_published_package_passes(name: str, tmp_path: Path) -> None:
    done = run(name, "", tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize(("name", "before"), [(name, b) for name in SPOILED for b in SPOILED[name]])
def test_a_wrong_result_fails(name: str, before: str, tmp_path: Path) -> None:
    done = run(name, before, tmp_path)
    assert done.returncode == 1
    assert "AssertionError" in done.stderr, done.stderr
