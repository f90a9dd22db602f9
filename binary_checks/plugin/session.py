"""The plugin's data during one run, in every worker and in the controller."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime, timezone
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from binary_checks import packages
from binary_checks.declaring import Check, Gatherer
from binary_checks.errors import ProfileError
from binary_checks.examination.declarations import Gatherers, find_declared, load_own_modules
from binary_checks.examination.examination import Examination
from binary_checks.examination.run import Run, label_rivals, read_channels
from binary_checks.examination.settings import RunSettings
from binary_checks.gather.companions import Companions
from binary_checks.knowledge.ci_variables import (
    MANDATORY,
    RELEASE,
    VariableReading,
    read_variables,
)
from binary_checks.knowledge.configurations import EXAMPLES, read_given
from binary_checks.model import (
    UNREADABLE,
    InstallWay,
    KnownListIdentity,
    Outcome,
    PackageIdentity,
    PackageResult,
    PlaceName,
    RunResult,
    SecondOpinion,
    StatedConfiguration,
)
from binary_checks.options import Program
from binary_checks.plugin.arguments import (
    Named,
    Placing,
    choose_sandbox,
    find_sources,
    hold_own_kinds,
    read_arguments,
    read_placing,
)
from binary_checks.plugin.failures import usage_error
from binary_checks.plugin.options import COMMAND_INI, find_program
from binary_checks.plugin.progress import progress_line
from binary_checks.profile import (
    ACCEPT,
    CellAxes,
    Profile,
    enable_thorough,
    find_profile,
    format_few,
    is_follow_up,
    leave_out_code,
    load_profile,
    read_cell,
    read_known_list,
    validate,
)
from binary_checks.reports.known_list import REASON
from binary_checks.reports.ledger import Ledger
from binary_checks.reports.writing import Destination, add_to_known, read_destination
from binary_checks.safe_text import cut, one_line
from binary_checks.sources.known_problem_lists import LoadedList, is_url, load_list
from binary_checks.sources.release import (
    ExpectedSet,
    read_expected_set,
    read_release_matrix,
)

if TYPE_CHECKING:
    from binary_checks.places import PlaceSettings, Sandbox
    from binary_checks.plugin.kept_facts import KeptFacts


# The configuration that the user and the variables of CI systems state for the packages of a run.
# Only this module reads these variables; lines above the verdicts name the variables that were
# read.

_AUTO, _ALWAYS, _OFF = "auto", "variables", "off"
_CI = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "TF_BUILD", "JENKINS_URL", "BUILDKITE")
"""Variables that CI systems set in their jobs."""
_DENIALS = ("", "0", "false", "no")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadConfiguration:
    """The configuration stated for the packages of a run, and the variables that state it."""

    stated: StatedConfiguration = field(default_factory=StatedConfiguration)
    variables: tuple[str, ...] = ()  # "DESIRED_CUDA=cu126"
    # variables with values that were not understood, in the same form
    misunderstood: tuple[str, ...] = ()

    def describe(self) -> Iterator[str]:
        """Yield the lines above the verdicts, or nothing if no variable was read."""
        hint = "(--binary-configuration off ignores variables)"
        if self.variables:
            yield f"configuration: read from the environment: {', '.join(self.variables)} {hint}"
        if self.misunderstood:
            names = ", ".join(self.misunderstood)
            yield f"configuration: not understood, and ignored: {names}"


def read_configuration(config: pytest.Config, file_names: Sequence[str]) -> ReadConfiguration:
    """Read the option and, unless the option forbids it, the environment.

    Raises pytest.UsageError.
    """
    asked: list[str] = config.option.binary_configuration
    modes = [each for each in asked if each in (_AUTO, _ALWAYS, _OFF)]
    pairs = [each for each in asked if each not in modes]
    try:
        given = tuple(read_given(pairs))
    except ProfileError as error:
        raise usage_error(f"--binary-configuration {error}") from None
    for files in dict.fromkeys(each.files for each in given if each.files):
        if file_names and not any(fnmatchcase(name, files) for name in file_names):
            raise usage_error(
                f"--binary-configuration {files}: no package of the run has such a file name"
            )
    mode = modes[-1] if modes else _AUTO
    is_ci = any(os.environ.get(name, "").lower() not in _DENIALS for name in _CI)
    found = VariableReading((), ())
    if file_names and (mode == _ALWAYS or (mode == _AUTO and is_ci)):
        try:
            folder = config.invocation_params.dir
            matrix = read_release_matrix(folder) if RELEASE in os.environ else None
        except ProfileError as error:
            raise usage_error(f"{RELEASE}: {error}") from None
        found = read_variables(os.environ, matrix)
    for pair in found.misunderstood:
        if pair.startswith(f"{MANDATORY}="):
            example = EXAMPLES["python"]
            raise usage_error(f"{pair}: not understood; write it like {example}, or unset it")
    return ReadConfiguration(
        stated=StatedConfiguration(
            claims=(*given, *found.claims), file_names=tuple(dict.fromkeys(file_names))
        ),
        variables=tuple(dict.fromkeys(each.claim.evidence for each in found.claims)),
        misunderstood=found.misunderstood,
    )


# The lists of known problems of a run: each is fetched once, and is the same in every worker.

_INPUT = "binary_checks_known"
_HELD = pytest.StashKey[tuple[LoadedList, ...]]()


def find_known_lists(config: pytest.Config) -> tuple[LoadedList, ...]:
    """Return the named lists, and the list to which the problems of this run are added.

    A server is asked only once in a run, since all workers must judge by the same bytes. Raises
    ProfileError.
    """
    held = config.stash.get(_HELD, None)
    if held is None:
        config.stash[_HELD] = held = tuple(_hold(config))
    return held


def _hold(config: pytest.Config) -> Iterator[LoadedList]:
    folder, option = config.invocation_params.dir, config.option
    written = option.binary_write_known
    added = [written] if written and (folder / written).is_file() else []
    given = json.loads(getattr(config, "workerinput", {}).get(_INPUT, "{}"))
    now = read_now(config)
    for name in dict.fromkeys((*option.binary_known, *added)):
        yield _restore(given[name]) if name in given else load_list(name, folder, now)


def share_known_lists(config: pytest.Config, workerinput: dict[str, Any]) -> None:
    """Pass the lists from servers to a worker."""
    names = dict.fromkeys(config.option.binary_known)
    given = {
        name: {"identity": asdict(held.identity), "content": held.content.decode()}
        for name, held in zip(names, find_known_lists(config), strict=False)
        if is_url(name)
    }
    workerinput[_INPUT] = json.dumps(given)


def _restore(given: dict[str, Any]) -> LoadedList:
    identity, content = KnownListIdentity(**given["identity"]), given["content"].encode()
    where = f"known problems {identity.source}"
    entries = () if identity.complaint else read_known_list(content, where).entries
    return LoadedList(identity=identity, entries=entries, content=content)


def read_now(config: pytest.Config) -> datetime:
    """Return the time at which lists and entries must be valid. Raises pytest.UsageError."""
    text = config.option.binary_known_at
    if text is None:
        return datetime.now(timezone.utc)
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        found = datetime.min
    if found.tzinfo is None:
        raise usage_error(f"--binary-known-at {text}: not a time such as 2026-11-22T04:00:00Z")
    return found


def find_cell(config: pytest.Config) -> CellAxes | None:
    """Return the cell that the user states for this run, or None. Raises ProfileError."""
    text = config.option.binary_cell
    return None if text is None else read_cell(text, "--binary-cell")


def describe_known_lists(held: Iterable[LoadedList], profile: Profile) -> Iterator[str]:
    """Yield the lines to print before the verdicts about lists of known problems."""
    for each in held:
        if each.identity.remark:
            yield f"known problems {each.identity.source}: {each.identity.remark}"
    if profile.foreign:
        checks = format_few(profile.foreign)
        yield f"known problems of unknown checks are ignored: {checks}"
    narrow = [entry for entry in profile.known_problems if entry.cells is not None]
    if profile.cell is None and (count := len(narrow)):
        which = "1 known problem is" if count == 1 else f"{count:,} known problems are"
        option = "--binary-cell names the cell of this run"
        yield f"{which} ignored outside of certain cells: {option}"


def list_unavailable(held: Iterable[LoadedList]) -> Iterator[str]:
    """Yield a line for each list that is unavailable."""
    for each in held:
        if each.complaint:
            yield f"{each.complaint}; its entries are ignored"


def list_unexplained(held: Iterable[LoadedList]) -> Iterator[str]:
    """Yield a line for each list with entries whose reason nobody has written yet."""
    for each in held:
        if lacking := sum(entry.reason == REASON for entry in each.entries):
            which = "1 entry still lacks" if lacking == 1 else f"{lacking:,} entries still lack"
            yield f"{each.identity.source}: {which} a reason"


def are_in_doubt(packages: Iterable[PackageResult]) -> bool:
    """Return whether, for every failed check, an unavailable list may accept all its problems.

    No list accepts a problem that an entry of a list causes, or a package that cannot be read.
    """
    failed = [
        entry
        for package in packages
        for entry in package.entries
        if entry.outcome is Outcome.FAILED
    ]
    return bool(failed) and not any(
        entry.reason or any(map(is_follow_up, entry.problems)) for entry in failed
    )


@dataclass(kw_only=True)
class Session:
    """The run that the user requested, and all data that its reports need."""

    run: Run
    examinations: Mapping[str, Examination]  # examinations by pytest's id of the package's node
    others: tuple[str, ...]  # arguments that name no package
    ledger: Ledger
    destinations: tuple[Destination, ...] = ()  # the requested reports
    keeper: KeptFacts | None = None  # set if a report needs the facts
    result: RunResult | None = None  # set at the end of the run
    complaints: list[str] = field(default_factory=list)  # the complaints that are shown
    # configuration stated for the packages, with its origin
    configuration: ReadConfiguration = field(default_factory=ReadConfiguration)
    misnamed: tuple[str, ...] = ()  # a line for each argument that is not a package: exit code 4
    # the named lists, each with the reason if it is unavailable
    known_lists: tuple[LoadedList, ...] = ()

    @property
    def settings(self) -> RunSettings:
        """Return the user's settings for all packages."""
        return self.run.settings

    @property
    def profile(self) -> Profile:
        """Return the project's profile."""
        return self.settings.profile

    def find(self, node: str) -> Examination | None:
        """Return the package that the item with this id judges, or None."""
        return self.examinations.get(node.partition("::")[0])


SESSION = pytest.StashKey[Session]()


def open_session(config: pytest.Config) -> Session:
    """Find the named packages and, if there are any, read the profile and the checks.

    Raises pytest.UsageError, ProfileError or PackageError with one line.
    """
    option, named = config.option, read_arguments(config)
    placing = read_placing(config, installed=bool(named.installed))
    profile, sandbox = Profile(), None
    checks: tuple[Check[Any], ...] = ()
    gatherers: Gatherers = {}
    if named.packages:
        profile, every, gatherers = profile_and_checks(config)
        checks = tuple(
            check
            for check in every
            if profile.selects(check)
            or (option.binary_crosscheck and SecondOpinion in check.subjects)
        )
        _require_families(
            {each: f"--binary-require {each}" for each in option.binary_require}, every
        )
        if config.getini(COMMAND_INI):  # under pytest, the project's tests may have other markers
            words = {*re.findall(r"[^\W\d]\w*", option.markexpr)} - _WORDS
            # Another word would select no check, or all checks.
            _require_families({each: f"-m {option.markexpr}: {each}" for each in words}, every)
            _require_known_keyword(option.keyword, every, named)
        asked = frozenset(named.release or ()).union(*named.packages.values())
        _require_running_checks(asked, every, checks)
        sandbox = choose_sandbox(config, profile, placing.names)
    configuration = read_configuration(config, [path.name for path in named.packages])
    companions = _find_companions(config, profile.limit_factor)
    settings = RunSettings(
        profile=profile,
        checks=checks,
        gatherers=gatherers,
        places=tuple(_list_places(config, placing, profile, sandbox, companions)),
        required=frozenset(option.binary_require),
        expected=_read_expected(config),
        stated=configuration.stated,
        program=find_program(config),
        owns_process=find_program(config) is Program.COMMAND,
        today=read_now(config).date() if option.binary_known_at else date.today(),
    )
    found, misnamed = find_sources(config, named, placing, sandbox)
    run = Run.open(
        found,
        settings,
        companions,
        asked=named.packages,
        release=named.release,
        folder=named.folder,
        watch=partial(progress_line, config),
        # Each xdist worker collects all packages, but judges only some of them.
        reads_ahead=not (hasattr(config, "workerinput") or option.collectonly),
    )
    names = [each.file_name for each in run.examinations if not each.source.parts()]
    return Session(
        run=run,
        examinations={_count_from_root(config, each.node): each for each in run.examinations},
        others=named.others,
        ledger=Ledger(
            packages=_identify_all(run.examinations),
            required=settings.required,
            accepts_unjudged=profile.unjudged == ACCEPT,
        ),
        destinations=tuple(_read_destinations(config, names)),
        misnamed=tuple(cut(one_line(line)) for line in misnamed),
        configuration=configuration,
        known_lists=find_known_lists(config) if named.packages else (),
    )


def _list_places(
    config: pytest.Config,
    placing: Placing,
    profile: Profile,
    sandbox: Sandbox | None,
    companions: Companions,
) -> Iterator[PlaceSettings]:
    """Yield the places in which packages run, or nothing in a static run."""
    if sandbox is None:
        return
    from binary_checks.places import PlaceSettings  # static runs do not need it

    kept = config.option.binary_keep
    for name, python in placing.interpreters.items():
        # Each way of installing is a place of its own, behind the fresh environment.
        ways = profile.installs if name == PlaceName() else ()
        for place in (name, *(PlaceName(argument=each.name) for each in ways)):
            yield PlaceSettings(
                name=place,
                python=python,
                may_choose=config.option.binary_python is None,
                timeout=profile.timeout,
                sandbox=sandbox,
                given=companions.given,
                channels=companions.channels,
                builds=config.option.binary_allow_builds,
                way=_find_way(profile, place),
                keep=config.invocation_params.dir / kept if kept else None,
            )


def _find_way(profile: Profile, name: PlaceName) -> InstallWay:
    try:
        return profile.find_way(name)
    except ProfileError as error:
        raise usage_error(f"--binary-place {error}") from None


def _read_expected(config: pytest.Config) -> ExpectedSet | None:
    name, folder = config.option.binary_expect_set, config.invocation_params.dir
    try:
        return None if name is None else read_expected_set(folder / name, name)
    except ProfileError as error:
        raise usage_error(f"--binary-expect-set {error}") from None


def _count_from_root(config: pytest.Config, node: str) -> str:
    """Return the id relative to pytest's rootdir; pytest shows ids relative to the current folder.

    pytest itself would give the same id to all packages outside of the rootdir.
    """
    folder, root = config.invocation_params.dir, config.rootpath
    if folder == root or (os.name == "nt" and folder.drive != root.drive):
        return node
    return Path(os.path.relpath(folder / node, root)).as_posix()


def _read_destinations(config: pytest.Config, names: Sequence[str]) -> Iterator[Destination]:
    """Yield the requested reports; the facts of each package need a separate file."""
    folder, option = config.invocation_params.dir, config.option
    if known := option.binary_write_known:
        yield add_to_known("--binary-write-known", known, folder)
    for argument in option.binary_report:
        found = read_destination("--binary-report", argument, folder)
        wanted = f"--binary-report {argument}"
        if found.report.of_facts and len(names) > 1 and not found.folder:
            raise usage_error(
                f"{wanted}: it contains the facts of one package, but there are {len(names)}: "
                "name a folder, with / at its end"
            )
        if found.folder and len(set(names)) < len(names):
            raise usage_error(
                f"{wanted}: two packages have the same file name, and so would their reports"
            )
        yield found


def _identify_all(examinations: Sequence[Examination]) -> Iterator[PackageIdentity]:
    """Yield each package's identity before it is read; its URI can represent any file name."""
    labels = label_rivals(examinations)
    for each in examinations:
        path, parts, remote = each.source.path, each.source.parts(), each.source.remote()
        yield PackageIdentity(
            node=each.node,
            file_name=each.file_name,
            label=labels.get(each.node, ""),
            parts=len(parts),
            uri=quote(os.fsencode(each.spelled)),
            size=path.stat().st_size if path.is_file() and not parts else 0,
            provenance=remote.provenance if remote is not None else None,
        )


def _find_companions(config: pytest.Config, limit_factor: int) -> Companions:
    option, folder = config.option, config.invocation_params.dir
    kept = option.binary_requirements_folder
    place = None if kept is None else Path(os.path.normpath(folder / kept))
    if place is not None and place.exists() and not place.is_dir():
        raise usage_error(f"--binary-requirements-folder {kept}: not a folder")
    try:
        channels = tuple(read_channels(option.binary_channel, folder))
    except ProfileError as error:
        raise usage_error(f"--binary-channel {error}") from None
    return Companions(
        (_given(folder, name) for name in option.binary_with),
        fetches=option.binary_with_requirements or place is not None,
        folder=place,
        limit_factor=limit_factor,
        channels=channels,
    )


def _given(folder: Path, name: str) -> Path:
    path = Path(os.path.normpath(folder / name))
    if not path.exists():
        raise usage_error(f"no such file or folder: {name}")
    if not path.is_dir() and not packages.recognises(path):
        raise usage_error(f"--binary-with {name}: neither a package file nor a folder")
    return path


_WORDS = {"and", "or", "not", "True", "False", "None"}  # which ``-m`` understands itself


def _require_families(names: Mapping[str, str], checks: Iterable[Check[Any]]) -> None:
    """Refuse a name that is not a family; each comes with the option in which it stands."""
    families = sorted({check.family for check in checks})
    for name in sorted(names.keys() - families):
        raise usage_error(f"{names[name]}: {no_such_family(name, families)}")


def _require_known_keyword(expression: str, checks: Iterable[Check[Any]], named: Named) -> None:
    """Refuse a single word in ``-k`` that occurs in no name: it would select no check."""
    if not re.fullmatch(r"[\w-]+", expression):
        return
    known = {check.id for check in checks} | {check.family for check in checks}
    names = (*known, UNREADABLE, *map(str, named.packages))
    if not any(expression.lower() in name.lower() for name in names):
        raise usage_error(f"-k: {no_such_check(expression, known)}")


def no_such_family(name: str, families: Sequence[str]) -> str:
    """Return a message that suggests the closest family, or lists all families."""
    from difflib import get_close_matches

    close = get_close_matches(name, families, n=1)
    every = f"there are {', '.join(families)}"
    return f"no such family; {f'did you mean {close[0]}?' if close else every}"


def _require_running_checks(
    names: Iterable[str], every: Iterable[Check[Any]], selected: Iterable[Check[Any]]
) -> None:
    """Refuse ``x.whl::name`` if no check with that name runs; pytest's message is less clear."""
    known, running = {check.id for check in every}, {check.id for check in selected}
    for name in sorted({name.partition("[")[0] for name in names}):
        if name == UNREADABLE or name in running:
            continue
        if name in known:
            raise usage_error(
                f"{name} is off: enable it in a profile, or set one of its options there"
            )
        raise usage_error(no_such_check(name, known))


def no_such_check(name: str, known: Iterable[str]) -> str:
    """Return a message that suggests the closest names."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no check is called {name!r}{hint}"


def profile_and_checks(
    config: pytest.Config,
) -> tuple[Profile, tuple[Check[Any], ...], Gatherers]:
    """Return the profile, all checks (ours, the conftests' and the profile's) and their gatherers.

    Raises ProfileError with one line.
    """
    name = config.option.binary_profile
    profile = find_profile(config.invocation_params.dir) if name is None else load_profile(name)
    deaf = name is None and config.getini(COMMAND_INI)
    files = ((each, getattr(each, "__file__", None)) for each in config.pluginmanager.get_plugins())
    modules = [each for each, file in files if Path(file or "").name == "conftest.py"]
    modules += [] if deaf else load_own_modules(profile.checks, hold_own_kinds(config, profile))
    every, gatherers = find_declared(modules)
    declared: tuple[Check[Any] | Gatherer[..., Any], ...] = (*every, *gatherers.values())
    profile = leave_out_code(profile, declared) if deaf else profile
    profile = enable_thorough(profile) if config.option.binary_thorough else profile
    held = () if config.option.binary_explain else find_known_lists(config)
    listed = (entry for each in held for entry in each.entries)
    profile = replace(
        profile,
        strict=config.option.binary_strict,
        known_problems=(*profile.known_problems, *listed),
        cell=find_cell(config),
    )
    return validate(profile, every, gatherers.values()), every, gatherers
