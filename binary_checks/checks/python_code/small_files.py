"""Small files that the shell or a library reads: scripts, and stubs that are read at run time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.python_libraries import is_for_tests
from binary_checks.model import (
    ANY_SYSTEM,
    Finding,
    Level,
    NotInspected,
    Problem,
    SmallFiles,
    WheelLike,
)

# Scripts that installers copy to a folder of PATH.

_OF_SYSTEM = re.compile(r"/(?:usr/)?s?bin/[^/\s]+")
_PYTHON = re.compile(r"python[\d.]*w?|pypy[\d.]*")


@check
def foreign_interpreter(package: WheelLike, files: SmallFiles) -> Iterator[Finding]:
    """A script names an interpreter that users do not have.

    Installers replace ``#!python`` by the interpreter of the environment. Any other first line
    stays as it is.

    Why: the shell says "bad interpreter: No such file or directory", or runs the script with a
    Python that does not have the package.
    Fix: let the build backend write the script (an entry point in ``console_scripts``), or begin it
    with ``#!python``.
    Level: nobody can run the command. It is a warning for a Python in ``/usr/bin`` or ``/bin``: it
    runs where the package is installed for that Python.
    """
    folder = f"{package.layout.scripts}/"
    unread = [each for each in files.unread if each.path.startswith(folder)]
    if not (files.scripts or unread):
        raise NotApplicable("no script that installers copy to a folder of PATH")
    systems = {claim.system for claim in package.claims.systems}
    if systems == {"windows"}:
        raise NotApplicable("Windows does not read the first line of scripts")
    for each in unread:
        yield NotInspected(path=each.path, sentence=each.reason)
    for script in files.scripts:
        words = script.interpreter.split()
        if not words or words[0].startswith("python"):
            continue
        if script.interpreter.endswith("\r") and systems != {ANY_SYSTEM}:
            sentence = f"its first line ends in a carriage return: there is no {words[-1]}\\r"
            yield Problem(path=script.path, sentence=sentence, facts=(words[-1],))
        elif not _OF_SYSTEM.fullmatch(words[0]):
            sentence = f"is run by {words[0]}, which only the build machine has"
            yield Problem(path=script.path, sentence=sentence, facts=(words[0],))
        elif _PYTHON.fullmatch(words[0].rpartition("/")[2]):
            sentence = f"is run by the system's {words[0]}, not by the Python of the environment"
            yield Problem(
                path=script.path, sentence=sentence, facts=(words[0],), level=Level.WARNING
            )


# Stubs that are read at run time.


@check
def missing_stub_file(package: WheelLike, files: SmallFiles) -> Iterator[Finding]:
    """A module reads the ``.pyi`` file next to it when it is imported, and the package lacks it.

    ``lazy_loader.attach_stub(__name__, __file__)`` takes the names of a package from its stub.

    Why: the import ends with "Cannot load imports from non-existent stub".
    Fix: include ``*.pyi`` in the package's data, and do not strip it.
    Level: users cannot import the module. It is a warning in a folder of tests.
    """
    if not files.stub_readers:
        raise NotApplicable("no module that reads the .pyi file next to it")
    paths = {member.path for member in package.members}
    for path in files.stub_readers:
        stub = f"{path}i"
        if stub not in paths:
            names = (package.layout.inside(path) or path).split("/")
            level = Level.WARNING if is_for_tests(names) else Level.ERROR
            sentence = f"reads {stub.rpartition('/')[2]} when it is imported, which is not there"
            # import-fails names the file in the same words
            lacks = f"{'/'.join(names)}i is not in the wheel"
            yield Problem(path=path, sentence=sentence, level=level, cause=lacks)
