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

Keep a published list of known problems (--known-problems URL) short, owned and up to date.

  propose   print entries for the problems of a night; they expire in 14 days
  expire    print the list without entries that have expired or no longer match anything
  lint      report what is wrong with a list: no owner, no date, unknown checks, overlaps

Exit code: 0 done, 1 lint found faults, 4 usage or an unreadable list, 6 the store or a network
failed: try again.
`binary-checks known ACTION --help` has the options.
"""
run = ActionGroup(name="known", actions=ACTIONS, help=_HELP).run
