"""What `artifact find --json` prints: artifacts as the store has them, with their channels."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from binary_checks.documents.encoding import dump, dump_rows
from binary_checks.documents.json_schema import DIALECT
from binary_checks.fleet.artifacts.artifact_records import describe_artifacts, write_artifact
from binary_checks.fleet.artifacts.matching import FoundArtifact
from binary_checks.model.outcomes import LABELS

FOUND_SCHEMA = "binary-checks/found-artifacts/1"


def write_found(found: Iterable[FoundArtifact]) -> str:
    """The document, an artifact a line."""
    rows = [
        {
            "channels": list(each.channels),
            "artifact": json.loads(write_artifact(each.artifact)),
            **({"verdict": each.verdict} if each.verdict else {}),
        }
        for each in found
    ]
    return f'{{"schema": {dump(FOUND_SCHEMA)}, "artifacts": [{"".join(dump_rows(rows))}]}}\n'


def describe_found() -> dict[str, Any]:
    """The JSON Schema of that document."""
    row = {
        "type": "object",
        "required": ["artifact", "channels"],
        "additionalProperties": False,
        "properties": {
            "artifact": describe_artifacts(),
            "channels": {"type": "array", "items": {"type": "string"}},
            "verdict": {"enum": [*LABELS]},  # where it was asked for
        },
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:{FOUND_SCHEMA.replace('/', ':')}",
        "title": FOUND_SCHEMA,
        "type": "object",
        "required": ["artifacts", "schema"],
        "additionalProperties": False,
        "properties": {
            "schema": {"const": FOUND_SCHEMA},
            "artifacts": {"type": "array", "items": row},
        },
    }
