"""An environment with modules that behave as no package should."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.build_wheel import build_wheel
from fixtures.environments import (
    PURE,
    FilledPlace,
    demand_sandbox,
    list_sandbox_modes,
    open_offline,
)


@pytest.fixture(scope="module", params=list_sandbox_modes())
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FilledPlace]:
    """The MODULES of the test's file, installed, and its LIMITS, if it has some."""
    members = {f"{name}.py": text for name, text in request.module.MODULES.items()}
    folder = tmp_path_factory.mktemp("environment")
    wheel = build_wheel(folder, name="modules", tags=PURE, members=members)
    limits = getattr(request.module, "LIMITS", None)
    changes = {"limits": limits} if limits else {}
    with open_offline(wheel, sandbox=demand_sandbox(request.param, **changes)) as opened:
        yield opened
