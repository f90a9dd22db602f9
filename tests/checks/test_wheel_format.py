"""What WHEEL and the data folder tell installers to do, where these refuse or differ."""

from __future__ import annotations

from binary_checks.checks.metadata import (
    foreign_data_folder,
)
from binary_checks.model import Problem
from fixtures.values import member, wheel


def test_a_data_folder_of_another_version() -> None:
    package = wheel(members=[member("demo-0.9.data/purelib/demo.py"), member("demo/x.data")])
    assert list(foreign_data_folder(package)) == [
        Problem(
            path="demo-0.9.data",
            sentence="pip takes it for the wheel's demo-1.0.data, but other installers do not",
        )
    ]
    assert list(foreign_data_folder(wheel(members=[member("demo-1.0.data/data/a")]))) == []
