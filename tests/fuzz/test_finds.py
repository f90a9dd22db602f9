"""What fuzzing found, and what has been mended since: every find that is kept stays red."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fixtures.fuzz.finds import KEPT, read, rebuild
from fixtures.fuzz.targets import TARGETS, list_seeds

BY_NAME = {target.name: target for target in TARGETS}
FINDS = [(path.stem, find) for path in sorted(KEPT.glob("*.jsonl")) for find in read(path)]


@pytest.mark.parametrize(
    ("name", "find"), FINDS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_was_found_is_red(name: str, find: Mapping[str, Any], tmp_path: Path) -> None:
    target = BY_NAME[name]
    (seed,) = (each for each in list_seeds(target, None) if each.name == find["seed"])
    content = rebuild(find, seed.content)
    assert content != seed.content
    said = f"{find['fields']}: {find['said']}"
    assert target.find_problems(seed, content, tmp_path), said
