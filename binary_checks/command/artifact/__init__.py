"""``binary-checks artifact ACTION``: packages that a store keeps, and the channels they are in."""

from __future__ import annotations

from collections.abc import Mapping

from binary_checks.command.actions import ActionGroup

ACTIONS: Mapping[str, str] = {
    "push": "binary_checks.command.artifact.pushing_artifacts",
    "pull": "binary_checks.command.artifact.pulling_artifacts",
    "find": "binary_checks.command.artifact.finding_artifacts",
    "attest": "binary_checks.command.artifact.attesting_results",
    "promote": "binary_checks.command.artifact.promoting_artifacts",
    "withdraw": "binary_checks.command.artifact.withdrawing_artifacts",
    "index": "binary_checks.command.artifact.writing_indexes",
    "verify": "binary_checks.command.artifact.verifying_artifacts",
    "prune": "binary_checks.command.artifact.pruning_channels",
}
"""The modules, loaded when called, in which ``run(arguments)`` returns the exit status."""
_HELP = """\
usage: binary-checks artifact ACTION --store URL ...

Keep built packages and libraries by their bytes, and publish those that are fit to ship.

  push FILE...     store files, and add them to a channel: --channel test
  attest RESULT... store the verdicts of a run beside the packages; --key signs them
  find             list the packages that match: --where "variant=cu130 python=3.12"
  pull FOLDER      fetch packages with their licenses, dependencies and metadata
  promote NAME...  add packages to another channel, if its policy lets them through
  withdraw NAME... mark packages of a channel as not to be installed, with a reason
  index            write the index of a channel, from which pip, uv and conda install
  verify           check everything against its hashes, policies and signatures
  prune            show what a channel would lose by number and age; --do-it deletes it

The store is a folder or s3://bucket/prefix (gs://, az:// alike), that of the nights.
Exit code: 0 done, 1 refused, wrong or not found, 4 usage, 6 a store or network failed: try again.
`binary-checks artifact ACTION --help` has the options.
"""
run = ActionGroup(name="artifact", actions=ACTIONS, help=_HELP).run
