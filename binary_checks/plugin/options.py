"""The options of the users' contract, and whether a run has anything for the plugin to do.

pytest loads this in every run, so it imports no room: those cost ten times what it does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

DEAF_INI = "binary_deaf"
"""Set in the ini file of the command: nothing runs that was found rather than named."""
_ASKING = (
    "installed",
    "published",
    "for",
    "facts",
    "python",
    "place",
    "with",
    "requirements_folder",
    "require",
    "expect_set",
    "known",
    "write_known",
    "report",
)
"""Options that ask for something by themselves, if only for the line that refuses them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the users' contract."""
    add = parser.getgroup("binary_checks", "checks of built binary packages").addoption
    add("--binary-profile", metavar="NAME_OR_TOML", help="what the project expects of its packages")
    add(
        "--binary-known-problems",
        dest="binary_known",
        metavar="PATH_OR_URL[#sha256=HEX]",
        action="append",
        default=[],
        help="accept the problems listed in a file of [[known_problems]], local or at a URL "
        "(repeatable)",
    )
    add(
        "--binary-known-at",
        metavar="TIME",
        help="judge known problems as of this time (2026-11-22T04:00:00Z) instead of now",
    )
    add(
        "--binary-cell",
        metavar="AXES",
        help='which cell of a matrix this is, as "python=3.13 variant=cu126": some known problems '
        "hold only in some cells",
    )
    add(
        "--write-known",
        dest="binary_write_known",
        metavar="FILE",
        help="write the problems of this run as such a file, or add to it those that are new",
    )
    add(
        "--binary-configuration",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="what the packages are said to be, as python=3.11,cuda=12.6, or some of them, as "
        "torch-*:cuda=12.6; or whether variables "
        "like DESIRED_CUDA say so too: under CI (auto), always (variables), never (off) "
        "(repeatable)",
    )
    add(
        "--binary-thorough",
        action="store_true",
        help="decompress all code for GPUs, not a sample; on a GPU run the long steps of the "
        "profile too: max-autotune, GDS, domain libraries",
    )
    add("--binary-static", action="store_true", help="inspect only: install and run nothing")
    add(
        "--binary-place",
        metavar="PLACE",
        action="append",
        default=[],
        help="where packages run: venv (a fresh environment; the default), existing:PYTHON or "
        "prefix:PATH (one that they are installed in), image:REFERENCE (a container of podman's or "
        "docker's; oldest and newest choose one by the package's tag) (repeatable)",
    )
    add(
        "--binary-python",
        metavar="PATH",
        help="interpreter that a venv is made from, or that a container gets; with "
        "--binary-installed the same as --binary-place existing:PATH",
    )
    add(
        "--binary-allow-builds",
        action="store_true",
        help="let the installer build requirements without a wheel, and follow those by URL: this "
        "runs their code with your privileges",
    )
    add(
        "--binary-with",
        metavar="PATH",
        action="append",
        default=[],
        help="a package, or a folder of packages, that those judged require (repeatable)",
    )
    add(
        "--binary-channel",
        metavar="CHANNEL",
        action="append",
        default=[],
        help="a conda channel (name, URL or folder) for what conda packages require (repeatable)",
    )
    add(
        "--binary-with-requirements",
        action="store_true",
        help="download required packages that --binary-with does not give",
    )
    add(
        "--binary-requirements-folder",
        metavar="PATH",
        help="keep the downloaded wheels there (implies --binary-with-requirements)",
    )
    add(
        "--binary-installed",
        metavar="NAME",
        action="append",
        default=[],
        help="judge a package that is installed in the place, and run it there (repeatable)",
    )
    add(
        "--binary-published",
        metavar="REQUIREMENT",
        action="append",
        default=[],
        help="judge what an index offers users, as numpy==2.4.6, or the file behind a URL "
        "(repeatable)",
    )
    add(
        "--binary-for",
        metavar="TARGET",
        help="choose published packages for another Python and system, as cp312-win_amd64",
    )
    add(
        "--binary-facts",
        metavar="FILE",
        action="append",
        default=[],
        help="facts of a named package, from `binary-checks inspect`, used instead of reading its "
        "objects",
    )
    add(
        "--binary-require",
        metavar="FAMILY",
        action="append",
        default=[],
        help="fail when a check of the family could not inspect the package (repeatable)",
    )
    add(
        "--binary-expect-set",
        metavar="FILE",
        help="a list of globs, one a line: the file names that all packages of the run together, "
        "and what their index has beside them, must have",
    )
    add(
        "--binary-sandbox",
        choices=("auto", "off", "require"),
        default="auto",
        help="run packages in a sandbox: if one works (auto), never (off), or only there (require)",
    )
    add(
        "--binary-crosscheck",
        action="store_true",
        help="read every object with other libraries too (extra crosscheck), and compare",
    )
    add(
        "--binary-report",
        metavar="FORMAT:FILE",
        action="append",
        default=[],
        help="write a report, as in json:result.json; an unknown FORMAT lists them all "
        "(repeatable)",
    )
    add(
        "--binary-github",
        choices=("auto", "off"),
        default="auto",
        help="under GitHub Actions write annotations and a job summary (auto), or never (off)",
    )
    add("--binary-strict", action="store_true", help="count every warning as an error")
    parser.addini(
        DEAF_INI, "run no code from a profile that was found rather than named", "bool", False
    )
    add("--explain", metavar="CHECK", help="explain a check, or list those of a family, then exit")


def is_asked(config: pytest.Config) -> bool:
    """Whether there may be a package among the arguments, or an option asks for something.

    Neither tests in Python are one, nor folders, unless they are called like a file. The command
    takes nothing but packages.
    """
    if config.getini(DEAF_INI):
        return True
    option = config.option
    asked = option.markers or any(getattr(option, f"binary_{name}") for name in _ASKING)
    return bool(asked or any(map(_may_be_package, config.args)))


def _may_be_package(argument: str) -> bool:
    path = Path(argument.partition("::")[0])
    try:
        return path.suffix != ".py" and (bool(path.suffix) or not path.is_dir())
    except (OSError, ValueError):  # too long a name, or one that is no text
        return True
