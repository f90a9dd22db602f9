"""Plans and attempts as documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from binary_checks.errors import RecordError
from binary_checks.fleet.night import Attempt, Cell, NightPlan, PlannedCell
from binary_checks.fleet.stored_nights import read_attempt, read_plan, write_attempt, write_plan
from binary_checks.model import CellState
from fixtures.fleet.short_results import fill_in

DOCS = Path(__file__).parents[2] / "docs"
RESULT = fill_in({"packages": [{"file_name": "a.whl", "entries": [{"reason": "\N{BULLET}"}]}]})
CELL = Cell(id="numpy-linux-3.12", project="numpy", system="linux", options=("-m", "not gpu"))
PLAN = NightPlan(
    night="2026-11-20",
    made="2026-11-20T02:00:00Z",
    cells_sha256="c" * 64,
    profiles={"torch": "d" * 64},
    cells=(
        PlannedCell(cell=CELL, file_name="numpy.whl", sha256="a" * 64, size=12),
        PlannedCell(cell=replace(CELL, id="other"), state=CellState.MISSING, reason="none"),
    ),
)
ATTEMPT = Attempt(
    night="2026-11-20",
    cell="numpy-linux-3.12",
    number=1,
    state=CellState.FAILED,
    started="2026-11-20T02:00:01Z",
    seconds=1.5,
    exit_status=1,
    sha256="a" * 64,
    command=("binary-checks", "numpy.whl"),
    result=RESULT,
)


def test_plans_and_attempts_are_read_as_they_were_written_with_their_results() -> None:
    plan = read_plan(write_plan(PLAN), "plan.json")
    assert (plan, write_plan(plan)) == (PLAN, write_plan(PLAN))
    without = replace(ATTEMPT, result=None, exit_status=None, signal=9, state=CellState.LOST)
    for attempt in (ATTEMPT, without):
        again = read_attempt(write_attempt(attempt), "a.json")
        assert (again, write_attempt(again)) == (attempt, write_attempt(attempt))


def test_both_are_what_their_schemas_say() -> None:
    result = Resource.from_contents({"$schema": "https://json-schema.org/draft/2020-12/schema"})
    known: Registry[Any] = Registry().with_resource("urn:binary-checks:result.schema.json", result)
    known = known.with_resource("result.schema.json", result)
    for name, document in (("plan", write_plan(PLAN)), ("attempt", write_attempt(ATTEMPT))):
        schema = json.loads((DOCS / f"{name}.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        schema.pop("$id")
        jsonschema.Draft202012Validator(schema, registry=known).validate(json.loads(document))


@pytest.mark.parametrize("read", [read_plan, read_attempt])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"schema": "binary-che', "not JSON"),
        (b"\xff\xfe", "not ASCII at byte 0x0"),
        (b"[]", "not a document binary-checks/"),
        (b'{"schema": "binary-checks/facts/1"}', "its schema is 'binary-checks/facts/1', not"),
    ],
)
def test_what_is_cut_or_something_else_is_refused_in_one_line(
    read: Callable[[bytes, str], object], content: bytes, reason: str
) -> None:
    with pytest.raises(RecordError, match=f"night=x/y.json: .*{reason}") as raised:
        read(content, "night=x/y.json")
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"state": "fine"}, 'state: "fine" is not one of'),
        ({"state": None}, "state: "),
        ({"night": "2026-13-01"}, "night: '2026-13-01' is not a date"),
        ({"night": "20261101"}, "night: '20261101' is not a date"),
        ({"sha256": "../../x"}, "sha256: not a digest of 64"),
        ({"facts": "A" * 64}, "facts: not a digest of 64"),
        ({"number": 0}, "not a stage and number of an attempt"),
        ({"stage": "tpu"}, "not a stage and number of an attempt"),
        ({"peak_memory": -1}, "peak_memory: less than 0"),
        ({"seconds": "1"}, 'seconds: "1" is not a number'),
        ({"surprise": 1}, 'unknown field "surprise"'),
        ({"result": []}, r"\$\.result: not a result document"),
        ({"result": {"schema": "binary-checks/result/9"}}, r"\$\.result: its schema is"),
        ({"result": {"schema": "binary-checks/result/1"}}, r"\$\.result: no field 'exit_code'"),
    ],
)
def test_what_no_attempt_says_is_refused(changed: dict[str, Any], reason: str) -> None:
    row = {**json.loads(write_attempt(ATTEMPT)), **changed}
    with pytest.raises(RecordError, match=reason):
        read_attempt(json.dumps(row).encode(), "a.json")


def change_id(name: str) -> NightPlan:
    return replace(PLAN, cells=(replace(PLAN.cells[0], cell=replace(CELL, id=name)),))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        *(
            (replace(PLAN, profiles={path: "d" * 64}), "is not a relative path below a folder")
            for path in ("../x.toml", "/etc/x.toml", "a//x", "C:x", "a\\b", "", "a/./b")
        ),
        *(
            (change_id(name), "is not a valid cell id")
            for name in ("../x", "a/b", "", ".x", "a b", "a\x1b[31m")
        ),
        (
            replace(PLAN, cells=(PLAN.cells[0], PLAN.cells[0])),
            r"cells: 'numpy-linux-3\.12' is listed twice",
        ),
    ],
)
def test_a_plan_names_no_file_elsewhere_and_each_cell_once(plan: NightPlan, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        read_plan(write_plan(plan), "plan.json")


def test_a_document_without_end_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(RecordError, match="larger than 67108864 bytes"):
        read_attempt(b" " * ((64 << 20) + 1), "it")
