"""What happened when a package was installed and run: the typed answers of probes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Ending(str, Enum):
    """How one probed step ended."""

    OK = "ok"
    RAISED = "raised"  # a Python exception
    LOADER_ERROR = "loader error"  # the dynamic loader refused
    CRASHED = "crashed"  # killed by a signal
    HUNG = "hung"  # killed at its time limit
    STOPPED = "stopped"  # killed at another limit: of processes, memory or disk
    EXITED = "exited"  # left by itself, with a status or too early


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeReport:
    """The base of all probe answers; a check that asks for one makes its probe run."""

    python: str  # "CPython 3.11.7"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One thing a probe did, and how it ended."""

    name: str  # the module, or the path of the extension
    outcome: Ending = Ending.OK
    detail: str = ""  # exception text, signal name, seconds of the limit, exit status; one line
    finished: bool = False  # the step itself was over: the outcome is how the process then ended
    stderr: str = ""  # what it wrote to stderr, cut to its last lines
    origin: str = ""  # __file__ of what was imported, relative to site-packages when below it
    origin_sha256: str = ""  # hexadecimal, of that file after the import; "" when it is gone
    version: str = ""  # the module's __version__, when it is a str
    missing_module: str = ""  # the module that a ModuleNotFoundError names
    directory_changed: str = ""  # the working directory after it, when it is another
    gil_enabled: bool | None = None  # whether the GIL is back; None where it is never away
    extensions: tuple[str, ...] = ()  # files of the extension modules imported afterwards
    libraries: tuple[str, ...] | None = None  # objects mapped afterwards; None: nobody can say


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallReport(ProbeReport):
    """The installation of a package into a fresh environment."""

    installer: str = ""  # "uv 0.13.8"
    error: str = ""  # the installer's own words, when it refused the package; one line
    unrecorded: tuple[str, ...] = ()  # files that installation left and RECORD does not name
    altered: tuple[str, ...] = ()  # files whose hash is not the one that the wheel's RECORD gives
    missing: tuple[str, ...] = ()  # files of the wheel that are not there
    libraries: tuple[tuple[str, str], ...] = ()
    """Of a conda prefix the libraries of all other packages: path -> package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport(ProbeReport):
    """The import of each top-level name, each in a process of its own."""

    reservation: str = ""  # what a pass there does not prove, as a sentence
    steps: tuple[Step, ...] = ()
    untried: tuple[str, ...] = ()  # names for which there was no time left
    limit: str = ""  # which limit that was, the end of a sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtensionReport(ProbeReport):
    """The load of each extension module, all in one process, alone again after a crash."""

    architecture: str = ""  # the model's spelling, of the machine that the process ran on
    steps: tuple[Step, ...] = ()  # name is the path of the extension, "" for the process's own end
    untried: tuple[str, ...] = ()  # left out after too many crashes and hangs
    libraries: tuple[str, ...] | None = None  # objects mapped at the end; None: nobody can say


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


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedTestReport(ProbeReport):
    """The tests that a conda package carries, run where it is installed."""

    runs: tuple[SnippetRun, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # names of the others, each with the reason
