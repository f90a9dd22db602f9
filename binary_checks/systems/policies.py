"""Finds the manylinux or musllinux policy that a platform tag names."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.model.system import Policy
from binary_checks.systems.committed import read_committed


def policy_for(platform_tag: str) -> Policy | None:
    """Find the policy of ``manylinux_2_28_x86_64``, ``manylinux1_i686``, ``musllinux_1_2_i686``.

    None for a tag without a known one: ``linux_x86_64``, another system's, and a libc version that
    no policy was written for (``manylinux_2_29_x86_64``).
    """
    return _read_by_tag().get(platform_tag)


def policies(libc: str, architecture: str) -> tuple[Policy, ...]:
    """List the policies of a libc (``glibc``, ``musl``) on an architecture, lowest first."""
    return tuple(
        policy
        for policy in _read_policies()
        if policy.libc == libc and policy.architecture == architecture
    )


@functools.cache
def _read_by_tag() -> Mapping[str, Policy]:
    return {
        f"{name}_{policy.architecture}": policy
        for policy in _read_policies()
        for name in (policy.name, *policy.aliases)
    }


@functools.cache
def _read_policies() -> tuple[Policy, ...]:
    content = read_committed("policies.json")
    rows = (policy for row in content["policies"] for policy in _expand(row, content["libc_names"]))
    return tuple(sorted(rows, key=lambda policy: policy.minimum))


def _expand(row: dict[str, Any], libc_names: dict[str, Any]) -> Iterator[Policy]:
    """Make one policy for each architecture of a row; the data says once what they share."""
    major, minor = row["name"].split("_")[1:]
    libraries = frozenset(row["libraries"])
    forbidden = {soname: frozenset(names) for soname, names in row["forbidden_symbols"].items()}
    for architecture, versions in row["versions"].items():
        yield Policy(
            name=row["name"],
            architecture=architecture,
            libc=row["libc"],
            minimum=(int(major), int(minor)),
            libraries=libraries.union(libc_names[row["libc"]][architecture]),
            versions={prefix: frozenset(listed) for prefix, listed in versions.items()},
            forbidden_symbols=forbidden,
            aliases=tuple(row["aliases"]),
        )
