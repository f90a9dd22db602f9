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

  push FILE...     keep files, and put them into a channel: --channel test
  attest RESULT... keep what a run found of packages that are kept; --key signs it
  find             which packages are kept: --where "variant=cu130 python=3.12"
  pull FOLDER      fetch them, with licenses, dependencies and what is known of them
  promote NAME...  put packages into another channel, if its policy lets them through
  withdraw NAME... have a channel advise against packages, and say why
  index            write the index of a channel, from which pip, uv and conda install
  verify           hold everything against its hashes, policies and signatures
  prune            which members of a channel would go by number and age; --do-it deletes them

The store is a folder or s3://bucket/prefix, the same as that of `binary-checks nightly`.
`binary-checks artifact ACTION --help` has the options.
"""
run = ActionGroup(name="artifact", actions=ACTIONS, help=_HELP).run
