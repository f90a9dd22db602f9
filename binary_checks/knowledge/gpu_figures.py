"""Looks up the figures of steps on a GPU, and says why one is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binary_checks.errors import NotApplicable
from binary_checks.model import Ending, GpuDevice, GpuHost, GpuReport, NotInspected

BUILD, VERSIONS = "the question for its build", "versions"
"""What a package is asked on a GPU before its steps."""


def read_figure(report: GpuReport, step: str, name: str) -> float | None:
    """Read one figure of one step; None when it came to none.

    Raises NotApplicable where the profile leaves the step out, or it is not for this package.
    """
    if all(name != step for name in (*(each.name for each in report.steps), *dict(report.untried))):
        raise NotApplicable(f"the profile leaves out the step {step}")
    found = (each.value for each in report.measurements if (each.step, each.name) == (step, name))
    figure = next(found, None)
    if figure is None and (reason := dict(report.inapplicable).get(step)):
        raise NotApplicable(f"{step}: {reason}")
    return figure


def list_untried(report: GpuReport) -> Iterator[NotInspected]:
    """Say which steps were not done and why, those of one reason together."""
    names: dict[str, list[str]] = {}
    for name, reason in report.untried:
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        yield NotInspected(sentence=f"{', '.join(those)}: {reason}")


def find_untried(report: GpuReport, step: str) -> NotInspected:
    """Say why a step came to no figure."""
    reason = dict(report.untried).get(step, "it did not succeed (see gpu-work-fails)")
    return NotInspected(sentence=f"{step}: {reason}")


def describe_unusable(devices: Iterable[GpuDevice]) -> Iterator[str]:
    """Say of each device that cannot be used that it is there, and why it cannot."""
    for index, each in enumerate(devices):
        if each.problem:
            yield f"device {index} ({each.name}) is there and cannot be used: {each.problem}"


def has_failed_before_steps(report: GpuReport) -> bool:
    """Whether a process ended badly that was asked for the build, or the versions of libraries."""
    return any(
        each.name in (BUILD, VERSIONS) and each.outcome is not Ending.OK for each in report.steps
    )


def spell_host(host: GpuHost, runtime: str = "") -> str:
    """Spell the facts of a host with a GPU, and the CUDA runtime used there, in one line."""
    served = f"driver {host.driver or 'of unknown version'} for CUDA {host.cuda}"
    served += runtime and f", runtime {runtime}"
    devices = ", ".join(
        f"{each.name} ({each.capability}, {each.memory / 2**30:.0f} GiB)" for each in host.usable
    )
    return f"{served}: {devices}"


def spell_time(report: GpuReport) -> str:
    """Say how long the steps took together; "" where none says."""
    seconds = [each.value for each in report.measurements if each.name == "seconds"]
    return f"{len(seconds)} steps took {sum(seconds):.1f} s" if len(seconds) > 1 else ""
