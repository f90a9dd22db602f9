"""Series of libraries that their developers no longer support."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

from binary_checks.profile import read_toml

_TABLE = Path(__file__).with_name("ended_series.toml")


@cache
def read_ended_series() -> Mapping[str, Mapping[str, date]]:
    """Map libraries to their ended series, each with the last day on which it was supported."""
    return {row["name"]: row["series"] for row in read_toml(_TABLE, _TABLE.name)["library"]}


def find_end(library: str, version: str) -> date | None:
    """Return the last day of support for a version; None if it may still be supported."""
    numbers = re.findall(r"\d+", version)
    series = (".".join(numbers[:count]) for count in (3, 2))  # OpenSSL 1.1.1w, but OpenSSL 3.0.2
    ended = read_ended_series()[library]
    return next((ended[each] for each in series if each in ended), None)
