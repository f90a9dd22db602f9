"""Subcommands of several actions, such as `binary-checks nightly collect`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name

from binary_checks.command import MISUSED, complain, guard, suggest


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionGroup:
    """A subcommand of several actions, whose functions are loaded when called."""

    name: str
    actions: Mapping[str, str]
    help: str

    def run(self, arguments: Sequence[str]) -> int:
        """Run the action; return the exit status."""
        if not arguments or arguments[0] not in self.actions:
            return self._answer(arguments)
        action: Callable[[Sequence[str]], int] = resolve_name(self.actions[arguments[0]])
        return guard(lambda: action(arguments[1:]), OSError)

    def _answer(self, arguments: Sequence[str]) -> int:
        """Print the help, or refuse an unknown action."""
        if arguments and arguments[0] in ("-h", "--help"):
            print(self.help, end="")
            return 0
        known = ", ".join(self.actions)
        hint = suggest(arguments[0], self.actions) if arguments else ""
        named = f"{arguments[0]}: not an action{hint}" if arguments else "no action"
        complain(f"{self.name}: {named} (known: {known})")
        return MISUSED


ARTIFACT = ActionGroup(
    name="artifact",
    actions={
        "push": "binary_checks.command.artifact_files:run_push",
        "pull": "binary_checks.command.artifact_files:run_pull",
        "find": "binary_checks.command.artifact_files:run_find",
        "attest": "binary_checks.command.artifact_channels:run_attest",
        "promote": "binary_checks.command.artifact_channels:run_promote",
        "withdraw": "binary_checks.command.artifact_channels:run_withdraw",
        "restore": "binary_checks.command.artifact_files:run_restore",
        "index": "binary_checks.command.artifact_channels:run_index",
        "verify": "binary_checks.command.artifact_channels:run_verify",
        "prune": "binary_checks.command.pruning:run_prune_channels",
    },
    help="""\
usage: binary-checks artifact ACTION --store URL ...

Keep built packages and libraries by their bytes, and publish those that are fit to ship.

  push FILE...     store files, and add them to a channel: --channel test
  attest RESULT... store the verdicts of a run next to the packages; --key signs them
  find             list the packages that match: --where "variant=cu130 python=3.12"
  pull FOLDER      fetch packages with their licenses, dependencies and metadata
  promote NAME...  add packages to another channel, if its policy accepts them
  withdraw NAME... mark packages of a channel as not to be installed, with a reason
  restore          bring stored packages back into a channel: --to test --version 2.15.0
  index            write the index of a channel, from which pip, uv and conda install
  verify           check everything against its hashes, policies and signatures
  prune            show old members that a channel would lose; --do-it deletes them

The store is a folder or s3://bucket/prefix (or gs://, az://); nights can use it, too.
Exit code: 0 done, 1 refused, wrong or not found, 4 usage, 6 a store or network failed: try again.
`binary-checks artifact ACTION --help` has the options.
""",
)


CI = ActionGroup(
    name="ci",
    actions={
        "write": "binary_checks.command.ci:run_write",
        "check": "binary_checks.command.ci:run_check",
        "stage": "binary_checks.command.ci:run_stage",
    },
    help="""\
usage: binary-checks ci ACTION [CELLS.toml] ...

Run a matrix (cells.toml) in CI. A change of its cells does not change the CI files.

  write   write them: GitHub Actions, CircleCI, tox, docs
  check   show how the files differ from the output of write
  stage   build, test or publish one cell: the command of a job, also on your machine

Exit code: 0 done, 1 a file differs, 4 usage or an unusable matrix, 6 a disk failed: try again.
`binary-checks ci ACTION --help` has the options; `binary-checks cells` lists the matrix.
""",
)


KNOWN = ActionGroup(
    name="known",
    actions={
        "expire": "binary_checks.command.known:run_expire",
        "lint": "binary_checks.command.known:run_lint",
    },
    help="""\
usage: binary-checks known ACTION ...

Keep a published list of known problems (--known-problems URL) short, owned and up to date.

  expire    print the list without entries that have expired or no longer match anything
  lint      report what is wrong with a list: no owner, no date, unknown checks, overlaps

Exit code: 0 done, 1 lint found faults, 4 usage or an unreadable list, 6 the store or a network
failed: try again.
`binary-checks known ACTION --help` has the options.
""",
)


NIGHTLY = ActionGroup(
    name="nightly",
    actions={
        "run": "binary_checks.command.nightly_running:run_night",
        "collect": "binary_checks.command.nightly_running:run_collect",
        "show": "binary_checks.command.nightly_showing:run_show",
        "rerun": "binary_checks.command.nightly_running:run_rerun",
        "summary": "binary_checks.command.hud:run_summary",
        "prune": "binary_checks.command.pruning:run_prune_nights",
    },
    help="""\
usage: binary-checks nightly ACTION --store URL ...

Judge every cell of a matrix (cells.toml) once a day, and keep the results in a store.

  run [CELLS.toml]   plan a night, or continue it, and run the cells that have no result yet
  collect            make the night's tables, and close it
  summary            how the night ended, for a mail
  show CELL          how a cell ended, why, and the command that runs it again
  rerun CELL         judge on this host the same bytes as the night
  prune              show what retention would delete; --do-it deletes it

The store is a folder or s3://bucket/prefix (or gs://, az://).
`binary-checks nightly ACTION --help` has the options;
`binary-checks cells` lists the matrix, hud writes the page, query answers questions.
""",
)
