"""How many files lie where a box was unpacked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from binary_checks.declaring import gathers
from binary_checks.model import Place, ProbeReport
from tests.extensions.box_place import BoxPlace
from tests.extensions.toy_kind import Toy

SCRIPT = Path(__file__).with_name("script.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight(ProbeReport):
    """What the script counted."""

    files: int


@gathers(Weight)
def weigh(place: Place, package: Toy) -> Weight:
    assert isinstance(place, BoxPlace)
    place.require_installed(package)
    answer = place.run(SCRIPT, {"folder": str(place.folder)})
    return Weight(python=place.target.name, files=int(answer.answer["files"]))
