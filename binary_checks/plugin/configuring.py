"""What the user and the CI system's variables say of the packages of a run: read here, once.

Nothing else looks at these variables. Which of them were read stands above the verdicts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import pytest

from binary_checks.errors import ProfileError
from binary_checks.knowledge.configurations import VariableReading, read_given, read_variables
from binary_checks.model.binary_configuration import StatedConfiguration
from binary_checks.plugin.failures import misused

_AUTO, _ALWAYS, _OFF = "auto", "variables", "off"
_CI = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "TF_BUILD", "JENKINS_URL", "BUILDKITE")
"""Variables by which CI systems say that a job runs under them."""
_DENIALS = ("", "0", "false", "no")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadConfiguration:
    """What is stated of the packages of a run, and which variables that was read from."""

    stated: StatedConfiguration = field(default_factory=StatedConfiguration)
    variables: tuple[str, ...] = ()  # "DESIRED_CUDA=cu126"
    misunderstood: tuple[str, ...] = ()  # likewise

    def describe(self) -> Iterator[str]:
        """The lines that stand above the verdicts; none where no variable was read."""
        hint = "(--binary-configuration off leaves variables alone)"
        if self.variables:
            yield f"configuration: read from the environment: {', '.join(self.variables)} {hint}"
        if self.misunderstood:
            told = ", ".join(self.misunderstood)
            yield f"configuration: not understood, and ignored: {told}"


NOTHING_STATED = ReadConfiguration()


def read_configuration(config: pytest.Config, file_names: Sequence[str]) -> ReadConfiguration:
    """Read the option and, as it says, the environment. Raises pytest.UsageError."""
    asked: list[str] = config.option.binary_configuration
    modes = [each for each in asked if each in (_AUTO, _ALWAYS, _OFF)]
    pairs = [each for each in asked if each not in modes]
    try:
        given = tuple(read_given(pairs))
    except ProfileError as error:
        raise misused(f"--binary-configuration {error}") from None
    for files in dict.fromkeys(each.files for each in given if each.files):
        if file_names and not any(fnmatchcase(name, files) for name in file_names):
            lack = "no package of the run has such a file name"
            raise misused(f"--binary-configuration {files}: {lack}")
    mode = modes[-1] if modes else _AUTO
    reads = bool(file_names) and (mode == _ALWAYS or (mode == _AUTO and _is_ci()))
    found = read_variables(os.environ) if reads else VariableReading((), ())
    return ReadConfiguration(
        stated=StatedConfiguration(
            claims=(*given, *found.claims), file_names=tuple(dict.fromkeys(file_names))
        ),
        variables=tuple(dict.fromkeys(each.claim.evidence for each in found.claims)),
        misunderstood=found.misunderstood,
    )


def _is_ci() -> bool:
    return any(os.environ.get(name, "").lower() not in _DENIALS for name in _CI)
