"""What a package answers about GPUs, where there is none and where there is one."""

from __future__ import annotations

from dataclasses import dataclass, field

from binary_checks.model.probes import ProbeReport, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What one Python expression gave in a process that had imported the package."""

    question: str  # the expression
    value: bool | int | float | str | tuple[str, ...] | None = None  # the repr of anything else
    error: str = ""  # "RuntimeError: text", when it raised; one line


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDevice:
    """One GPU as the driver describes it."""

    name: str = ""
    capability: str = ""  # compute capability, "9.0"
    memory: int = 0  # bytes
    problem: str = ""  # why it cannot be used, the end of a sentence; "" when it can

    @property
    def is_slice(self) -> bool:
        """Whether it is a part of a GPU (MIG), as its name says: "NVIDIA H100 MIG 1g.10gb"."""
        return " MIG " in self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuHost:
    """What NVIDIA's driver says of the host, asked without any toolkit."""

    library: str = ""  # file of the driver's library; "" when there is none
    driver: str = ""  # the driver's version, "580.95.05"; "" when it does not say
    cuda: str = ""  # the newest CUDA that the driver serves, "13.0"
    devices: tuple[GpuDevice, ...] = ()
    problem: str = ""  # why no device can be used, the end of a sentence; "" when one can
    # What is wrong although devices can be used, a sentence: some work may fail for it.
    doubt: str = ""
    memory_errors: int = 0  # that no ECC corrected, in all devices since the driver was loaded

    @property
    def usable(self) -> tuple[GpuDevice, ...]:
        """The devices that can be used: each is judged by itself."""
        return tuple(each for each in self.devices if not each.problem)


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryVersions:
    """The versions of one of NVIDIA's libraries, "9.10.2"; "" where it cannot be asked."""

    name: str  # "cudnn"
    compiled: str = ""  # of the headers that the package was built with
    loaded: str = ""  # as the library in the process says
    installed: str = ""  # of the distribution that brings it
    pinned: str = ""  # the one version of that distribution that an installed one requires


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaReport(ProbeReport):
    """A package imported, tried and asked where no driver and no toolkit is to be found."""

    step: Step = field(default_factory=lambda: Step(name=""))  # name is the module
    stage: str = ""  # what the process was at when it ended early: "import torch", an expression
    answers: tuple[Answer, ...] = ()
    host: GpuHost = field(default_factory=GpuHost)  # what could not be hidden
    system: str = ""  # "linux-x86_64"
    versions: tuple[LibraryVersions, ...] = ()  # of NVIDIA's libraries, asked in another process
    versions_step: Step | None = None  # of that process; None: there was nothing to ask about


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedAnswers:
    """A package imported and asked where a driver is there and does not start."""

    state: str  # why it does not: "no-device", "driver-mismatch", "old-driver"
    step: Step  # name is the module
    stage: str = ""  # what the process was at when it ended early: "import torch", an expression
    answers: tuple[Answer, ...] = ()
    lack: str = ""  # why this proves nothing, a sentence; "" where it does


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusingDriverReport(ProbeReport):
    """What a package does where a stub of NVIDIA's driver refuses to start, in several ways."""

    refused: tuple[RefusedAnswers, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A figure that a step on a GPU came to."""

    step: str
    name: str  # of a relative error the dtype first, "float32 gradients"; "seconds", "bytes kept"
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReport(ProbeReport):
    """Steps of work on a GPU; after one that failed, the others in another process."""

    host: GpuHost = field(default_factory=GpuHost)
    runtime: str = ""  # the CUDA runtime that the package brings or loads, "13.2"
    steps: tuple[Step, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # steps that were not done here, and why
    inapplicable: tuple[tuple[str, str], ...] = ()  # steps, or parts of them, that are not for it
    measurements: tuple[Measurement, ...] = ()
    versions: tuple[LibraryVersions, ...] = ()
    architectures: tuple[str, ...] = ()  # that the package says it has code for, "sm_90"
