"""Names of objects: which names are allowed, and the layout of a store."""

from __future__ import annotations

import re
from datetime import date

from binary_checks import __version__
from binary_checks.errors import StoreError
from binary_checks.safe_text import cut, one_line

# Allowed names, which mean the same in every store and on every system.

# No leading dot (reserved for our own files), no trailing dot or blank (Windows drops them).
_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._+=!@,~-]*[A-Za-z0-9_+=!@,~-])?")
_DEVICES = re.compile(r"(?:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(?:\..*)?", re.IGNORECASE)
_LONGEST_PART, _LONGEST = 200, 900  # S3 allows 1,024 bytes with the prefix, file systems 255 a part


def is_safe_part(part: str) -> bool:
    """Return whether the text may stand between two "/" of a name."""
    return (
        len(part) <= _LONGEST_PART
        and _PART.fullmatch(part) is not None
        and _DEVICES.fullmatch(part) is None
    )


def require_name(name: str) -> str:
    """Return the name. Raises StoreError if it is not allowed for an object."""
    if len(name) > _LONGEST or not all(map(is_safe_part, name.split("/"))):
        raise StoreError(f"{cut(one_line(repr(name)), 120)}: not a valid name in a store")
    return name


def require_derived(name: str) -> str:
    """Return the name. Raises StoreError unless the object may be replaced."""
    if not require_name(name).startswith(DERIVED):
        raise StoreError(f"{cut(one_line(name), 120)}: objects of this name are never replaced")
    return name


def require_prefix(prefix: str) -> str:
    """Return the prefix. Raises StoreError if no name can begin with it."""
    folder, slash, rest = prefix.rpartition("/")
    if slash:
        require_name(folder)
    if rest and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+=!@,~-]*", rest):
        raise StoreError(
            f"{cut(one_line(repr(prefix)), 120)}: no name in a store begins with this text"
        )
    return prefix


# The layout of a store: all functions that make names.

NIGHTS, FACTS, FILES, PACKAGES, CHANNELS = "night=", "facts/", "files/", "packages/", "channels/"
"""Prefixes of nights, facts, files, all that is known about these, and members of channels."""
NIGHT = re.compile(rf"{NIGHTS}(\d{{4}}-\d{{2}}-\d{{2}})/")
_ORIGIN = re.compile(
    rf"{PACKAGES}[0-9a-f]{{2}}/([0-9a-f]{{64}})/origins/([0-9a-f]{{64}})/[0-9a-f]{{64}}\.json"
)
MARK = "store.json"
"""The object that makes a folder or a prefix a store."""
DERIVED = ("simple/", "conda/")
"""Prefixes of objects that can be made again: the indexes of channels."""
POLICIES, WITHDRAWN = "policies/", "withdrawn/"
"""Prefixes of the gates that promotions name, and of withdrawals."""
TOP_LEVEL = (MARK, NIGHTS, FACTS, FILES, PACKAGES, CHANNELS, POLICIES, WITHDRAWN, *DERIVED)
"""Prefixes of all names in a store."""
RESULTS, RUNNING = "results", "running"
LOG_FOLDERS = ("failed", "succeeded")
"""Folders of a night's logs."""
ATTEMPT_FOLDERS = (RESULTS, RUNNING, *LOG_FOLDERS)
"""Folders of a night with one object for each attempt."""
_ATTEMPT = re.compile(
    r"(?P<cell>.+)\.(?P<stage>cpu|gpu)(?P<number>[1-9]\d*)\.(?:json|[0-9a-f]{64}\.log)"
)

_ARTIFACT = re.compile(rf"{PACKAGES}[0-9a-f]{{2}}/([0-9a-f]{{64}})/artifact\.json")
_FILE = re.compile(rf"{FILES}(?:[^/]+/)+?([0-9a-f]{{64}})/(?:with/[0-9a-f]{{16}}/)?[^/]+")
_MEMBER = re.compile(rf"{CHANNELS}([^/]+)/([^/]+(?:/[^/]+)?)/([^/]+)")


def is_night(text: str) -> bool:
    """Return whether the text is a date in the form of 2026-11-20."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def night_folder(night: str) -> str:
    """Return the prefix of one night; nothing in it changes once the night is closed."""
    return f"{NIGHTS}{night}/"


def plan_name(night: str) -> str:
    """Return the name of a night's plan, which the first coordinator creates."""
    return f"{night_folder(night)}plan.json"


def frozen_name(night: str, sha256: str) -> str:
    """Return the name of a frozen profile, known-problems list, causes or cells file."""
    return f"{night_folder(night)}frozen/{sha256}.toml"


def result_prefix(night: str) -> str:
    """Return the prefix of a night's result documents."""
    return f"{night_folder(night)}{RESULTS}/"


def result_name(night: str, cell: str, stage: str, number: int) -> str:
    """Return the name of an attempt's document."""
    return f"{result_prefix(night)}{cell}.{stage}{number}.json"


def log_name(night: str, attempt: tuple[str, str, int], sha256: str, *, good: bool) -> str:
    """Return the name of an attempt's log; ``attempt`` is its cell, stage and number.

    The name contains the log's SHA-256, because two processes may make the same attempt.
    """
    cell, stage, number = attempt
    return f"{night_folder(night)}{LOG_FOLDERS[good]}/{cell}.{stage}{number}.{sha256}.log"


def coordinator_log_prefix(night: str) -> str:
    """Return the prefix of the logs that the coordinators of a night wrote."""
    return f"{night_folder(night)}coordinators/"


def coordinator_log_name(night: str, stem: str) -> str:
    """Return the name of a coordinator's log; the stem names its time, host and process."""
    return f"{coordinator_log_prefix(night)}{stem}.log"


def split_attempt(name: str) -> tuple[str, str, int] | None:
    """Return cell, stage and number in the name of a result or a log; None for other names."""
    found = _ATTEMPT.fullmatch(name.rpartition("/")[2])
    return (found["cell"], found["stage"], int(found["number"])) if found else None


def facts_prefix(sha256: str) -> str:
    """Return the prefix of a package's facts, which each version stores under its own name."""
    return f"{FACTS}{sha256[:2]}/{sha256}."


def facts_name(sha256: str, version: str = __version__) -> str:
    """Return the name of a package's facts as a version wrote them, compressed by gzip.

    A run accepts only facts of its own version.
    """
    return f"{facts_prefix(sha256)}{version}.json.gz"


def package_folder(sha256: str) -> str:
    """Return the prefix of everything that is known about one artifact."""
    return f"{PACKAGES}{sha256[:2]}/{sha256}/"


def file_prefix(folders: str, sha256: str) -> str:
    """Return the prefix of a file and of those that belong to it.

    The folders say what it is to people who list the store.
    """
    return f"{FILES}{folders}/{sha256}/"


def split_file(name: str) -> str | None:
    """Return the SHA-256 of the artifact that a file is, or belongs to; None for other names."""
    found = _FILE.fullmatch(name)
    return found[1] if found else None


def artifact_name(sha256: str) -> str:
    """Return the name of an artifact's document, without which it does not count as stored."""
    return f"{package_folder(sha256)}artifact.json"


def split_artifact(name: str) -> str | None:
    """Return the SHA-256 in the name of an artifact's document; None for other names."""
    found = _ARTIFACT.fullmatch(name)
    return found[1] if found else None


def expired_name(sha256: str) -> str:
    """Return the name of the mark for an artifact in no channel; the mark is deleted last."""
    return f"{package_folder(sha256)}expired"


def push_prefix(sha256: str) -> str:
    """Return the prefix of the signed statements about the pushes of a package."""
    return f"{package_folder(sha256)}pushes/"


def push_name(sha256: str, digest: str) -> str:
    """Return the name of a signed statement about a push; ``digest`` is its own SHA-256."""
    return f"{push_prefix(sha256)}{digest}.json"


def verdict_prefix(sha256: str) -> str:
    """Return the prefix of an artifact's verdicts."""
    return f"{package_folder(sha256)}verdicts/"


def verdict_name(sha256: str, digest: str) -> str:
    """Return the name of a verdict, with the SHA-256 of its bytes."""
    return f"{verdict_prefix(sha256)}{digest}.json"


def promotion_prefix(sha256: str) -> str:
    """Return the prefix of an artifact's promotion records."""
    return f"{package_folder(sha256)}promotions/"


def promotion_name(sha256: str, digest: str) -> str:
    """Return the name of a promotion record, with the SHA-256 of its bytes."""
    return f"{promotion_prefix(sha256)}{digest}.json"


def origins_prefix(sha256: str) -> str:
    """Return the prefix of statements about the file that an artifact is made of."""
    return f"{package_folder(sha256)}origins/"


def origin_name(sha256: str, origin: str, digest: str) -> str:
    """Return the name of such a statement, with the SHA-256 of the origin and of its bytes."""
    return f"{origins_prefix(sha256)}{origin}/{digest}.json"


def split_origin(name: str) -> tuple[str, str] | None:
    """Return the SHA-256 of a file and that of its origin, or None for another object."""
    found = _ORIGIN.fullmatch(name)
    return (found[1], found[2]) if found else None


def policy_name(digest: str) -> str:
    """Return the name of a gate that let an artifact in, with the SHA-256 of its bytes."""
    return f"{POLICIES}{digest}.json"


def withdrawn_prefix(channel: str) -> str:
    """Return the prefix of a channel's withdrawals."""
    return f"{WITHDRAWN}{channel}/"


def withdrawn_name(channel: str, project: str, sha256: str) -> str:
    """Return the name of a withdrawal: installers ignore the member (PEP 592)."""
    return f"{withdrawn_prefix(channel)}{project}/{sha256}.json"


def channel_prefix(channel: str = "") -> str:
    """Return the prefix of a channel's members, or of all channels' members."""
    return f"{CHANNELS}{channel}/" if channel else CHANNELS


def member_name(channel: str, folder: str, file_name: str) -> str:
    """Return the name of a member, an object whose content is the SHA-256 of the member's file.

    There is one object for each file name in a folder, so that only one of several different files
    can be the member.
    """
    return f"{channel_prefix(channel)}{folder}/{file_name}"


def split_member(name: str) -> tuple[str, str, str] | None:
    """Return channel, folder and file name of a member; None for other names."""
    found = _MEMBER.fullmatch(name)
    return (found[1], found[2], found[3]) if found else None


def index_prefix(channel: str) -> str:
    """Return the prefix of a channel's index for pip and uv. The index can be made again."""
    return f"simple/{channel}/"


def conda_prefix(channel: str) -> str:
    """Return the prefix of a channel's conda index. The index can be made again."""
    return f"conda/{channel}/"


def table_name(night: str, table: str) -> str:
    """Return the name of a night's Parquet table: cells, checks, objects or parts."""
    return f"{night_folder(night)}{table}.parquet"


def closed_name(night: str) -> str:
    """Return the name of the mark that closes a night."""
    return f"{night_folder(night)}closed.json"


def running_prefix(night: str) -> str:
    """Return the prefix of the marks of a night's running attempts."""
    return f"{night_folder(night)}{RUNNING}/"


def running_name(night: str, cell: str, stage: str, number: int) -> str:
    """Return the name of a running attempt's mark, which contains host, process and log."""
    return f"{running_prefix(night)}{cell}.{stage}{number}.json"
