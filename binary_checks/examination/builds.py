"""Reading a package for comparison with another build: all its facts, without its bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.examination.run import examine
from binary_checks.model import BinaryConfiguration, Build, Linkage, LinkedLibraries, Package


def examine_build(
    package: str | os.PathLike[str], companions: Iterable[str | os.PathLike[str]] = ()
) -> Build:
    """Read one build statically. Raises the same errors as `examine`, and PackageError."""
    with examine(package, companions=companions) as facts:
        found, gaps = facts.get(Package), []
        linkage = None
        try:
            linkage = facts.get(Linkage)
        except NotApplicable:
            pass
        except Unavailable as error:
            gaps.append(f"without linkage: {error}")
        algorithm, _, digest = facts.source.identity().partition(" ")
        return Build(
            label=facts.file_name,
            package=found,
            sha256=digest if algorithm == "sha256" else "",
            linkage=linkage,
            configuration=facts.get(BinaryConfiguration),
            linked=facts.get(LinkedLibraries),
            gaps=tuple(gaps),
        )
