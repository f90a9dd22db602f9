"""What became of a profile's own lines of Python in the installed package."""

from __future__ import annotations

from dataclasses import dataclass

from binary_checks.model.probes import ProbeReport, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetRun:
    """One snippet, run in a process of its own."""

    step: Step  # name is the snippet's
    printed: str = ""  # what it wrote to sys.stdout, without white space at both ends
    unavailable: str = ""  # why it could not look, by its own word; then the step is OK


@dataclass(frozen=True, kw_only=True, slots=True)
class SnippetReport(ProbeReport):
    """The snippets of a profile, run beside the package."""

    system: str = ""  # "linux-x86_64"
    runs: tuple[SnippetRun, ...] = ()
    elsewhere: tuple[str, ...] = ()  # names of those that are for other systems
    beside: tuple[str, ...] = ()  # what they require and was there already: "numpy 2.4.6"
