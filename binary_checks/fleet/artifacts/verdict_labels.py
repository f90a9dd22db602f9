"""What is known of the files of a channel without a gate, in one word each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from binary_checks.fleet.artifacts.kept_verdicts import list_verdicts
from binary_checks.fleet.artifacts.statements import read_time
from binary_checks.fleet.artifacts.verdict import PackageVerdict
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.model.outcomes import FAILING, PASSING, UNTESTED


def label_artifacts(store: Store, digests: Iterable[str]) -> Mapping[str, str]:
    """By SHA-256 how the newest verdicts on each file ended, in every place and by every profile.

    Signatures are not looked at: a label is a hint, and no gate.
    """
    wanted = [*dict.fromkeys(digests)]

    def label(sha256: str) -> str:
        return label_verdicts(each.verdict for each in list_verdicts(store, sha256))

    return dict(zip(wanted, ask_at_once(label, wanted), strict=True))


def label_verdicts(verdicts: Iterable[PackageVerdict]) -> str:
    """The label of a file on which there are these verdicts."""
    newest: dict[tuple[object, ...], PackageVerdict] = {}
    for each in verdicts:
        if each.is_decisive:
            about = (each.places, each.profile_sha256, each.stage)
            known = newest.get(about)
            if known is None or _rank(known) < _rank(each):
                newest[about] = each
    labels = {each.label for each in newest.values()}
    if FAILING in labels:
        return FAILING
    return PASSING if labels == {PASSING} else UNTESTED


def _rank(verdict: PackageVerdict) -> tuple[datetime, bool]:
    """The newest last; of equal times the one that failed."""
    return read_time(verdict.ended), verdict.label == FAILING
