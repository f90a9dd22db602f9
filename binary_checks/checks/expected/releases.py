"""Whether a wheel has the expected date, version label and tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone

from binary_checks.declaring import Pattern, check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.stated_versions import development_number, judge_age, read_date
from binary_checks.model import Finding, NotInspected, Problem, Wheel

_ANY_TAG = Pattern("")


@check(enabled=False)
def stale_nightly(package: Wheel, *, days: int = 3) -> Iterator[Finding]:
    """A nightly was built too long ago, by the date in its version.

    The date is ``.devYYYYMMDD``, compared with today in UTC. A nightly that is ``days`` days old
    passes, an older one fails, and so does one dated later than tomorrow. A version without
    ``.dev`` is not a nightly.

    Why: the nightly build has been failing for days, and users and tests get the last one that did
    not.
    Fix: find out why newer builds are missing; a date in the future is a wrong clock on a build
    host.
    Level: users and tests get an old build under a new date.
    """
    number = development_number(package.version)
    if number is None:
        raise NotApplicable(f"{package.version} is not a nightly: it has no .dev")
    built, today = read_date(number), datetime.now(timezone.utc).date()
    if built is None:
        yield Problem(sentence=f"its version is {package.version}: .dev{number} is not a date")
    elif sentence := judge_age(built, today, days, "built"):
        yield Problem(sentence=sentence)


@check(enabled=False)
def unexpected_version_label(
    package: Wheel, *, expected: Pattern | None = None
) -> Iterator[Finding]:
    """The local label of the version (``+cpu``, ``+cu132``) is not the channel's.

    ``expected`` is a regular expression on the whole label, "" where there must be none.

    Why: an index serves CPU and GPU builds side by side, and only this label tells users and
    installers which is which.
    Fix: set the version for this build's channel, and build again.
    Level: users get the build of another channel.
    """
    label = package.version.partition("+")[2]
    if expected is None:
        yield NotInspected(sentence="no expected label is set (the option expected)")
    elif not re.fullmatch(expected, label):
        has = f"has the label +{label}" if label else "has no label"
        wanted = f"+{expected} is expected" if expected else "none is expected"
        yield Problem(sentence=f"its version {has}, but {wanted}")


@check(enabled=False)
def unexpected_tag(package: Wheel, *, expected: Pattern = _ANY_TAG) -> Iterator[Finding]:
    """A tag of the wheel is not one that the project publishes.

    ``expected`` is a regular expression on a whole tag, such as ``cp312-cp312-win_amd64``; a
    compressed set of tags is judged one by one.

    Why: a ``linux_x86_64`` wheel that was never repaired, a macOS newer than the users', or a build
    with the wrong interpreter installs nowhere, or where it does not run.
    Fix: build with the interpreter and the deployment target of the release, and repair the wheel.
    Level: the wheel is published for a platform that the project does not mean.
    """
    if not expected:
        yield NotInspected(sentence="no expected tag is set (the option expected)")
        return
    for tag in sorted(map(str, package.tags)):
        if not re.fullmatch(expected, tag):
            yield Problem(sentence=f"is tagged {tag}, where {expected} is expected")
