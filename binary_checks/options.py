"""The options of a run, and their names under our command and under pytest.

Our command has `--static`; under pytest, whose plugins share one name space, the option is
`--binary-static`. Texts in this package use pytest's names; output is converted to the names of the
program that the user called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

_REPEATABLE = {"action": "append", "default": []}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "profile": {
        "metavar": "NAME_OR_TOML",
        "help": "what the project expects of its packages: a shipped profile's name or a TOML file",
    },
    "known-problems": {
        **_REPEATABLE,
        "metavar": "PATH_OR_URL[#sha256=HEX]",
        "dest": "binary_known",
        "help": "accept the problems listed in a file of [[known_problems]], local or at a URL "
        "(repeatable)",
    },
    "known-at": {
        "metavar": "TIME",
        "help": "judge known problems as of this time (2026-11-22T04:00:00Z) instead of now",
    },
    "cell": {
        "metavar": "AXES",
        "help": 'which cell of a matrix this run is, as "python=3.13 variant=cu126": some known '
        "problems hold only in some cells",
    },
    "write-known": {
        "metavar": "FILE",
        "help": "write the problems of this run as a file of known problems, or add the new ones to"
        " it",
    },
    "configuration": {
        **_REPEATABLE,
        "metavar": "KEY=VALUE",
        "help": "configuration of all packages (python=3.11,cuda=12.6), or of packages whose file "
        "names match (torch-*:cuda=12.6). One word controls whether variables such as DESIRED_CUDA "
        "are read as well: auto (under CI), variables (always) or off (never) (repeatable)",
    },
    "thorough": {
        "action": "store_true",
        "help": "decompress all code for GPUs, not a sample; also run the long snippets of the "
        "profile, and its long steps on a GPU: max-autotune, GDS, domain libraries",
    },
    "static": {
        "action": "store_true",
        "help": "inspect only: install and run nothing",
    },
    "place": {
        **_REPEATABLE,
        "metavar": "PLACE",
        "help": "where packages run: venv (a fresh environment; the default), existing:PYTHON or "
        "prefix:PATH (an environment that contains them), image:REFERENCE (a container of podman"
        " or docker; image:oldest and image:newest choose one by the package's tag), pyodide or "
        "pyodide:FOLDER (Pyodide in Node, from node_modules or an unpacked npm package) "
        "(repeatable)",
    },
    "python": {
        "metavar": "PATH",
        "help": "interpreter that makes a venv, or that a container uses; with --binary-installed "
        "the same as --binary-place existing:PATH",
    },
    "allow-builds": {
        "action": "store_true",
        "help": "let the installer build requirements that have no wheel, and fetch requirements "
        "that name a URL: this runs their code with your privileges",
    },
    "with": {
        **_REPEATABLE,
        "metavar": "PATH",
        "help": "a required package, or a folder of packages (repeatable)",
    },
    "channel": {
        **_REPEATABLE,
        "metavar": "CHANNEL",
        "help": "a conda channel (name, URL or folder) that provides what conda packages require "
        "(repeatable)",
    },
    "with-requirements": {
        "action": "store_true",
        "help": "download required packages that --binary-with does not provide",
    },
    "requirements-folder": {
        "metavar": "PATH",
        "help": "keep the downloaded wheels in this folder (implies --binary-with-requirements)",
    },
    "installed": {
        **_REPEATABLE,
        "metavar": "NAME",
        "help": "judge and run a package that is installed in the place (repeatable)",
    },
    "published": {
        **_REPEATABLE,
        "metavar": "REQUIREMENT",
        "help": "judge a package on an index, as numpy==2.4.6, or the file at a URL (repeatable)",
    },
    "for": {
        "metavar": "TARGET",
        "help": "choose published packages for another Python and system, as cp312-win_amd64",
    },
    "facts": {
        **_REPEATABLE,
        "metavar": "FILE",
        "help": "take a package's facts from a document that `binary-checks inspect` wrote, instead"
        " of reading its object files (repeatable)",
    },
    "require": {
        **_REPEATABLE,
        "metavar": "FAMILY",
        "help": "fail if a check of the family could not inspect the package (repeatable)",
    },
    "expect-set": {
        "metavar": "FILE",
        "help": "a list of globs, one per line: each file of the release, in the run or on the "
        "index, must match a glob, and each glob must match a file",
    },
    "sandbox": {
        "choices": ("auto", "off", "require"),
        "default": "auto",
        "help": "run packages in a sandbox: if one works (auto), never (off), or end the run if "
        "none works (require)",
    },
    "keep": {
        "metavar": "FOLDER",
        "help": "keep the environment of each package with a failed check below this folder",
    },
    "crosscheck": {
        "action": "store_true",
        "help": "read every object file with other libraries, too, and compare (needs "
        "binary-checks[crosscheck])",
    },
    "report": {
        **_REPEATABLE,
        "metavar": "FORMAT:FILE",
        "help": "write a report, as json:result.json; an unknown FORMAT lists all formats "
        "(repeatable)",
    },
    "github": {
        "choices": ("auto", "off"),
        "default": "auto",
        "help": "under GitHub Actions write annotations and a job summary (auto), or never (off)",
    },
    "strict": {
        "action": "store_true",
        "help": "count every warning as an error",
    },
    "explain": {
        "metavar": "CHECK",
        "help": "explain a check, or list the checks of a family, then exit",
    },
}
"""Keyword arguments of pytest's ``addoption`` by option name, without the leading hyphens."""
_NAMED = re.compile(r"(?<![\w-])--binary-(?=[a-z])")


class Program(Enum):
    """The program that the user called."""

    PYTEST = "pytest"
    COMMAND = "binary-checks"

    def name_options(self, text: str) -> str:
        """Return the text, or an argument, with our options named as in the program's help."""
        return _NAMED.sub("--", text) if self is Program.COMMAND else text
