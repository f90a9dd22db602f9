"""``binary-checks hud`` writes a store's nights as pages, ``nightly summary`` one as a mail."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from binary_checks.command import SubcommandParser, guard, read_count
from binary_checks.errors import FIT, PROBLEMS, ProfileError
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import one_line

_HUD = (
    "Write the nights and the commits of a store as static pages for any browser, offline, without "
    "script."
)


def run_hud(arguments: Sequence[str]) -> int:
    """Write the site; return the exit status."""
    return guard(lambda: _write(_read_hud_options(arguments)), OSError)


def _read_hud_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks hud", description=_HUD)
    parser.add_argument("out", metavar="OUT", type=Path, help="a folder that only the site uses")
    parser.add_store()
    parser.add_argument(
        "--nights", metavar="N", type=read_count, default=30, help="nights shown (default: 30)"
    )
    parser.add_argument(
        "--commits", metavar="N", type=int, default=30, help="commits shown (default: 30; 0: none)"
    )
    parser.add_argument("--project", metavar="P", default="", help="only the cells of this project")
    parser.add_argument(
        "--base", metavar="URL", default="", help="the site's address, for the feed's links"
    )
    return parser.parse_args(arguments)


def _write(options: argparse.Namespace) -> int:
    if find_spec("jinja2") is None:
        raise ProfileError("hud: Jinja2 is not installed: `pip install 'binary-checks[fleet]'`")
    from binary_checks.fleet.page.commits import read_commits
    from binary_checks.fleet.page.evidence import EvidenceReader
    from binary_checks.fleet.page.night_reading import open_night
    from binary_checks.fleet.page.site import make_commit_site, make_site
    from binary_checks.fleet.page.site_folder import claim, write_site
    from binary_checks.fleet.store import open_store
    from binary_checks.fleet.stored_nights import closed_nights

    claim(options.out)  # first, so that a wrong folder is reported at once
    store = open_store(options.store)
    if options.commits > 0 and not closed_nights(store):
        commits = read_commits(store, None, shown=options.commits, project=options.project)
        if commits.commits:
            size = write_site(options.out, make_commit_site(commits))
            said = count(len(commits.commits), "commit")
            print(f"{options.out / 'index.html'}: {said}, no night, {size / 1e6:.1f} MB")
            return 0
    with open_night(options.store, nights=options.nights, project=options.project) as view:
        commits = read_commits(store, view, shown=options.commits, project=options.project)
        read = EvidenceReader(store, view.plan).read
        files = make_site(view, read, base=options.base, commits=commits)
        size = write_site(options.out, files)
    print(f"{options.out / 'index.html'}: night {view.night}, {size / 1e6:.1f} MB")
    return 0


_SUMMARY = "Print how a night ended, in about forty lines, or three if all is well."


def run_summary(arguments: Sequence[str]) -> int:
    """Print the summary; return 0 if every cell of the night is well, else 1."""
    from binary_checks.fleet.page.morning import read_morning, write_mail
    from binary_checks.fleet.page.night_reading import open_night

    options = _read_summary_options(arguments)
    with open_night(options.store, project=options.project, date=options.date) as view:
        morning = read_morning(view)
    sys.stdout.write(write_mail(morning, markdown=options.markdown))
    broken = (*morning.answers["newly-broken"], *morning.answers["still-broken"])
    cells = [cell for row in broken for cell in row["cells"]]
    cells += [row["cell"] for row in morning.answers["undecided"]]
    if cells:
        given = ("show", cells[0], "--date", morning.night, "--store", options.store)
        shown = one_line(shlex.join(("binary-checks", "nightly", *given)))
        print(f"\nMore: `{shown}`" if options.markdown else f"More: {shown}")
    return FIT if morning.is_well else PROBLEMS


def _read_summary_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks nightly summary", description=_SUMMARY)
    parser.add_store()
    parser.add_date()
    parser.add_argument(
        "--project", metavar="NAME", default="", help="only the cells of this project"
    )
    parser.add_argument("--markdown", action="store_true", help="for a chat or a pull request")
    return parser.parse_args(arguments)
