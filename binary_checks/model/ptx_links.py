"""PTX that a package ships, and what nvJitLink makes of it for GPUs that come later."""

from __future__ import annotations

from dataclasses import dataclass, field

from binary_checks.model.device_details import UnreadDeviceCode
from binary_checks.model.probes import ProbeReport, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxText:
    """One text of PTX, as it lies in an object of the package."""

    path: str  # of the object
    offset: int  # bytes from the start of the file: the entry that holds it
    architecture: str  # "sm_90a", of its .target
    version: str  # "8.8", of its .version
    content: bytes
    member: str = ""  # of a static archive, which has it


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxTexts:
    """A sample of the package's PTX, as large as the profile has it."""

    texts: tuple[PtxText, ...] = ()  # each content once
    found: int = 0  # texts that differ, of which these are the sample
    size: int = 0  # bytes of all of them
    unread: tuple[tuple[str, UnreadDeviceCode], ...] = ()  # by the object's path


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxLink:
    """What became of one text for one target."""

    text: PtxText
    target: str  # "sm_120"
    assembled: bool = False
    refusal: str = ""  # the assembler's error; one line
    line: int = 0  # of the text, at which it found that; 0 where it does not say
    kernel: str = ""  # mangled, the function or kernel that has the line
    lack: str = ""  # why it is neither assembled nor refused


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxLinkReport(ProbeReport):
    """The sample, linked on the CPU by the nvJitLink of the package's environment."""

    step: Step = field(default_factory=lambda: Step(name=""))  # of its own start
    library: str = ""  # its file, relative to site-packages when below it
    version: str = ""  # "13.5"
    known: tuple[str, ...] = ()  # targets that it makes machine code for
    links: tuple[PtxLink, ...] = ()
    untried: tuple[PtxText, ...] = ()  # those after too many crashes, or that no target takes
