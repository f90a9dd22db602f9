"""``binary-checks known ACTION``: lists of known problems, as a project publishes them."""

from __future__ import annotations

from collections.abc import Mapping

from binary_checks.command.actions import ActionGroup

ACTIONS: Mapping[str, str] = {
    "propose": "binary_checks.command.known.proposing_known",
    "expire": "binary_checks.command.known.expiring_known",
    "lint": "binary_checks.command.known.linting_known",
}
"""The modules, loaded when called, in which ``run(arguments)`` returns the exit status."""
_HELP = """\
usage: binary-checks known ACTION ...

Keep a published list of known problems (--binary-known-problems URL) short, owned and up to date.

  propose   entries for what failed in a night, which expire in 14 days
  expire    the list without what has expired or matches nothing any more
  lint      what is wrong with a list: no owner, no date, unknown checks, overlaps

`binary-checks known ACTION --help` has the options.
"""
run = ActionGroup(name="known", actions=ACTIONS, help=_HELP).run
