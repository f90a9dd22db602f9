"""Whether the ``.pth`` files of a wheel lead to something that users have."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator

from packaging.utils import canonicalize_name

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.knowledge.standard_library import find_removed
from binary_checks.knowledge.tags import find_promised
from binary_checks.model import (
    Ending,
    Finding,
    ImportReport,
    Level,
    NotInspected,
    PathFile,
    PathFiles,
    Problem,
    WheelLike,
    read_requirement,
)
from binary_checks.safe_text import cut
from binary_checks.wording.problem_lines import EDITABLE

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
# setuptools: __editable___demo_finder; scikit-build-core: _editable_skbc_demo, before 1.0
# _demo_editable; meson-python: _demo_editable_loader; hatchling: _editable_impl_demo
_FINDER = re.compile(r"_\w*editable\w*")
_NEWEST = (3, 99)  # later than any Python that removed a module


@check
def editable_wheel(package: WheelLike, files: PathFiles) -> Iterator[Finding]:
    """A wheel is of an editable installation, whose modules stay on the machine that built it.

    Its ``.pth`` file adds an absolute folder to ``sys.path``, or imports the finder of setuptools,
    scikit-build-core, meson-python or hatchling (``__editable___demo_finder``).

    Why: users get a link to a folder that they do not have, and the import fails; where somebody
    else put files into that folder, these are imported.
    Fix: build with ``python -m build --wheel`` or ``pip wheel .``, and upload only that; empty
    ``dist/`` and ``build/`` before.
    Level: users cannot import the package.
    """
    del package
    yield from _list_unread(files)
    for file in files.files:
        if lead := _find_editable(file):
            sentence = f"is of an editable installation: {lead}"
            yield Problem(path=file.path, sentence=sentence, facts=("editable",), cause=EDITABLE)


def _find_editable(file: PathFile) -> str:
    for folder in file.folders:
        if _ABSOLUTE.match(folder):
            return f"it adds {cut(folder)} of the build machine to sys.path"
    for module in file.modules:
        if _FINDER.fullmatch(module):
            return f"it imports {module}, which looks for modules on the build machine"
    return ""


# Python 3.15 reports the second.
_ERROR_AT_START = re.compile(
    r"Error (?:processing line (\d+) of|in import line from) (?:.*[/\\])?([^/\\\n]+\.pth):"
)
_NO_START = "Failed to import the site module"  # with which Python ends
_EXCEPTION = re.compile(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)\b.*)$", re.MULTILINE)
_MOST_LINES = 20  # lines of stderr in a report: what Python printed at its start may be cut off
_STARTED = frozenset({Ending.OK, Ending.RAISED, Ending.LOADER_ERROR})


@check
def failing_path_file(
    package: WheelLike, files: PathFiles, imports: ImportReport | None
) -> Iterator[Finding]:
    """A ``.pth`` file has a line that fails at each start of Python, or prevents the start.

    If the package is imported in this run, the check reads what Python prints at its start.
    Otherwise it compiles each line of code, and follows what the line imports and calls. A module
    that a requirement may have, and code that cannot be followed, is then not inspected.

    Why: every start of Python in that environment prints "Error processing line 1 of ...", in all
    programs. A file that is not UTF-8, or a line that calls ``sys.exit``, even ends Python.
    Fix: include the module, or leave the ``.pth`` file out; name both in the build backend.
    Level: all programs of the environment print an error when they start, or do not start. A file
    that is not UTF-8 is a warning in a wheel for Windows, which may have the encoding of the file.
    """
    yield from _list_unread(files)
    steps = imports.steps if imports else ()
    started = any(
        step.outcome in _STARTED and step.stderr.count("\n") + 1 < _MOST_LINES for step in steps
    )
    for file in files.files:
        problem = next(filter(None, (_find_printed(file, step.stderr) for step in steps)), None)
        if problem is not None:
            yield problem
        elif not started:
            yield from _find_faults(file, package)
            yield from _find_absent(file, package)


def _find_printed(file: PathFile, text: str) -> Problem | None:
    """Return the problem that Python reported about a file, or about any path file as it ended."""
    name = file.path.rpartition("/")[2]
    reported = (match for match in _ERROR_AT_START.finditer(text) if match[2] == name)
    if match := next(reported, None):
        what = f"{f'line {match[1]}' if match[1] else 'a line'} fails at every start of Python"
    elif match := re.search(_NO_START, text):
        what = "with it, Python does not start"
    else:
        return None
    raised = _EXCEPTION.search(text, match.end())
    sentence = f"{what}: {cut(raised[1])}" if raised else what
    return Problem(path=file.path, sentence=sentence, facts=tuple(filter(None, match.groups()[:1])))


def _find_faults(file: PathFile, package: WheelLike) -> Iterator[Finding]:
    """Yield why Python reports an error, or does not start, whatever is installed.

    A Python that is newer than this one, or Python 2, may compile what this one does not.
    """
    oldest = min(find_promised(package), default=_NEWEST[1])
    is_sure = "does not compile" not in file.fault or oldest <= sys.version_info[1]
    if not file.is_utf_8:
        systems = {claim.system for claim in package.claims.systems}
        level = Level.WARNING if systems == {"windows"} else Level.ERROR
        sentence = "is not UTF-8: where the locale's encoding is UTF-8, no Python starts"
        yield Problem(path=file.path, sentence=sentence, level=level, facts=("UTF-8",))
    elif file.fault and is_sure:
        sentence = f"at every start of Python, {cut(file.fault, 300)}"
        yield Problem(path=file.path, sentence=sentence, facts=("start",))
    elif file.fault or file.unfollowed:
        sentence = f"may fail at every start of Python: {cut(file.fault or file.unfollowed, 300)}"
        yield NotInspected(path=file.path, sentence=sentence)


def _find_absent(file: PathFile, package: WheelLike) -> Iterator[Finding]:
    own = package.derive(ModuleFiles)
    required = [each for each in map(read_requirement, package.requires_dist) if each is not None]
    names = {canonicalize_name(each.name) for each in required}
    known = names | (sys.stdlib_module_names - own.roots)
    for module in (*file.modules, *file.chosen):
        below = (_name_below(folder, module) for folder in file.folders)
        if _is_known(module, known) or own.has(module) or any(map(own.has, below)):
            continue
        sentence = f"imports {cut(module)}, which is not in the wheel"
        if module not in file.modules:
            yield NotInspected(path=file.path, sentence=f"{sentence}, under a condition")
        elif names and module.partition(".")[0] not in own.roots:
            doubt = f"{sentence}; a requirement may have it"
            yield NotInspected(path=file.path, sentence=doubt)
        else:
            end = "every start of Python prints an error"
            yield Problem(path=file.path, sentence=f"{sentence}: {end}", facts=(module,))
        return


def _name_below(folder: str, module: str) -> str:
    """Return a module's name from site-packages if it is in a folder that is added to sys.path."""
    parts = (part for part in re.split(r"[/\\]", folder) if part not in {"", "."})
    return ".".join((*parts, module))


def _is_known(module: str, known: Collection[str]) -> bool:
    top = module.partition(".")[0]
    return top in known or canonicalize_name(top) in known or bool(find_removed(top, _NEWEST))


def _list_unread(files: PathFiles) -> Iterator[NotInspected]:
    """Yield the files that were not read. Raises NotApplicable if the wheel has no path file."""
    if not files.files and not files.unread:
        raise NotApplicable("no .pth file")
    for each in files.unread:
        yield NotInspected(path=each.path, sentence=each.reason)
