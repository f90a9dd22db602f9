"""Which checks run for every package, and which only for those whose profile asks for them."""

from __future__ import annotations

from binary_checks.declaring import find_checks

WITH_A_LIMIT_OF_THE_PROJECT = {
    "hijackable-library",
    "published-file-too-large",
    "stale-publication",
    "unexpected-cxx-abi",
    "unexpected-publication",
    "unexpected-version",
    "wheel-too-large",
}
OF_TASTE = {  # healthy published wheels break them
    "dead-search-directory",
    "debug-information",
    "no-control-flow-guard",
    "no-relro",
    "opened-library-missing",
    "orphan-library",
    "overdepending",
    "rpath-instead-of-runpath",
    "runpath-instead-of-rpath",
    "unhidden-exports",
    "uneven-gpu-architectures",
}
WITH_OTHERS_LIBRARIES = {"description-not-rendered", "readers-disagree"}


def test_what_is_off_is_of_taste_or_needs_what_only_the_project_has() -> None:
    off = {check.id for check in find_checks() if not check.enabled}
    expected = {check.id for check in find_checks() if check.family == "expected"}
    assert off == expected | WITH_A_LIMIT_OF_THE_PROJECT | OF_TASTE | WITH_OTHERS_LIBRARIES
