"""What the user named to be judged: package files, installed packages, and facts about them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binary_checks import packages, sources
from binary_checks.errors import BinaryChecksError, PackageError, ProfileError
from binary_checks.model.protocols import Source
from binary_checks.packages.installed import LABEL
from binary_checks.plugin.failures import misused
from binary_checks.plugin.options import DEAF_INI
from binary_checks.plugin.screen import progress_line
from binary_checks.sources.file import explain, suggest_requirement
from binary_checks.sources.release import RELEASE
from binary_checks.sources.remote import LostSource
from binary_checks.sources.requirement import LABEL as INDEX

if TYPE_CHECKING:
    from binary_checks.documents.facts import Statement
    from binary_checks.places import Sandbox
    from binary_checks.plugin.placing import Placing

Asked = dict[Path, frozenset[str]]
"""Which checks were asked for of each package; none is all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """What the user named: packages, and what is left for pytest to collect in its own way."""

    folder: Path  # from which relative paths count
    sources: tuple[sources.NamedSource, ...]  # each once, in the order in which they are judged
    packages: Asked  # by the paths of the sources
    others: tuple[str, ...]
    release: Collection[str] | None = None  # the checks asked for of all packages together
    installed: tuple[str, ...] = ()  # those that lie installed, as they were named
    published: frozenset[Path] = frozenset()  # by their paths: those that are to be fetched
    misnamed: tuple[str, ...] = ()  # a line for each argument of the command that is no package


def read_arguments(config: pytest.Config) -> Named:
    """Tell packages from other arguments, which stay as they are, or are none of the command's.

    Where nothing but an installed package was named there is nothing else to collect.
    """
    folder = config.invocation_params.dir
    installed = list(dict.fromkeys((*_options(config), *filter(_is_installed, config.args))))
    remote = _list_published(config, folder)
    apart, published = [*installed, *remote], set[Path]()
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    alone = named and config.getini(DEAF_INI)
    left = [each for each in config.args if each not in apart] if named else config.args
    found: dict[Path, sources.NamedSource] = {}
    asked: Asked = {}
    others = []
    release: set[str] | None = None
    for argument in (*(left if named or not apart else ()), *apart):
        pattern, colons, check = sources.cut_check(argument)
        if pattern == RELEASE and not (folder / pattern).exists():
            release = {*(release or ()), *filter(None, [check])}
            continue
        for name in sources.expand(pattern, folder):
            source = sources.parse(name, folder, folders=alone)
            _demand_nameable(folder, f"{name}{colons}{check}", source)
            if source is None:
                others.append(f"{name}{colons}{check}")
            else:
                found[source.path] = source
                published |= {source.path} if argument in remote else set()
                _ask(asked, source.path, check)
    return Named(
        folder=folder,
        sources=tuple(found.values()),
        packages=asked,
        release=release,
        others=() if alone else tuple(others),
        installed=tuple(installed),
        published=frozenset(published),
        misnamed=tuple(_explain(folder, each) for each in others) if alone else (),
    )


def _explain(folder: Path, argument: str) -> str:
    name = sources.cut_check(argument)[0]
    try:
        return f"{explain(name, folder / name)}{suggest_requirement(name, folder / name)}"
    except OSError as error:  # too long a name
        return f"{name}: {error.strerror}"
    except ValueError:  # a NUL in it
        return f"{name}: not a path"


def _options(config: pytest.Config) -> Iterable[str]:
    return (f"{LABEL}{name}" for name in config.option.binary_installed)


def _list_published(config: pytest.Config, folder: Path) -> list[str]:
    """Those that are to be fetched; the value of an option is one, whatever lies in the folder."""
    names = [
        name if sources.is_published(name, folder) else f"{INDEX}{name}"
        for name in config.option.binary_published
    ]
    given = [
        each for each in config.args if sources.is_published(sources.cut_check(each)[0], folder)
    ]
    return list(dict.fromkeys((*names, *given)))


def _is_installed(argument: str) -> bool:
    return argument.startswith(LABEL)


def _ask(found: Asked, package: Path, check: str) -> None:
    """Asked for as a whole and by a check too, it is asked for as a whole."""
    known = found.get(package, frozenset([check]))
    found[package] = known | {check} if check and known else frozenset()


def _demand_nameable(folder: Path, argument: str, source: sources.NamedSource | None) -> None:
    """Refuse a package whose file's name pytest takes for something else, or cannot pass on."""
    name = sources.cut_check(argument)[0]
    if "::" in argument and packages.recognises(Path(argument)) and (folder / argument).exists():
        raise misused(f"{argument}: pytest takes '::' in a file's name for a test: rename it")
    labelled = _is_installed(argument) or sources.is_published(name, folder)
    if source is not None and not labelled:
        if "[" in name:
            raise misused(f"{name}: pytest takes '[' in a file's name for a parameter: rename it")
        if not _is_text(name):
            raise misused(f"{name}: the file's name is no text (UTF-8): rename it")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def find_sources(
    config: pytest.Config, named: Named, placing: Placing, sandbox: Sandbox | None
) -> tuple[list[Source], list[str]]:
    """Every package named, with the facts that were given of it; a line for each that is not there.

    Raises pytest.UsageError where none is there, and for facts of nothing here.
    """
    surroundings = _survey(config, named, placing, sandbox)
    lost = list(named.misnamed)
    found: list[Source] = []
    for each in named.sources:
        try:
            found.append(each.resolve(surroundings))
        except (ProfileError, PackageError, OSError) as error:
            lost.append(_say(each, error))
        except BinaryChecksError as error:
            if each.path not in named.published:
                raise misused(f"{placing.option}: {error}") from None
            found.append(LostSource(path=each.path, reason=str(error)))
    if lost and not found:
        raise misused(*lost)
    try:
        for name in dict.fromkeys(config.option.binary_facts):
            from binary_checks.documents.facts import restore

            found = _spread(restore(named.folder / name, named=name), found)
    except (ProfileError, PackageError) as error:
        raise misused(str(error)) from None
    return found, lost


AGREED = "binary_checks_agreed"
"""The key under which a worker of xdist's is given what the controller found on indexes."""
SURROUNDINGS = pytest.StashKey[sources.Surroundings]()


def _survey(
    config: pytest.Config, named: Named, placing: Placing, sandbox: Sandbox | None
) -> sources.Surroundings:
    """What sources are found with; workers take over what was found already."""
    target = config.option.binary_for or ""
    if target and not named.published:
        raise misused(f"--binary-for {target}: nothing is named that is published on an index")
    given = getattr(config, "workerinput", {}).get(AGREED)
    config.stash[SURROUNDINGS] = surroundings = sources.Surroundings(
        python=placing.python,
        sandbox=sandbox,
        static=config.option.binary_static,
        target=target,
        progress=lambda name: progress_line(config, name, "downloading"),
        agreed={} if given is None else json.loads(given),
    )
    return surroundings


def hand_over(config: pytest.Config) -> str:
    """What the controller found, for a worker: an index may have something else by then."""
    surroundings = config.stash.get(SURROUNDINGS, None)
    return json.dumps(surroundings.agreed if surroundings else {})


def _say(named: sources.NamedSource, error: Exception) -> str:
    if isinstance(error, OSError):  # too long a name
        return f"{named.path.name}: {error.strerror}"
    return str(error)


def _spread(statement: Statement, found: list[Source]) -> list[Source]:
    """Give the facts to the package that they are about."""
    from binary_checks.sources.stated import describe, trust

    trusting = [trust(source, statement) for source in found]
    if not any(trusting):
        known = ", ".join(f"{each.label} ({each.identity()})" for each in found)
        about = f"{statement.package.path.name} ({', '.join(describe(statement))})"
        raise ProfileError(f"--binary-facts: {about}: not about {known or 'any package named'}")
    return [new or old for new, old in zip(trusting, found, strict=True)]
