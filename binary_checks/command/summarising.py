"""``binary-checks nightly summary``: a night in the lines that one reads at breakfast."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from binary_checks.command import SubcommandParser
from binary_checks.errors import FIT, PROBLEMS

_PURPOSE = "Say in some forty lines how a night ended, and in three where all is well."


def run(arguments: Sequence[str]) -> int:
    """Print it; returns 0 for a night that is well, else 1."""
    from binary_checks.fleet.page.morning import look_back, write_mail
    from binary_checks.fleet.page.night_reading import read_night

    options = _read_options(arguments)
    view = read_night(options.store, project=options.project, date=options.date)
    morning = look_back(view.history, view.remarks)
    lines = write_mail(morning, markdown=options.markdown)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return FIT if morning.is_well else PROBLEMS


def _read_options(arguments: Sequence[str]) -> Namespace:
    parser = SubcommandParser(prog="binary-checks nightly summary", description=_PURPOSE)
    parser.add_store()
    parser.add_date()
    parser.add_argument(
        "--project", metavar="NAME", default="", help="only the cells of this project"
    )
    parser.add_argument("--markdown", action="store_true", help="for a chat or a pull request")
    return parser.parse_args(arguments)
