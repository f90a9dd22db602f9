"""Commands of several actions, as `binary-checks nightly collect` is: a module for each action."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from binary_checks.command import MISUSED, complain, guard, suggest


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionGroup:
    """A subcommand, and the modules, loaded when called, in which ``run(arguments)`` ends it."""

    name: str
    actions: Mapping[str, str]
    help: str

    def run(self, arguments: Sequence[str]) -> int:
        """Do what is asked; returns the exit status."""
        if not arguments or arguments[0] not in self.actions:
            return self._answer(arguments)
        action: Callable[[Sequence[str]], int] = import_module(self.actions[arguments[0]]).run
        return guard(lambda: action(arguments[1:]), OSError)

    def _answer(self, arguments: Sequence[str]) -> int:
        """Print the help, or refuse an action that there is not."""
        if arguments and arguments[0] in ("-h", "--help"):
            print(self.help, end="")
            return 0
        known = ", ".join(self.actions)
        hint = suggest(arguments[0], self.actions) if arguments else ""
        named = f"{arguments[0]}: not an action{hint}" if arguments else "no action"
        complain(f"{self.name}: {named} (known: {known})")
        return MISUSED
