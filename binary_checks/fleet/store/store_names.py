"""Where everything lies in a store: the one place that spells its names."""

from __future__ import annotations

import re
from datetime import date

from binary_checks import __version__
from binary_checks.errors import StoreError
from binary_checks.lines import cut, one_line

# Which names an object may have: those that mean the same in every store and on every system.

# No leading dot (what is ours alone), no trailing one and no blank (Windows drops them).
_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._+=!@,~-]*[A-Za-z0-9_+=!@,~-])?")
_DEVICES = re.compile(r"(?:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(?:\..*)?", re.IGNORECASE)
_LONGEST_PART, _LONGEST = 200, 900  # S3 takes 1,024 bytes with its prefix, file systems 255 a part


def is_safe_part(part: str) -> bool:
    """Whether it may stand between two "/" of a name."""
    return (
        len(part) <= _LONGEST_PART
        and _PART.fullmatch(part) is not None
        and _DEVICES.fullmatch(part) is None
    )


def demand_name(name: str) -> str:
    """The name of an object. Raises StoreError for one that is none, or leads elsewhere."""
    if len(name) > _LONGEST or not all(map(is_safe_part, name.split("/"))):
        raise StoreError(f"{cut(one_line(repr(name)), 120)}: not a name that a store may have")
    return name


def demand_derived(name: str) -> str:
    """The name of an object that may be replaced. Raises StoreError for any other."""
    if not demand_name(name).startswith(DERIVED):
        raise StoreError(f"{cut(one_line(name), 120)}: an object that is never replaced")
    return name


def demand_prefix(prefix: str) -> str:
    """The beginning of names. Raises StoreError for what no name begins with."""
    folder, slash, rest = prefix.rpartition("/")
    if slash:
        demand_name(folder)
    if rest and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+=!@,~-]*", rest):
        raise StoreError(f"{cut(one_line(repr(prefix)), 120)}: no name of a store begins so")
    return prefix


# Where everything lies in a store: the one place that spells its names.

NIGHTS, FACTS, PACKAGES, CHANNELS = "night=", "facts/", "packages/", "channels/"
"""How the names begin of all nights, facts, packages and members of channels."""
NIGHT = re.compile(rf"{NIGHTS}(\d{{4}}-\d{{2}}-\d{{2}})/")
MARK = "store.json"
"""By which a store is known for one."""
DERIVED = ("simple/", "conda/")
"""How the names of all begin that can be made again: the indexes of channels."""
POLICIES, WITHDRAWN = "policies/", "withdrawn/"
"""How the names begin of the gates that promotions name, and of what channels advise against."""
TOP_LEVEL = (MARK, NIGHTS, FACTS, PACKAGES, CHANNELS, POLICIES, WITHDRAWN, *DERIVED)
"""How every name of a store begins."""
RESULTS, RUNNING = "results", "running"
LOG_FOLDERS = ("failed", "succeeded")
"""Where the logs of a night lie."""
ATTEMPT_FOLDERS = (RESULTS, RUNNING, *LOG_FOLDERS)
"""All of a night that is there once for each attempt."""
_ATTEMPT = re.compile(
    r"(?P<cell>.+)\.(?P<stage>cpu|gpu)(?P<number>[1-9]\d*)\.(?:json|[0-9a-f]{64}\.log)"
)

_ARTIFACT = re.compile(rf"{PACKAGES}[0-9a-f]{{2}}/([0-9a-f]{{64}})/artifact\.json")
_BY_CONTENT = re.compile(rf"{PACKAGES}[0-9a-f]{{2}}/[0-9a-f]{{64}}/(?:with/[0-9a-f]{{64}}/)?[^/]+")
_MEMBER = re.compile(rf"{CHANNELS}([^/]+)/([^/]+)/(?:([^/]+)/)?([^/]+)")


def is_night(text: str) -> bool:
    """Whether it is a date as nights are named by, 2026-11-20, and no other spelling of one."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def night_folder(night: str) -> str:
    """All of one night; nothing in it changes once it is closed."""
    return f"{NIGHTS}{night}/"


def plan_name(night: str) -> str:
    """Its frozen plan, created by the one coordinator that wins."""
    return f"{night_folder(night)}plan.json"


def frozen_name(night: str, sha256: str) -> str:
    """A profile, a list of known problems or of causes, as it was when the night was planned."""
    return f"{night_folder(night)}frozen/{sha256}.toml"


def result_prefix(night: str) -> str:
    """How the names of all documents of a night's attempts begin."""
    return f"{night_folder(night)}{RESULTS}/"


def result_name(night: str, cell: str, stage: str, number: int) -> str:
    """The document of one attempt."""
    return f"{result_prefix(night)}{cell}.{stage}{number}.json"


def log_name(night: str, attempt: tuple[str, str, int], sha256: str, *, good: bool) -> str:
    """The log of one attempt, in one of LOG_FOLDERS, by its own SHA-256: two may make one attempt.

    ``attempt`` is its cell, stage and number.
    """
    cell, stage, number = attempt
    return f"{night_folder(night)}{LOG_FOLDERS[good]}/{cell}.{stage}{number}.{sha256}.log"


def split_attempt(name: str) -> tuple[str, str, int] | None:
    """Cell, stage and number of a result or a log; None for another name."""
    found = _ATTEMPT.fullmatch(name.rpartition("/")[2])
    return (found["cell"], found["stage"], int(found["number"])) if found else None


def facts_prefix(sha256: str) -> str:
    """How the names of a package's facts begin: there is one for each version that wrote them."""
    return f"{FACTS}{sha256[:2]}/{sha256}."


def facts_name(sha256: str, version: str = __version__) -> str:
    """The facts of a package as that version of ours writes them, kept once for all nights: gzip.

    A run takes none but those of its own version.
    """
    return f"{facts_prefix(sha256)}{version}.json.gz"


def package_folder(sha256: str) -> str:
    """All that the store keeps of one artifact and says of it."""
    return f"{PACKAGES}{sha256[:2]}/{sha256}/"


def package_name(sha256: str, file_name: str) -> str:
    """A package that the store keeps itself."""
    return f"{package_folder(sha256)}{file_name}"


def metadata_name(sha256: str, file_name: str) -> str:
    """The METADATA of a wheel that the store keeps, which installers ask for first (PEP 658)."""
    return f"{package_name(sha256, file_name)}.metadata"


def artifact_name(sha256: str) -> str:
    """What the repository says of one artifact; created last: without it there is none."""
    return f"{package_folder(sha256)}artifact.json"


def split_artifact(name: str) -> str | None:
    """The SHA-256 of the artifact that the name of a document is about; None for another name."""
    found = _ARTIFACT.fullmatch(name)
    return found[1] if found else None


def is_named_by_content(name: str) -> bool:
    """Whether it is an artifact or a companion: nobody writes other bytes under the same name."""
    return _BY_CONTENT.fullmatch(name) is not None and split_artifact(name) is None


def companion_name(sha256: str, digest: str, path: str) -> str:
    """A license or a dependency beside an artifact, by its own SHA-256 and its path there.

    So two that push the same artifact with other companions do not get each other's.
    """
    return f"{package_folder(sha256)}with/{digest}/{path.rpartition('/')[2]}"


def expired_name(sha256: str) -> str:
    """The mark that no channel holds an artifact any more: it goes, and is deleted last."""
    return f"{package_folder(sha256)}expired"


def verdict_prefix(sha256: str) -> str:
    """How the names of all verdicts on an artifact begin."""
    return f"{package_folder(sha256)}verdicts/"


def verdict_name(sha256: str, digest: str) -> str:
    """A verdict on an artifact, named by the SHA-256 of its own bytes."""
    return f"{verdict_prefix(sha256)}{digest}.json"


def promotion_prefix(sha256: str) -> str:
    """How the names of all records begin that an artifact was promoted."""
    return f"{package_folder(sha256)}promotions/"


def promotion_name(sha256: str, digest: str) -> str:
    """The record that an artifact was promoted, named by the SHA-256 of its own bytes."""
    return f"{promotion_prefix(sha256)}{digest}.json"


def policy_name(digest: str) -> str:
    """What a channel's gate asked when it let something in, named by the SHA-256 of its bytes."""
    return f"{POLICIES}{digest}.json"


def withdrawn_prefix(channel: str) -> str:
    """How the names of all begin that a channel advises against."""
    return f"{WITHDRAWN}{channel}/"


def withdrawn_name(channel: str, project: str, sha256: str) -> str:
    """That a channel advises against a member: installers pass it over (PEP 592)."""
    return f"{withdrawn_prefix(channel)}{project}/{sha256}.json"


def channel_prefix(channel: str = "") -> str:
    """How the names of all members of a channel begin, or of all channels."""
    return f"{CHANNELS}{channel}/" if channel else CHANNELS


def member_name(channel: str, project: str, file_name: str, subdir: str = "") -> str:
    """What says by its content which bytes the channel has under that file name.

    There is but one object for a file name, so that of two who bring other bytes one wins. Those of
    conda packages mean one file in each subdir.
    """
    folder = f"{subdir}/" if subdir else ""
    return f"{channel_prefix(channel)}{project}/{folder}{file_name}"


def split_member(name: str) -> tuple[str, str, str, str] | None:
    """Channel, project, subdir or "", and file name of a member; None for another name."""
    found = _MEMBER.fullmatch(name)
    return (found[1], found[2], found[3] or "", found[4]) if found else None


def index_prefix(channel: str) -> str:
    """How the names of a channel's index for pip and uv begin, which can be made again."""
    return f"simple/{channel}/"


def conda_prefix(channel: str) -> str:
    """How the names of a channel begin as conda's tools want it, which can be made again."""
    return f"conda/{channel}/"


def table_name(night: str, table: str) -> str:
    """A Parquet table of one night, which `collect` makes: cells, checks, objects, parts."""
    return f"{night_folder(night)}{table}.parquet"


def closed_name(night: str) -> str:
    """The mark that a night is over; from then on it never changes."""
    return f"{night_folder(night)}closed.json"


def running_prefix(night: str) -> str:
    """How the names of all begin by which a night's attempts show themselves."""
    return f"{night_folder(night)}{RUNNING}/"


def running_name(night: str, cell: str, stage: str, number: int) -> str:
    """Where an attempt that runs shows itself: host, process, and its log there."""
    return f"{running_prefix(night)}{cell}.{stage}{number}.json"
