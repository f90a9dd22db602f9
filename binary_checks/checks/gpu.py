"""Whether work on a GPU succeeds, and with which results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda import (
    compare_expected,
    compare_versions,
    find_pins,
    find_unreported,
)
from binary_checks.knowledge.device_code import (
    describe_unusable,
    find_untried,
    format_host,
    format_time,
    has_failed_before_steps,
    list_untried,
    read_figure,
    runs_on,
)
from binary_checks.model import (
    CudaRequest,
    DeviceKind,
    DeviceTarget,
    Distribution,
    Ending,
    Finding,
    GpuReport,
    GpuRequest,
    Level,
    Measurement,
    Note,
    NotInspected,
    Problem,
)
from binary_checks.wording.problem_lines import name_end
from binary_checks.wording.sentences import describe_end

# Faults of a package at work on a GPU: steps that fail or are slow, and devices that are left out.

_BLOCK = 1 << 30  # bytes of the tensor that the step allocates
_CALM = 1 << 20  # bytes by which a device's free memory may change while nobody uses it


@check
def gpu_work_fails(report: GpuReport) -> Iterator[Finding]:
    """A step of work on a GPU raises an exception, crashes or hangs.

    ``module`` in the profile's table ``[probes.gpu]`` names the package's module; without it no
    check of this family runs. ``steps = "torch"`` runs the steps that are shipped for torch, except
    those in ``leave_out``: first_kernel, memory, every_device, late_choice, absent_device,
    library_exception, device_assertion, element_kernels, matmul, magma, svd, cudnn, convolution,
    autocast, cnn, rnn, attention, nccl, compilation. ``--binary-thorough``, or ``thorough = true``
    there, adds gds, max_autotune, torchvision and torchaudio; the distributions in ``requires`` are
    then installed, too. One process runs many steps, each within its own limit in seconds; after a
    failure the other steps continue in a new process. If first_kernel hangs, or any two steps hang,
    no more steps are tried. ``snippets`` are the profile's own steps, Python code by name. Each
    runs after the import in a process of its own, within the profile's ``timeout``. A snippet that
    sets ``measured`` to a dict of relative errors by dtype is judged by gpu-result-differs; one
    that sets ``unavailable`` to a reason is not inspected.

    Why: work on a GPU is the purpose of the package.

    Fix: follow the exception; a step that hangs is often compiling code that the package lacks for
    this device.

    Level: users with a GPU cannot use the package.
    """
    if not report.steps:
        yield NotInspected(sentence="the profile names no step: [probes.gpu] steps, snippets")
    yield Note(sentence=format_host(report.host, report.runtime))
    if time := format_time(report):
        yield Note(sentence=time)
    for step in report.steps:
        if step.finished:
            yield Problem(
                sentence=f"{step.name} succeeds on the GPU, but the process then "
                f"{describe_end(step)}",
                facts=(step.name, name_end(step)),
            )
        elif step.outcome is not Ending.OK:
            yield Problem(
                sentence=f"{step.name} on the GPU {describe_end(step)}",
                facts=(step.name, name_end(step)),
            )
    for sentence in describe_unusable(report.host.devices):
        yield NotInspected(sentence=sentence, by_host=True)
    yield from list_untried(report)
    for name, reason in report.inapplicable:
        yield Note(sentence=f"not applicable: {name}: {reason}")


@check(level=Level.WARNING)
def first_kernel_late(report: GpuReport, *, seconds: float = 20.0) -> Iterator[Finding]:
    """The first kernel on a GPU takes too long.

    The time is measured from the end of the import to the first result, and includes the start of
    CUDA and all compilation for the device. It may be at most ``seconds``.

    Why: without machine code for a device, the driver compiles everything from PTX at first use,
    which takes minutes and looks like a hang.

    Fix: build for the device's architecture.

    Level: users wait, and everything works then.
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

    The devices that a process may use are counted as CUDA's driver reports them; a GPU that is
    divided into parts (MIG) counts as one part. A device that another process uses exclusively is
    not expected. If the package announces another number of devices than it works on (torch counts
    by NVML), that is a problem, too, except with MIG.

    Why: devices that users paid for stay idle, without an error.

    Fix: look for a device that the package rejects as too old or too new.

    Level: users cannot use some of their GPUs.
    """
    figure, there = read_figure(report, "every_device", "devices"), len(report.host.usable)
    announced = read_figure(report, "every_device", "devices announced")
    if figure is None:
        yield find_untried(report, "every_device")
    elif figure != there:
        yield f"it works on {figure:g} of {there} GPUs"
    elif announced not in (None, figure):
        announcement = f"it announces {announced:g} GPUs, but CUDA gives it {figure:g}"
        parts = Note(sentence=f"{announcement}: parts of GPUs (MIG) are counted differently")
        yield parts if any(" MIG " in each.name for each in report.host.devices) else announcement


@check
def gpu_without_code(report: GpuReport, asked: GpuRequest) -> Iterator[Finding]:
    """A package ships no code that a GPU of the host can run.

    ``architectures`` in the profile's table ``[probes.gpu]`` is a Python expression that returns a
    list or a string of words (``torch.cuda.get_arch_list()``). Machine code runs on GPUs of its own
    generation with the same or a higher number (``sm_80`` on 8.6), PTX (``compute_90``) on
    everything newer; code for AMD runs on its own architecture (``gfx942``), generic code on all of
    its family (``gfx9-4-generic``).

    Why: every kernel fails with "no kernel image is available for execution on the device".

    Fix: build for that architecture, or add PTX for the newest one.

    Level: users cannot use that GPU.
    """
    if not asked.architectures:
        raise NotApplicable("the profile does not say how to query the architectures")
    if report.host.platform == "xpu":
        raise NotApplicable("Intel's driver compiles the code for the GPU that is there")
    if not report.architectures:
        yield NotInspected(sentence=f"{asked.architectures} returned no list")
        return
    for index, device in enumerate(report.host.devices):
        if not device.capability:
            yield NotInspected(
                sentence=f"device {index}: the driver does not report its capability"
            )
        elif not any(_runs(name, device.capability) for name in report.architectures):
            names = " ".join(report.architectures)
            yield Problem(
                sentence=f"device {index} ({device.name}) is {device.capability}, the code is for "
                f"{names}",
                facts=(device.name,),
            )


def _runs(architecture: str, capability: str) -> bool:
    """Return whether code for "sm_86", "sm_90a", "compute_90" or "gfx942" runs on such a device."""
    if capability.startswith("gfx"):
        name = architecture.partition(":")[0]  # without features, as in gfx90a:xnack-
        return runs_on(DeviceTarget(kind=DeviceKind.AMDGPU, architecture=name), capability)
    kind, _, number = architecture.partition("_")
    kinds = {"sm": DeviceKind.SASS, "compute": DeviceKind.PTX}
    if kind not in kinds:
        return False
    code = DeviceTarget(kind=kinds[kind], architecture=f"sm_{number}")
    return runs_on(code, f"sm_{capability.replace('.', '')}")


@check
def gpu_memory_kept(report: GpuReport) -> Iterator[Finding]:
    """A package keeps memory of a GPU that it no longer needs.

    A tensor of 1 GiB is allocated and dropped, and the package's cache is emptied. Nine tenths must
    then return to the driver, and the package must keep none. The driver reports the memory of the
    whole device: if other processes allocate or free memory meanwhile, or the GPU has no memory of
    its own, only the package's own count is judged, and what returns to the driver is not
    inspected.

    Why: other processes on the device run out of memory.

    Fix: find the owner of the block; in torch, a reference cycle or the cache itself.

    Level: other processes on the GPU fail for lack of memory.
    """
    kept = read_figure(report, "memory", "bytes kept")
    returned = read_figure(report, "memory", "bytes returned")
    if kept is None or returned is None:
        yield find_untried(report, "memory")
    elif kept:
        yield f"keeps {kept:.0f} bytes after the last tensor is gone and the cache is emptied"
    elif not returned >= 0.9 * _BLOCK:
        sentence = f"returns only {max(returned, 0):.0f} bytes of 1 GiB to the driver"
        shared = _find_sharing(report)
        yield NotInspected(sentence=f"it {sentence}, but {shared}") if shared else sentence


def _find_sharing(report: GpuReport) -> str:
    """Return a sentence on other users of the device's memory; "" if none was seen."""
    if read_figure(report, "memory", "integrated"):
        return "the GPU shares its memory with all programs of the host"
    drifted = read_figure(report, "memory", "bytes drifted") or 0
    if drifted > _CALM:
        return (
            f"other processes use the device: {drifted:.0f} bytes were taken or returned meanwhile"
        )
    return ""


# Faults of a package whose results or libraries on a GPU are not the expected ones.

_OTHER_FIGURES = frozenset({"seconds", "devices", "bytes", "integrated"})
"""First words of the names of figures that are not relative errors."""


@check
def gpu_result_differs(
    report: GpuReport,
    *,
    float64: float = 1e-10,
    float32: float = 1e-4,
    float16: float = 5e-3,
    bfloat16: float = 4e-2,
) -> Iterator[Finding]:
    """A result computed on the GPU differs from the CPU's result.

    The error is the norm of the difference divided by the norm of the CPU's result in float64, from
    inputs rounded to the judged dtype; gradients are compared in the same way. The bounds, an
    option for each dtype, are a hundred times (float64, float32) or ten times (float16, bfloat16)
    the rounding error in sums of 1000 products. TF32 is not accepted as float32 here.

    Why: it goes unnoticed: nothing fails, but the numbers are wrong.

    Fix: look for a library of another version than the package was built with, and for code for
    another architecture.

    Level: users get wrong results.
    """
    bounds = {"float64": float64, "float32": float32, "float16": float16, "bfloat16": bfloat16}
    measured = [each for each in report.measurements if _kind(each) not in _OTHER_FIGURES]
    if not report.steps:
        raise NotApplicable("the profile names no step")
    if not measured:
        yield NotInspected(sentence="no step produced a result")
    for sentence in _list_worst(measured, bounds):
        yield Note(sentence=sentence)
    for figure in measured:
        bound = bounds.get(_kind(figure))
        if bound is None:
            yield NotInspected(sentence=f"{figure.step}: no bound for {figure.name}")
        elif not math.isfinite(figure.value):
            yield Problem(
                sentence=f"{figure.step} in {figure.name} gives infinity or NaN, unlike the CPU",
                facts=(figure.step, figure.name),
            )
        elif figure.value > bound:
            yield Problem(
                sentence=(
                    f"{figure.step} in {figure.name} differs from the CPU's result by a relative "
                    f"error above {bound:g}"
                ),
                facts=(figure.step, figure.name),
            )
    for step in report.steps:
        if step.outcome is not Ending.OK and not step.finished:
            yield NotInspected(sentence=f"{step.name} did not succeed (see gpu-work-fails)")
    yield from list_untried(report)


def _kind(figure: Measurement) -> str:
    """Return the dtype of a relative error, or the kind of another figure."""
    return figure.name.partition(" ")[0]


def _list_worst(measured: list[Measurement], bounds: dict[str, float]) -> Iterator[str]:
    """Yield, for each dtype, the largest error within its bound."""
    for name, bound in bounds.items():
        within = [each for each in measured if _kind(each) == name and each.value <= bound]
        if within:
            worst = max(within, key=lambda each: each.value)
            yield f"{name}: {worst.value:.0e} in {worst.step}, where {bound:g} is allowed"


@check
def gpu_libraries_disagree(
    report: GpuReport,
    package: Distribution,
    asked: CudaRequest,
    *,
    newer: bool = True,
    expected: Mapping[str, str] = {},
) -> Iterator[Finding]:
    """A loaded NVIDIA library has another version than was built with, installed or pinned.

    The first three numbers of a version are compared. A library is pinned if the package requires
    an exact version itself, or an installed distribution such as ``cuda-toolkit`` requires it for
    the package. ``compiled`` in the profile's table ``[probes.cuda]`` has a Python expression for
    each library (``cudnn = "torch._C._cudnn.getCompileVersion()"``) that returns the version of its
    headers, or None in a build without it; a loaded library of the same major version may be newer,
    unless the option says ``newer = false``. The option ``expected`` gives versions that must be
    loaded, in as many numbers as matter (``cudnn = "9.26"``).

    Why: an older library lacks functions and fails at their first use; a library that is not the
    installed one was found in an unintended folder; and the combination is untested.

    Fix: pin the libraries to the versions that the package is built with, and make its search paths
    lead to them first.

    Level: functions are missing, or behave differently than at build time.
    """
    for sentence in find_unreported(report.versions, asked.compiled):
        yield NotInspected(sentence=sentence)
    yield from compare_expected(report.versions, expected)
    if not report.versions and has_failed_before_steps(report):
        yield NotInspected(sentence="the process that reports them failed")
        return
    if not report.versions:
        raise NotApplicable("the package loads none of NVIDIA's libraries")
    pins = find_pins(package)
    for each in report.versions:
        if each.loaded:
            yield from compare_versions(each, pins.get(each.name, "") or each.pinned, newer=newer)
        elif each.compiled:
            yield NotInspected(
                sentence=f"{each.name}: it is not loaded, or does not report its version"
            )
