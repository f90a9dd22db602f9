"""What compilers of code for GPUs make of it on the CPU, where the package is installed."""

from __future__ import annotations

from dataclasses import dataclass, field

from binary_checks.model.probes import ProbeReport, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Compilation:
    """What a compiler made for one target: a cubin, or an error."""

    target: str  # "sm_90", as it was asked for
    made: str = ""  # for what the cubin is that came of it, "sm_90"; "" without one
    error: str = ""  # the compiler's own words; one line


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilerReport(ProbeReport):
    """The base: one compiler, asked for a small kernel for each of some targets."""

    step: Step = field(default_factory=lambda: Step(name=""))  # name is the compiler's
    stage: str = ""  # what the process was at when it ended early: "import torch"
    library: str = ""  # the compiler's file, relative to site-packages when below it
    version: str = ""  # "13.2"
    reported: tuple[str, ...] = ()  # architectures that the package says it has code for, "sm_90"
    compilations: tuple[Compilation, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NvrtcReport(CompilerReport):
    """NVIDIA's run-time compiler, as the package loads it."""

    lying: tuple[str, ...] = ()  # where it is not loaded, the files of it in the environment
    refusal: str = ""  # what the package raised when it was to load it; one line
    supported: tuple[str, ...] = ()  # targets that it says it compiles for; () where it cannot say


@dataclass(frozen=True, kw_only=True, slots=True)
class TritonReport(CompilerReport):
    """Triton, with the assembler in it."""

    unknown: tuple[str, ...] = ()  # targets that it was asked for and does not know
