"""One environment with the build backends, for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.mistakes.building import Workshop, open_workshop


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The environment in which the projects are built."""
    return open_workshop(tmp_path_factory.mktemp("workshop"))
