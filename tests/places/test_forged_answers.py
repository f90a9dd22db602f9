"""A package that answers in the probe's place is never green: the end must be the probe's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from binary_checks.errors import GatherError
from binary_checks.model import Code, CudaRequest, Ending, SnippetRequest, SnippetRun
from binary_checks.places.processes import Conversation
from binary_checks.places.running import run_probe
from binary_checks.probes.ask_module.reader import ask_without_gpu
from binary_checks.probes.import_name.reader import import_each
from binary_checks.probes.load_extensions.reader import load_each
from binary_checks.probes.run_snippet.reader import run_snippets
from fixtures.environments import (
    FilledPlace,
)
from fixtures.slow import slow

posix = pytest.mark.skipif(
    os.name != "posix", reason="Windows neither forks nor replaces a process"
)

FILES = """
import json, os, sys
answer = json.dumps({"state": "imported", "origin": "good.py", "extensions": [], "libraries": []})
for name in (*sys.argv[1:], "answer", "../answer"):
    try:
        open(name, "w").write(answer)
    except OSError:
        pass
os._exit(0)
"""
PROTOCOL = """
import os
answer = '{"state": "imported", "origin": "good.py", "extensions": [], "libraries": []}'
lines = ["over", "known " + answer, "answer 0 " + answer, "end 0", answer]
for fd in range(1, 64):
    for token in ("", "0 ", "probe "):
        for line in lines:
            try:
                os.write(fd, ("\\n" + token + line + "\\n").encode())
            except OSError:
                pass
os._exit(0)
"""
ENDS = {
    "writes_the_answer": FILES,
    "speaks_the_protocol": PROTOCOL,
    "leaves": "import os\nos._exit(0)\n",
    "exits": "import sys\nsys.exit(0)\n",
    "closes_all": "import os\nos.closerange(0, 4096)\n",
    "closes_all_and_leaves": "import os\nos.closerange(0, 4096)\nos._exit(0)\n",
}
POSIX_ENDS = {
    "becomes_true": "import os\nos.execv('/bin/sh', ['sh', '-c', 'true'])\n",
    "lets_the_child_go_on": "import os\nif os.fork():\n    os._exit(0)\n",
    "lets_the_child_answer": f"""
import os
if os.fork():
    os.wait()
    os._exit(0)
{PROTOCOL}""",
    "replaces_descriptors": "import os\nfor fd in range(3, 64):\n    os.dup2(2, fd)\n",
}
LATER = "import atexit, os, sys\natexit.register({}, 0)\n"
MODULES = {
    **ENDS,
    **POSIX_ENDS,
    "good": "",
    "exits_at_the_end": LATER.format("sys.exit"),
    "leaves_at_the_end": LATER.format("os._exit"),
    "prints": 'print(\'{"state": "raised"}\', flush=True)\n',
}


@pytest.mark.parametrize("name", [*ENDS, *(pytest.param(name, marks=posix) for name in POSIX_ENDS)])
def test_an_import_that_answers_or_ends_by_itself_has_not_succeeded(
    environment: FilledPlace, name: str
) -> None:
    (step,) = import_each(environment, (name,)).steps
    assert (step.outcome, step.finished, step.origin) == (Ending.EXITED, False, "")


def test_an_import_that_closes_the_descriptors_of_others_is_told(environment: FilledPlace) -> None:
    (step,) = import_each(environment, ("closes_all",)).steps
    assert step.detail == "it closed descriptors that it does not own"


def run_own(environment: FilledPlace, **code: str) -> tuple[SnippetRun, ...]:
    asked = SnippetRequest(code={name: Code(text) for name, text in code.items()})
    return run_snippets(environment, environment.wheel, asked).runs


@pytest.mark.parametrize("name", sorted({*ENDS} - {"closes_all"}))
def test_no_question_is_answered_by_a_package_and_no_snippet_ends_well_that_it_ends(
    environment: FilledPlace, name: str
) -> None:
    report = ask_without_gpu(environment, environment.wheel, CudaRequest(module=Code(name)))
    assert (report.step.outcome, report.answers) == (Ending.EXITED, ())
    (run,) = run_own(environment, it=f"import {name}")
    assert (run.step.outcome, run.step.finished) == (Ending.EXITED, False)


def test_a_snippet_may_end_itself(environment: FilledPlace) -> None:
    runs = run_own(
        environment,
        its_own="import sys\nsys.exit(0)",
        a_program="import runpy\nrunpy.run_module('exits', run_name='__main__')",
    )
    assert [run.step.outcome for run in runs] == [Ending.OK, Ending.OK]


def test_an_extension_whose_parent_leaves_is_not_loaded(environment: FilledPlace) -> None:
    suffix = environment.target.extension_suffixes[0]
    report = load_each(environment, (f"leaves/_x{suffix}",))
    assert all(step.outcome is not Ending.OK for step in report.steps)


def test_an_exit_that_is_ignored_at_the_end_of_the_interpreter_changes_nothing(
    environment: FilledPlace,
) -> None:
    (step,) = import_each(environment, ("exits_at_the_end",)).steps
    assert (step.outcome, step.finished) == (Ending.OK, False)


def test_an_import_that_ends_the_interpreter_early_and_well_ends_badly(
    environment: FilledPlace,
) -> None:
    """A program that imports it reports success whatever becomes of it."""
    (step,) = import_each(environment, ("leaves_at_the_end",)).steps
    assert (step.outcome, step.detail, step.finished) == (Ending.EXITED, "exit status 0", True)
    assert step.origin == "leaves_at_the_end.py"


def test_what_a_package_prints_is_no_answer(environment: FilledPlace) -> None:
    (step,) = import_each(environment, ("prints",)).steps
    assert (step.outcome, step.stderr) == (Ending.OK, "")


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.write(1, b'{}\\n' * 10000)",
        *slow(
            "print('hello', end='', flush=True)",
            "import sys; sys.stdout.write('x' * 20_000_000)",
        ),
    ],
)
def test_what_is_printed_as_the_interpreter_starts_does_not_disturb_the_probe(
    environment: FilledPlace, code: str
) -> None:
    """Lines of a .pth file that begin with import run before the probe does."""
    path = environment.site_packages / "noisy.pth"
    path.write_text(f"import sys; {code}\n")
    try:
        (step,) = import_each(environment, ("good",)).steps
    finally:
        path.unlink()
    assert (step.outcome, step.origin) == (Ending.OK, "good.py")


def test_an_interpreter_that_ends_as_it_starts_is_no_success(environment: FilledPlace) -> None:
    path = environment.site_packages / "leaves.pth"
    path.write_text("import os; os._exit(0)\n")
    try:
        with pytest.raises(GatherError, match="ended without an answer: exit status 0"):
            import_each(environment, ("good",))
    finally:
        path.unlink()


def test_two_conversations_share_no_secret() -> None:
    first, second = Conversation({}), Conversation({})
    secrets = {first._token, first._nonce, second._token, second._nonce}
    assert len(secrets) == 4
    assert {len(each) for each in secrets} == {32}


def test_a_request_larger_than_a_pipe_arrives(environment: FilledPlace) -> None:
    request = {"names": ["x" * 1000] * 1000}
    result = run_probe(Path(sys.executable), "list_folders", request, timeout=60)
    assert (result.outcome, result.answer["versions"]) == (Ending.OK, {})
