"""The nights of cells, as the pages of cells ask for them; states that this version knows."""

from __future__ import annotations

import pytest

from binary_checks.errors import StoreError
from binary_checks.fleet.page.night_reading import require_known_states
from fixtures.histories import add, fail, history, nights, update


def test_the_nights_of_a_cell_have_its_failure_and_the_sizes_of_its_parts() -> None:
    found = history({"a-1": "···-X"})
    for sha256, part in (("a-1-0", "native code"), ("a-1-1", "data"), ("another", "data")):
        add(found, "parts", night=nights(5)[0], sha256=sha256, part=part, size=5)
    fail(found, "a-1", found.night, "import-fails", said="fails too")
    fail(found, "a-1", found.night, "fine", outcome="passed")
    last, missing, *_, first = found.ask("history")
    assert (last["night"], last["state"], last["new_file"]) == (found.night, "failed", True)
    assert (last["check_id"], last["other_checks"]) == ("import-fails", 1)
    assert last["summary"] == "demo/a.so: fails too"
    assert {name: size for name, size in last["parts"].items() if size} == {"data": 5}
    assert (missing["check_id"], missing["new_file"]) == (None, False)
    assert first["parts"]["native code"] == 5


def test_the_cells_with_the_latest_trouble_come_first() -> None:
    found = history({"a-1": "···", "a-2": "·XX", "a-3": "··X", "a-4": "-X "})
    cells = ["a-3", "a-2", "a-1", "a-4"]  # the last one is no longer planned
    assert [*dict.fromkeys(row["cell"] for row in found.ask("history"))] == cells
    assert [row["cell"] for row in found.ask("tonight")] == cells[:3]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"state": "teleported"}, "a-1: state 'teleported': unknown to this version"),
        ({"night": None}, "unknown to this version"),
        ({"cell": None}, "unknown to this version"),
    ],
)
def test_a_row_with_an_unknown_state_or_without_a_night_or_a_cell_is_of_a_newer_version(
    values: dict[str, object], said: str
) -> None:
    found = history({"a-1": "·"})
    require_known_states(found.connection)
    update(found, **values)
    with pytest.raises(StoreError, match=said):
        require_known_states(found.connection)
