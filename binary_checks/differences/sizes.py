"""The size of a build and its parts."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.knowledge.inventory import PARTS, measure_parts
from binary_checks.model import Change, Package, Severity

_SHARE, _LEAST = 0.05, 64 << 10
"""A change of a part below this share, or below so many bytes, is not reported."""
_OF_ALL = 0.01
"""A change below this share of the whole size is not reported either."""
_JUMP = 0.25


@difference
def sizes(old: Package, new: Package) -> Iterator[Change]:
    """Bytes of the file and of its parts, if they change by at least 5 % and 64 kB."""
    if old.size and new.size and _is_folder(old) is _is_folder(new):
        yield from _compare("package file", old.size, new.size, jump=_JUMP)
    before, after = measure_parts(old), measure_parts(new)
    least = max(_LEAST, _OF_ALL * sum(each.size for each in after.values()))
    for part in PARTS:
        was, now = (found[part].size if part in found else 0 for found in (before, after))
        if abs(now - was) >= least:
            yield from _compare(part, was, now)


def _is_folder(package: Package) -> bool:
    """Whether a package is unpacked or installed: its size is then the sum of its files."""
    return package.size == sum(item.size for item in package.members)


def _compare(what: str, was: int, now: int, jump: float = 0.0) -> Iterator[Change]:
    by = abs(now - was)
    if by < _LEAST or by < _SHARE * was:
        return
    grown = f"{'+' if now > was else '-'}{by / was:.0%}" if was else "new"
    large = jump and now > was and by >= jump * was
    digits = 1 if f"{now / 1e6:.1f}" != f"{was / 1e6:.1f}" else 2
    before, after = (f"{size / 1e6:,.{digits}f}" for size in (was, now))
    yield Change(
        severity=Severity.CHANGE if large else Severity.INFO,
        subject=what,
        sentence=f"{after} MB, previously {before} MB, {grown}",
        together="are larger or smaller",
        detail=f"{before} -> {after} MB {grown}",
        noun="parts",
    )
