"""Run the tests that a conda package contains, each in a separate process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import (
    CondaPackage,
    EmbeddedTestReport,
    Place,
    SnippetRun,
    Source,
)
from binary_checks.probes.run_snippet.reader import run_code
from binary_checks.probes.shared_time import SharedTime


@gathers(EmbeddedTestReport)
def run_embedded_tests(place: Place, package: CondaPackage, source: Source) -> EmbeddedTestReport:
    """Run every test; a test with its own requirements runs in a separate prefix.

    Raises NotApplicable if the package contains no tests, Unavailable if it could not be installed.
    """
    tests = find_tests(_read(source))
    if not tests:
        raise NotApplicable("the package contains no tests")
    place.require_installed(package)
    runs: list[SnippetRun] = []
    untried = [(test.name, test.untried) for test in tests if test.untried]
    left = SharedTime(place.timeout)
    for test in tests:
        if not test.untried and left.spent:
            untried.append((test.name, left.spent))
        elif not test.untried:
            try:
                with ExitStack() as separate:
                    own = place
                    if test.requires:
                        own = separate.enter_context(place.with_requirements(test.requires))
                        own.require_installed(package)
                    runs.append(run_code(own, test.name, test.code))
            except Unavailable as error:
                untried.append((test.name, str(error)))
    return EmbeddedTestReport(
        python=place.target.name, runs=tuple(runs), untried=tuple(sorted(untried))
    )


def _read(source: Source) -> dict[str, bytes]:
    """Return the files with tests, by their names in the archive."""
    with closing(source.open()) as tree:
        wanted = [
            entry
            for entry in tree.entries()
            if (entry.name.startswith(FOLDER) or entry.name == LIST)
            and not entry.faults
            and entry.size
        ]
        return {entry.name: b"".join(pieces) for entry, pieces in tree.contents(wanted)}


# Tests in a conda package, as conda-build and rattler-build write them.
#
# conda-build writes the ``test`` section of a recipe to ``info/test``: ``run_test.py`` (imports and
# a script), ``run_test.sh`` (commands) and ``test_time_dependencies.json``; other files in this
# folder are input of the tests. rattler-build writes a list to ``info/tests/tests.yaml``.

FOLDER = "info/test/"
LIST = "info/tests/tests.yaml"
_NEEDS = "test_time_dependencies.json"
# scripts for interpreters that this probe does not run
_OTHERS = (".pl", ".r", ".R", ".lua", ".bat")


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedTest:
    """One test, as a Python program."""

    name: str  # "run_test.sh", "tests.yaml[0] script"
    code: str = ""
    requires: tuple[str, ...] = ()  # match specifications, in addition to the package itself
    untried: str = ""  # why the test is not run


def find_tests(contents: Mapping[str, bytes]) -> tuple[EmbeddedTest, ...]:
    """Return the tests in a package's files in ``info``."""
    inside = {
        path.removeprefix(FOLDER): data
        for path, data in contents.items()
        if path.startswith(FOLDER)
    }
    return (*_find_old(inside), *_find_listed(contents.get(LIST)))


def _find_old(inside: Mapping[str, bytes]) -> Iterator[EmbeddedTest]:
    requires = _read_needs(inside.get(_NEEDS))
    prelude = _write_files({path: data for path, data in inside.items() if path != _NEEDS})
    for name in sorted(inside):
        if name == "run_test.py":
            run = f"exec(compile(open({name!r}, 'rb').read(), {name!r}, 'exec'), globals())\n"
            yield EmbeddedTest(name=name, code=prelude + run, requires=requires)
        elif name == "run_test.sh":
            yield EmbeddedTest(name=name, code=prelude + _run_shell(name), requires=requires)
        elif name.startswith("run_test") and name.endswith(_OTHERS):
            yield EmbeddedTest(name=name, untried="only Python and shell scripts are run")


def _read_needs(text: bytes | None) -> tuple[str, ...]:
    try:
        stated = json.loads(text or b"[]")
    except (ValueError, RecursionError):
        return ()
    return (
        tuple(each for each in stated if isinstance(each, str)) if isinstance(stated, list) else ()
    )


def _find_listed(text: bytes | None) -> Iterator[EmbeddedTest]:
    if text is None:
        return
    try:
        listed = _load_yaml(text)
    except Unavailable as error:
        yield EmbeddedTest(name="tests.yaml", untried=str(error))
        return
    for number, each in enumerate(listed if isinstance(listed, list) else ()):
        for kind, stated in each.items() if isinstance(each, dict) else ():
            name = f"tests.yaml[{number}] {kind}"
            if kind == "python" and isinstance(stated, dict):
                yield EmbeddedTest(name=name, code=_import_all(stated.get("imports")))
            elif kind == "script":
                yield _read_script(name, stated, each)
            elif kind not in {"requirements", "files"}:
                yield EmbeddedTest(name=name, untried=f"tests of the kind {kind} are not run")


def _load_yaml(text: bytes) -> Any:
    try:
        library: Any = import_module("yaml")
    except ImportError:
        raise Unavailable("it needs PyYAML: install binary-checks[conda]") from None
    try:
        return library.safe_load(text)
    except (library.YAMLError, ValueError, RecursionError) as error:
        raise Unavailable(f"it cannot be read: {error}") from None


def _import_all(names: object) -> str:
    listed = [names] if isinstance(names, str) else names if isinstance(names, list) else []
    return "".join(f"__import__({str(name)!r})\n" for name in listed) or "pass\n"


def _read_script(name: str, stated: object, test: Mapping[str, Any]) -> EmbeddedTest:
    """Read a list of commands, or a table that may name another interpreter."""
    content = stated.get("content") if isinstance(stated, dict) else stated
    interpreter = stated.get("interpreter", "bash") if isinstance(stated, dict) else "bash"
    lines = content.splitlines() if isinstance(content, str) else content
    needs = test.get("requirements")
    run = needs.get("run", []) if isinstance(needs, dict) else []
    if interpreter not in {"bash", "sh"} or not isinstance(lines, list) or test.get("files"):
        return EmbeddedTest(name=name, untried="only shell scripts without files are run")
    script = {"script.sh": "\n".join(map(str, lines)).encode()}
    return EmbeddedTest(
        name=name,
        code=_write_files(script) + _run_shell("script.sh"),
        requires=tuple(map(str, run)) if isinstance(run, list) else (),
    )


def _write_files(files: Mapping[str, bytes]) -> str:
    """Return code that writes files to its working folder, which is empty."""
    held = {path: data.hex() for path, data in files.items() if ".." not in path.split("/")}
    return (
        "import os\n"
        f"for path, data in {held!r}.items():\n"
        "    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)\n"
        "    with open(path, 'wb') as file:\n"
        "        file.write(bytes.fromhex(data))\n"
    )


def _run_shell(name: str) -> str:
    return (
        "import subprocess\n"
        f"done = subprocess.run(['bash', '-e', {name!r}], stdin=subprocess.DEVNULL,\n"
        "    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')\n"
        "if done.returncode:\n"
        "    lines = [line for line in done.stdout.splitlines() if line.strip()]\n"
        "    last = lines[-1].strip() if lines else 'it says nothing'\n"
        "    raise RuntimeError('exit status %d: %s' % (done.returncode, last[:300]))\n"
    )
