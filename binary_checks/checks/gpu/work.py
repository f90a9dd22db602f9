"""Faults of a package at work on a GPU: steps that fail, come late, or leave devices out."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gpu_figures import find_untried, read_figure, spell_host
from binary_checks.model import Ending, Finding, GpuReport, Note, NotInspected
from binary_checks.model.requests import GpuRequest
from binary_checks.wording.step_texts import describe_end


@check
def gpu_work_fails(report: GpuReport) -> Iterator[Finding]:
    """A step of work on a GPU raises an exception, crashes or hangs.

    ``module`` in the profile's table ``[probes.gpu]`` names the package's module; without it no
    check of this family runs. ``steps = "torch"`` takes the steps that are shipped for torch, but
    those in ``leave_out``: first_kernel, every_device, magma, cudnn, absent_device,
    library_exception, rnn, cnn, convolution, svd, matmul, device_assertion, compilation, memory.
    ``snippets`` are steps of the profile's own, Python code by name, run after the import; one that
    sets ``measured`` to a dict of relative errors by dtype is judged by gpu-result-differs, one
    that sets ``unavailable`` to a reason was not taken. Each step has a process of its own and the
    profile's ``timeout``.

    Why: this is what the package is for.

    Fix: what the exception says; a step that hangs is often the compilation of code that the
    package has not got for this device.
    """
    if not report.steps:
        yield NotInspected(sentence="the profile names no step: [probes.gpu] steps, snippets")
    yield Note(sentence=spell_host(report.host, report.runtime))
    for step in report.steps:
        if step.finished:
            yield f"{step.name} succeeds on the GPU, and the process then {describe_end(step)}"
        elif step.outcome is not Ending.OK:
            yield f"{step.name} on the GPU {describe_end(step)}"
    for name, reason in report.untried:
        yield NotInspected(sentence=f"{name}: {reason}")


@check
def first_kernel_late(report: GpuReport, *, seconds: float = 20.0) -> Iterator[Finding]:
    """The first kernel on a GPU comes late.

    Counted from the end of the import to the first result: the start of CUDA and all that is
    compiled for the device by then, at most ``seconds``.

    Why: a package without machine code for a device has the driver compile all of it from PTX at
    the first use, which takes minutes and looks like a hang.

    Fix: build for the device's architecture.
    """
    figure = read_figure(report, "first_kernel", "seconds")
    if figure is None:
        yield find_untried(report, "first_kernel")
    elif not figure <= seconds:
        yield f"the first kernel took more than {seconds:g} s after the import"
    else:
        yield Note(sentence=f"the first kernel took {figure:.1f} s after the import")


@check
def gpu_left_out(report: GpuReport) -> Iterator[Finding]:
    """A package does not see every GPU that the driver offers.

    Why: work stays undone on devices that users paid for, without an error.

    Fix: look for a device that the package turns down as too old or too new.
    """
    figure, there = read_figure(report, "every_device", "devices"), len(report.host.devices)
    if figure is None:
        yield find_untried(report, "every_device")
    elif figure != there:
        yield f"it works on {figure:g} of {there} GPUs"


@check
def gpu_without_code(report: GpuReport, asked: GpuRequest) -> Iterator[Finding]:
    """A package brings no code that a GPU of the host can run.

    ``architectures`` in the profile's table ``[probes.gpu]`` is a Python expression that gives a
    list or a text of words (``torch.cuda.get_arch_list()``). Machine code runs on its own
    generation from its own number on (``sm_80`` on 8.6), PTX (``compute_90``) on everything that is
    newer.

    Why: every kernel fails with "no kernel image is available for execution on the device".

    Fix: build for that architecture, or add PTX of the newest.
    """
    if not asked.architectures:
        raise NotApplicable("the profile does not say how to ask for the architectures")
    if not report.architectures:
        yield NotInspected(sentence=f"{asked.architectures} gave no list")
        return
    for index, device in enumerate(report.host.devices):
        if not device.capability:
            yield NotInspected(sentence=f"device {index}: the driver does not say what it can run")
        elif not any(_runs(name, device.capability) for name in report.architectures):
            names = " ".join(report.architectures)
            yield f"device {index} ({device.name}) has {device.capability}, the code is for {names}"


def _runs(architecture: str, capability: str) -> bool:
    """Whether code for "sm_86", "sm_90a" or "compute_90" runs on a device of that capability."""
    kind, _, number = architecture.partition("_")
    digits = number.rstrip("af")
    if not digits.isdecimal() or len(digits) < 2:
        return False
    own = (int(digits[:-1]), int(digits[-1]))
    major, minor = (int(part) for part in capability.split("."))
    if number.endswith("a"):
        return own == (major, minor)
    if kind == "sm" or number.endswith("f"):
        return own[0] == major and own[1] <= minor
    return own <= (major, minor)


@check
def gpu_memory_kept(report: GpuReport) -> Iterator[Finding]:
    """A package keeps memory of a GPU that it no longer needs.

    A tensor of 1 GiB is made and dropped, and the package's cache emptied; nine tenths must be the
    driver's again, and nothing the package's.

    Why: other processes on the device run out of memory.

    Fix: look for what still holds the block; in torch, a reference cycle or the cache itself.
    """
    kept = read_figure(report, "memory", "bytes kept")
    returned = read_figure(report, "memory", "bytes returned")
    if kept is None or returned is None:
        yield find_untried(report, "memory")
    elif kept:
        yield f"{kept:.0f} bytes are kept after the last tensor is gone and the cache is emptied"
    elif not returned >= 0.9 * (1 << 30):
        yield f"of 1 GiB the driver has only {max(returned, 0):.0f} bytes again"
