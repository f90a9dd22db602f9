"""Perform named steps of work on a GPU with torch, and report the figures of each.

The steps are in ``steps.py``. Their results are compared with the same work on the CPU in float64;
the figure for a dtype is the norm of the difference divided by the norm of the CPU's result.
``platform`` is "cuda", "rocm" or "xpu"; ``device`` may be "cpu", to try out the steps. A step that
raises ends its process, so that a state which it broke, on the device or in torch, does not make
the next step fail.
"""

from __future__ import annotations

import importlib
import os
import time

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def list_steps(process: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all steps in order: function, time limit, and kind."""
    rows = []
    folder = os.path.dirname(os.path.abspath(__file__))
    steps = process["execute"](os.path.join(folder, "steps.py"), "steps")["STEPS"]
    for step, expected, bound, *marks in steps:
        row = {"name": step.__name__, "step": step, "expected": expected, "bound": bound}
        rows.append(dict(row, alone="alone" in marks, thorough="thorough" in marks))
    return rows


class Bench:
    """Torch and a device for the steps, and the comparison of results with the CPU's."""

    def __init__(self, torch: Any, device: str, platform: str = "cuda") -> None:
        self.torch, self.device, self.platform = torch, device, platform
        self.on_cpu = device == "cpu"
        # torch.cuda works with AMD's GPUs, too; torch.xpu has the same functions
        self.api = torch.xpu if platform == "xpu" else torch.cuda

    def prepare(self) -> None:
        """Make results repeatable and exact: no TF32 instead of float32."""
        self.torch.manual_seed(0)
        self.torch.backends.cuda.matmul.allow_tf32 = False
        self.torch.backends.cudnn.allow_tf32 = False

    def wait(self) -> None:
        """Wait until the device has finished; raise its errors."""
        if not self.on_cpu:
            self.api.synchronize()

    def compare(self, found: Any, expected: Any) -> float:
        """Return the relative error of a result against the CPU's in float64."""
        if found.shape != expected.shape:
            raise AssertionError("shape %s for %s" % (tuple(found.shape), tuple(expected.shape)))
        found, expected = found.detach().cpu().double(), expected.detach().cpu().double()
        return float((found - expected).norm() / expected.norm())

    def try_module(self, module: Any, x: Any, dtypes: Any, cast: str = "") -> dict[str, float]:
        """Run a module in each dtype, forwards and backwards, and compare it with the CPU.

        With ``cast`` the module stays in float32, and autocast chooses the dtypes.
        """
        measured = {}
        for name in dtypes:
            dtype = getattr(self.torch, name)
            expected = self.differentiate(module.to(dtype).double(), x.to(dtype).double())
            own = self.torch.float32 if cast else dtype
            there = module.to(device=self.device, dtype=own)
            with self.autocast(dtype, bool(cast)):
                found = self.differentiate(there, x.to(dtype).to(self.device, own))
            self.wait()
            module.to(device="cpu", dtype=self.torch.float64)
            if cast and found[0].dtype != dtype:
                raise AssertionError("autocast gives %s for %s" % (found[0].dtype, dtype))
            measured[name + cast] = self.compare(found[0], expected[0])
            measured[name + cast + " gradients"] = max(map(self.compare, found[1:], expected[1:]))
        return measured

    def autocast(self, dtype: Any, enabled: bool) -> Any:
        """Return the context in which torch computes in that dtype."""
        return self.torch.autocast(self.device, dtype=dtype, enabled=enabled)

    def differentiate(self, function: Any, x: Any) -> list[Any]:
        """Return a result, and its gradients with respect to the input and each parameter.

        The differentiated sum is weighted with numbers that every dtype can represent.
        """
        x = x.detach().requires_grad_()
        result = function(x)
        result = result[0] if isinstance(result, tuple) else result
        signs = self.torch.arange(result.numel()).mul(7).remainder(5).sub(1.5).div(2)
        parameters = list(getattr(function, "parameters", list)())
        total = (result * signs.view(result.shape).to(result)).sum()
        return [result.detach(), *self.torch.autograd.grad(total, [x, *parameters])]

    def expect(self, kind: Any, text: str, action: Callable[[], Any]) -> None:
        """Run the action, which must raise that kind of exception with that text."""
        try:
            action()
        except kind as error:
            if text.lower() not in str(error).lower():
                raise AssertionError("an error without %r: %s" % (text, error))
            return
        raise AssertionError("expected %s with %r, but nothing was raised" % (kind.__name__, text))


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """List the steps, or import torch and perform the requested steps until one fails."""
    if request.get("list"):
        rows = list_steps(process)
        record.finish({"steps": [{key: row[key] for key in row if key != "step"} for row in rows]})
        return
    answer: dict[str, Any] = {"results": {}}
    record.enter("import torch", answer)
    torch = importlib.import_module("torch")
    steps = {row["name"]: row for row in list_steps(process)}
    platform = request.get("platform", "cuda")
    device = request.get("device") or ("xpu" if platform == "xpu" else "cuda")
    bench = Bench(torch, device, platform)
    for name in request["steps"]:
        record.enter(name, answer)
        show_stacks_after(request.get("bounds", {}).get(name))
        row = take_step(steps[name], bench, process, request["site_packages"])
        answer["results"][name] = row
        record(answer)
        if row["state"] != "finished":
            break
    record.finish(dict(answer, stage="", state="finished"))


def show_stacks_after(bound: float | None) -> None:
    """Print the stacks before a time limit on Windows, where the parent cannot request them."""
    if os.name == "nt" and bound:
        import faulthandler

        faulthandler.dump_traceback_later(bound * 0.9)


def take_step(
    row: dict[str, Any], bench: Bench, process: dict[str, Any], below: str
) -> dict[str, Any]:
    """Perform one step, and return its figures and duration, or how it failed."""
    start = time.monotonic()
    try:
        bench.prepare()
        result = row["step"](bench)
        if not row["alone"]:
            bench.wait()
    except BaseException as error:
        detail = process["describe_exception"](error, below)
        return {"state": "raised", "detail": detail}
    measured = dict(result.get("measured", ()), seconds=time.monotonic() - start)
    return dict(result, state="finished", measured=measured)
