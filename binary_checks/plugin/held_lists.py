"""The lists of known problems of a run: fetched once, and the same in every worker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

import pytest

from binary_checks.errors import ProfileError
from binary_checks.model import Entry, Outcome
from binary_checks.model.run_results import KnownListIdentity, PackageResult
from binary_checks.plugin.failures import misused
from binary_checks.profile.known import (
    CellAxes,
    KnownProblem,
    is_follow_up,
    read_cell,
    read_known_list,
)
from binary_checks.profile.reading import Profile, list_few
from binary_checks.sources.known_problem_lists import HeldList, hold_list, is_url

_INPUT = "binary_checks_known"
_HELD = pytest.StashKey[tuple[HeldList, ...]]()


def find_held(config: pytest.Config) -> tuple[HeldList, ...]:
    """The lists that were named, that one too to which the problems of this run are added.

    A server is asked once in a run: all workers must judge by the same bytes. Raises ProfileError.
    """
    held = config.stash.get(_HELD, None)
    if held is None:
        config.stash[_HELD] = held = tuple(_hold(config))
    return held


def _hold(config: pytest.Config) -> Iterator[HeldList]:
    folder, option = config.invocation_params.dir, config.option
    written = option.binary_write_known
    added = [written] if written and (folder / written).is_file() else []
    given = json.loads(getattr(config, "workerinput", {}).get(_INPUT, "{}"))
    now = read_now(config)
    for name in dict.fromkeys((*option.binary_known, *added)):
        yield _restore(given[name]) if name in given else hold_list(name, folder, now)


def hand_over_lists(config: pytest.Config, workerinput: dict[str, Any]) -> None:
    """Give a worker what servers sent."""
    names = dict.fromkeys(config.option.binary_known)
    given = {
        name: {"identity": asdict(held.identity), "content": held.content.decode()}
        for name, held in zip(names, find_held(config), strict=False)
        if is_url(name)
    }
    workerinput[_INPUT] = json.dumps(given)


def _restore(given: dict[str, Any]) -> HeldList:
    identity, content = KnownListIdentity(**given["identity"]), given["content"].encode()
    where = f"known problems {identity.source}"
    entries = () if identity.complaint else read_known_list(content, where).entries
    return HeldList(identity=identity, entries=entries, content=content)


def read_now(config: pytest.Config) -> datetime:
    """The time at which lists and entries must hold. Raises pytest.UsageError."""
    text = config.option.binary_known_at
    if text is None:
        return datetime.now(timezone.utc)
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        found = datetime.min
    if found.tzinfo is None:
        raise misused(f"--binary-known-at {text}: not a time, as 2026-11-22T04:00:00Z is")
    return found


def find_cell(config: pytest.Config) -> CellAxes | None:
    """Which cell the run says that it is. Raises pytest.UsageError."""
    text = config.option.binary_cell
    try:
        return None if text is None else read_cell(text, "--binary-cell")
    except ProfileError as error:
        raise misused(str(error)) from None


def describe_held(held: Iterable[HeldList], profile: Profile) -> Iterator[str]:
    """What to know of them, and of their entries, before the verdicts."""
    for each in held:
        if each.identity.remark:
            yield f"known problems {each.identity.source}: {each.identity.remark}"
    if profile.foreign:
        checks = list_few(profile.foreign)
        yield f"known problems of checks that this run does not have accept nothing: {checks}"
    if profile.cell is None and (count := sum(map(_is_narrow, profile.known_problems))):
        which = "1 known problem holds" if count == 1 else f"{count:,} known problems hold"
        yield f"{which} only in some cells, and not here: --binary-cell says which cell this is"


def _is_narrow(entry: KnownProblem) -> bool:
    return entry.cells is not None


def say_unavailable(held: Iterable[HeldList]) -> Iterator[str]:
    """A line for each list of which nothing holds."""
    for each in held:
        if each.complaint:
            yield f"{each.complaint}; none of its entries holds"


def are_in_doubt(packages: Iterable[PackageResult]) -> bool:
    """Whether each check that failed may be one that a list accepts which is not to be had."""
    failed = [
        entry
        for package in packages
        for entry in package.entries
        if entry.outcome is Outcome.FAILED
    ]
    return bool(failed) and all(map(_may_be_known, failed))


def _may_be_known(entry: Entry) -> bool:
    """Whether an entry could accept all its problems, which are what a check says of a package."""
    return not entry.reason and not any(map(is_follow_up, entry.problems))
