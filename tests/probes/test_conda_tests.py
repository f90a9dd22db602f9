"""The tests that conda packages carry are found, whichever tool put them there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.probes.conda_tests import EmbeddedTest, find_tests


def find(**contents: str) -> dict[str, EmbeddedTest]:
    names = {"py": "run_test.py", "sh": "run_test.sh", "needs": "test_time_dependencies.json"}
    files = {f"info/test/{names.get(key, key)}": text.encode() for key, text in contents.items()}
    return {test.name: test for test in find_tests(files)}


def listed(text: str) -> list[EmbeddedTest]:
    return list(find_tests({"info/tests/tests.yaml": text.encode()}))


def run(test: EmbeddedTest, folder: Path) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-I", "-c", test.code)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name != "posix", reason="there is no sh")
def test_scripts_of_conda_build_run_beside_their_files(tmp_path: Path) -> None:
    tests = find(py="print(open('data.txt').read())\n", sh="cat data.txt", **{"data.txt": "42"})
    assert tests.keys() == {"run_test.py", "run_test.sh"}
    done = run(tests["run_test.py"], tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "42")
    assert run(tests["run_test.sh"], tmp_path).returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="there is no sh")
def test_a_command_that_fails_ends_the_script_with_its_last_line(tmp_path: Path) -> None:
    (test,) = find(sh="echo first\nfalse\necho never\n").values()
    assert "RuntimeError: exit status 1: first" in run(test, tmp_path).stderr


def test_what_tests_require_is_said_of_each() -> None:
    tests = find(py="", sh="true", needs='["pytest >=7", "scipy"]')
    assert {test.requires for test in tests.values()} == {("pytest >=7", "scipy")}
    assert find(py="", needs="{")["run_test.py"].requires == ()


def test_scripts_of_other_interpreters_are_not_run() -> None:
    (test,) = find(**{"run_test.pl": "1;"}).values()
    assert test.untried == "only Python and shell scripts are run"
    assert find_tests({}) == find_tests({"info/test/data.txt": b""}) == ()


@pytest.mark.skipif(os.name != "posix", reason="there is no sh")
def test_tests_of_rattler_build_are_a_list(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="no PyYAML")
    text = """
- python:
    imports: [json, xml.dom]
- script: [echo hello, 'test 1 = 1']
  requirements: {run: [pip]}
- package_contents: {files: [x]}
- script: {interpreter: ruby, content: puts 1}
"""
    imports, script, contents, ruby = listed(text)
    assert (imports.name, script.name) == ("tests.yaml[0] python", "tests.yaml[1] script")
    assert run(imports, tmp_path).returncode == run(script, tmp_path).returncode == 0
    assert script.requires == ("pip",)
    assert contents.untried == "tests of the kind package_contents are not run"
    assert ruby.untried == "only shell scripts without files are run"


@pytest.mark.parametrize("text", ["[", "- &a [*a, *a]\n- {x: [", "\0", "!!python/name:os.system"])
def test_a_list_that_cannot_be_read_is_not_run(text: str) -> None:
    pytest.importorskip("yaml", reason="no PyYAML")
    (test,) = listed(text)
    assert test.untried.startswith("it cannot be read: ")
