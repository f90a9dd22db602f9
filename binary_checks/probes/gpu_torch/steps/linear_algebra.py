"""Steps of linear algebra: cuBLAS, cuSOLVER and MAGMA, compared with the CPU."""

from __future__ import annotations

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any


def matmul(bench: Any) -> dict[str, Any]:
    """Compute a matrix product in four precisions, and its gradients."""
    torch = bench.torch
    measured: dict[str, float] = {}
    for name in ("float64", "float32", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        a, b = torch.randn(256, 512).to(dtype), torch.randn(512, 128).to(dtype)
        there = b.to(bench.device)
        found = bench.differentiate(lambda x, b=there: x @ b, a.to(bench.device))
        expected = bench.differentiate(lambda x, b=b.double(): x @ b, a.double())
        measured[name], measured[name + " gradients"] = map(bench.compare, found, expected)
    return {"measured": measured}


def magma(bench: Any) -> dict[str, Any]:
    """Run MAGMA, which torch 2.15 uses only for LU without pivoting and complex LDL.

    All other functions go to cuSOLVER, whichever is preferred. A matrix with a large diagonal needs
    no pivots, so that the CPU, which always pivots, computes the same factors.
    """
    torch = bench.torch
    if bench.platform == "xpu":
        return {"inapplicable": "MAGMA has no kernels for this platform"}
    measured: dict[str, float] = {}
    assert bench.on_cpu or torch.cuda.has_magma, "torch.cuda.has_magma is False"
    torch.backends.cuda.preferred_linalg_library("default" if bench.on_cpu else "magma")
    try:
        for name in ("float64", "float32"):
            for shape in ((96, 96), (5, 24, 24)):
                a = (torch.randn(shape) + 100 * torch.eye(shape[-1])).to(getattr(torch, name))
                found = torch.linalg.lu_factor(a.to(bench.device), pivot=bench.on_cpu)[0]
                error = bench.compare(found, torch.linalg.lu_factor(a.double())[0])
                measured[name] = max(error, measured.get(name, 0.0))
    finally:
        torch.backends.cuda.preferred_linalg_library("default")
    return {"measured": measured}


def svd(bench: Any) -> dict[str, Any]:
    """Compute singular value decompositions of single and batched matrices.

    Vectors are unique except for their signs, so compare the values and the product, and check that
    the factors are orthogonal, with and without full factors.
    """
    torch = bench.torch
    measured: dict[str, float] = {}
    for name in ("float64", "float32"):
        for shape in ((96, 64), (3, 24, 16)):
            for full in (True, False):
                a = torch.randn(shape, dtype=getattr(torch, name))
                u, s, v = torch.linalg.svd(a.to(bench.device), full_matrices=full)
                key = name + " full" if full else name
                error = max(bench.compare(*pair) for pair in pair_factors(torch, a, u, s, v))
                measured[key] = max(error, measured.get(key, 0.0))
    return {"measured": measured}


def pair_factors(torch: Any, a: Any, u: Any, s: Any, v: Any) -> list[tuple[Any, Any]]:
    """Return pairs of a value computed from a matrix's factors and the expected value."""
    few = s.shape[-1]
    product = u[..., :few] * s[..., None, :] @ v[..., :few, :]
    pairs = [(product, a), (s, torch.linalg.svdvals(a.double()))]
    for square in (u.mT @ u, v @ v.mT):
        pairs.append((square, torch.eye(square.shape[-1]).expand_as(square)))
    return pairs


STEPS = (
    # seconds on a healthy GPU, and seconds after which it hangs
    (matmul, 2, 30),
    (magma, 2, 30),
    (svd, 3, 40),
)
