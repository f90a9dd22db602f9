"""Counts the files of a folder, in the target interpreter."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def probe(request: dict[str, Any], record: Any, _process: dict[str, Any]) -> None:
    record.finish({"files": len(os.listdir(request["folder"]))})
