"""Steps with libraries that are released together with torch and built against it."""

from __future__ import annotations

import importlib
import importlib.util

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any


def load(name: str) -> Any:
    """Import a library, or return None if it is not installed."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def lack(name: str) -> dict[str, Any]:
    """Report that a library is missing, and how to get it."""
    return {"inapplicable": "%s is not installed ([probes.gpu] requires)" % name}


def torchvision(bench: Any) -> dict[str, Any]:
    """Run torchvision's own kernels: removal of overlapping boxes, and pooling of regions."""
    library, torch = load("torchvision"), bench.torch
    if library is None:
        return lack("torchvision")
    corners = torch.rand(200, 2) * 20
    boxes = torch.cat([corners, corners + 1 + torch.rand(200, 2) * 8], 1)
    scores = torch.rand(200)
    kept = library.ops.nms(boxes.to(bench.device), scores.to(bench.device), 0.5)
    assert kept.cpu().tolist() == library.ops.nms(boxes, scores, 0.5).tolist(), "other boxes kept"
    regions = torch.cat([torch.zeros(8, 1), boxes[:8] / 2], 1)
    image = torch.randn(1, 3, 16, 16)

    def pool(x: Any) -> Any:
        return library.ops.roi_align(x, regions.to(x), 4, sampling_ratio=2)

    found = bench.differentiate(pool, image.to(bench.device))
    expected = bench.differentiate(pool, image.double())
    result, gradients = map(bench.compare, found, expected)
    return {"measured": {"float32": result, "float32 gradients": gradients}}


def torchaudio(bench: Any) -> dict[str, Any]:
    """Run torchaudio's recursive filter, which has its own kernel, and resample a wave."""
    library, torch = load("torchaudio"), bench.torch
    if library is None:
        return lack("torchaudio")
    wave = torch.rand(2, 4000) * 2 - 1
    a, b = torch.tensor([1.0, -0.5, 0.25]), torch.tensor([0.5, 0.25, 0.125])

    def treat(x: Any) -> Any:
        filtered = library.functional.lfilter(x, a.to(x), b.to(x))
        return library.functional.resample(filtered, 16000, 8000)

    found = bench.differentiate(treat, wave.to(bench.device))
    result, gradients = map(bench.compare, found, bench.differentiate(treat, wave.double()))
    return {"measured": {"float32": result, "float32 gradients": gradients}}


STEPS = (
    # seconds on a healthy GPU, and seconds after which it hangs
    (torchvision, 5, 60, "alone", "thorough"),
    (torchaudio, 5, 60, "alone", "thorough"),
)
