"""The help of the command on one screen, and its version."""

from __future__ import annotations

import platform
from importlib.metadata import version

from binary_checks import __version__

HELP = """\
usage: binary-checks [OPTION]... PACKAGE[::CHECK]...
       binary-checks inspect PACKAGE...  what is in packages, without a verdict
       binary-checks report RESULT.json  another report of a run that has ended
       binary-checks diff OLD NEW        what a new build breaks and changes
       binary-checks nightly ACTION      a matrix; also cells, query, hud

Say whether wheels, conda packages, C++ libraries and folders are fit to ship.

  binary-checks dist/*.whl                        inspect, install, import, load
  binary-checks --static dist/*.whl               inspect only, on any host
  binary-checks numpy==2.4.6                      what the index has, or a URL
  binary-checks dist/*.whl -m linkage             one family of checks
  binary-checks --list dist/a.whl                 which checks apply to it
  binary-checks --explain missing-library         what it finds, how to fix it
  binary-checks --write-known k.toml dist/*.whl   accept today's problems

  --static                     install and run nothing
  --known-problems LIST        a file or a URL whose problems are accepted
  --strict                     count every warning as an error
  --profile FILE               what the project expects (else pyproject.toml's)
  --place PLACE                venv, existing:PYTHON, prefix:PATH, image:NAME
  --with PATH                  a required package, or a folder of packages
  --with-requirements          download required packages that are not given
  --require FAMILY             fail if its checks cannot inspect the package
  --report FORMAT:FILE         write a report: html, json, sarif, markdown, ...
  -m FAMILY, -k TEXT           only these checks    -n NUMBER  more processes
  -v                           show every check     -x         stop at a failure
  --help-pytest                every option         --version  this version

exit code: 0 fit, 1 problems, 2 interrupted, 3 our bug, 4 usage, 6 try again
"""


def format_version() -> str:
    """Return the command's version, and those of pytest and Python."""
    return f"binary-checks {__version__} (pytest {version('pytest')}, {_name_python()})"


def _name_python() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"
