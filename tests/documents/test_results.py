"""A result document follows its schema, and is read back as the run that was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from binary_checks.documents.result import describe_results, read_results, write_results
from binary_checks.errors import ProfileError
from binary_checks.model import (
    Accepted,
    CheckText,
    Entry,
    Level,
    Note,
    NotInspected,
    Outcome,
    Problem,
    RunResult,
)
from fixtures.runs import PROFILE, package_result

OPT = Problem(path="demo/a.so", sentence="search path /opt/lib")
MILD = Problem(sentence="unusual", level=Level.WARNING)
RUN = RunResult(
    exit_code=1,
    profile=PROFILE,
    versions={"python": "3.12.1", "binary_checks": "1.2"},
    complaints=("other.whl: nothing was verified",),
    checks=(CheckText(id="c", family="linkage", title="T.", why="it is", fix="mend it"),),
    packages=(
        package_result(
            "dist/demo-1.0.whl",
            Entry(
                check="c",
                family="linkage",
                outcome=Outcome.FAILED,
                inspected=3,
                problems=(OPT,),
                warnings=(MILD,),
                accepted=(Accepted(problem=OPT, reason="issue 7"),),
                not_inspected=(NotInspected(sentence="no light"),),
                notes=(Note(path="demo/b.so", sentence="is chatty"),),
                seconds=0.25,
            ),
            Entry(
                check="d", family="x", outcome=Outcome.ERROR, level=Level.WARNING, reason="no net"
            ),
            name="demo",
            version="1.0",
            size=9,
            sha256="ab" * 32,
            objects=3,
        ),
        package_result("dist/other.whl"),
    ),
)


def written(run: RunResult) -> str:
    return "".join(write_results(run))


def read(folder: Path, text: str) -> RunResult:
    path = folder / "result.json"
    path.write_text(text, encoding="utf-8")
    return read_results(path)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ProfileError) as error:
        read(folder, text)
    return str(error.value)


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(written(RUN)), **changes})


def validate(text: str) -> None:
    jsonschema.Draft202012Validator(describe_results()).validate(json.loads(text))


def test_what_was_written_is_read_as_it_was_in_another_layout_too(tmp_path: Path) -> None:
    assert read(tmp_path, written(RUN)) == RUN
    assert read(tmp_path, json.dumps(json.loads(written(RUN)), indent=4)) == RUN


def test_the_document_is_what_its_schema_says_and_nothing_else_is() -> None:
    jsonschema.Draft202012Validator.check_schema(describe_results())
    validate(written(RUN))
    validate(written(RunResult(exit_code=0, profile=PROFILE)))
    for wrong in (changed(exit_code="1"), changed(novelty=1), changed(schema="another/1"), "{}"):
        with pytest.raises(jsonschema.ValidationError):
            validate(wrong)


def test_an_entry_takes_a_line_and_a_package_has_its_verdict_in_one_word() -> None:
    (line,) = (line for line in written(RUN).splitlines() if '"check": "c"' in line)
    assert json.loads(line.removesuffix(",")) == {
        "check": "c",
        "family": "linkage",
        "outcome": "failed",
        "inspected": 3,
        "problems": [{"path": "demo/a.so", "sentence": "search path /opt/lib"}],
        "warnings": [{"sentence": "unusual", "level": "warning"}],
        "accepted": [
            {
                "problem": {"path": "demo/a.so", "sentence": "search path /opt/lib"},
                "reason": "issue 7",
            }
        ],
        "not_inspected": [{"sentence": "no light"}],
        "notes": [{"path": "demo/b.so", "sentence": "is chatty"}],
        "seconds": 0.25,
    }
    verdicts = [package["verdict"] for package in json.loads(written(RUN))["packages"]]
    assert verdicts == ["failed", "not judged"]


def test_the_document_is_ascii_and_commands_no_build(tmp_path: Path) -> None:
    evil = Problem(path="\x1b[31m", sentence="::error::##vso[x] \u202e")
    entry = Entry(check="c", family="f", outcome=Outcome.FAILED, problems=(evil,))
    run = RunResult(exit_code=1, profile=PROFILE, packages=(package_result("x.whl", entry),))
    text = written(run)
    assert text.isascii()
    assert "::error" not in text
    assert "\x1b" not in text
    assert read(tmp_path, text) == run


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "not a result document"),
        (changed(schema="binary-checks/result/2"), "its schema is 'binary-checks/result/2', not"),
        (changed(novelty=1), 'unknown field "novelty"'),
        (changed(exit_code=7), "exit_code: 7 is not a number from 0 to 6"),
        (changed(exit_code=True), "exit_code: true is not a 64-bit integer"),
        (changed(packages=[{}]), "$.packages[0]: no field 'node'"),
        (changed(complaints=[1]), "$.complaints[0]: 1 is not a string"),
        (changed(versions=[]), "versions: list is not an object"),
        (written(RUN)[:-3], "not JSON"),
        (
            written(RUN).replace('"outcome": "failed"', '"outcome": "green"'),
            '"green" is not one of',
        ),
        (
            written(RUN).replace('"verdict": "failed"', '"verdict": "passed"'),
            "$.packages[0].verdict: 'passed', but its entries add up to 'failed'",
        ),
        (
            written(RUN).replace('"outcome": "failed"', '"outcome": "not judged"'),
            "outcome: 'not judged' is not an outcome of a check",
        ),
        (
            written(RUN).replace('"seconds": 0.25', '"seconds": 1e999'),
            "$.packages[0].entries[0].seconds: Infinity is not a number",
        ),
    ],
)
def test_what_is_not_as_it_was_written_is_refused_in_one_line(
    tmp_path: Path, text: str, reason: str
) -> None:
    line = refusal(tmp_path, text)
    assert line.startswith("result.json: ")
    assert reason in line
    assert "\n" not in line
