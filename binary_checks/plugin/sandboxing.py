"""What packages run in during one run, and what they could find outside of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from binary_checks import withheld
from binary_checks.errors import Unavailable
from binary_checks.exit_codes import TRY_AGAIN
from binary_checks.lines import cut, one_line
from binary_checks.model.places import PlaceName
from binary_checks.plugin.options import find_program
from binary_checks.profile.reading import Profile

if TYPE_CHECKING:
    from binary_checks.places import Sandbox

WITHHELD = "binary_checks_withheld"
"""What a worker of xdist's is handed under: the variables that its own environment lacks."""


class StartsAnew:
    """Registered where the whole process is ours: it may become another, with less to be read."""


def _is_ours(config: pytest.Config) -> bool:
    return any(isinstance(each, StartsAnew) for each in config.pluginmanager.get_plugins())


def choose_sandbox(
    config: pytest.Config, profile: Profile, names: Sequence[PlaceName]
) -> Sandbox | None:
    """Choose what packages run in, before anything of one runs; None where nothing does.

    Ends the run with one line where one is required and none holds; none is in containers.
    """
    if config.option.binary_static:
        return None
    from binary_checks import places

    given = getattr(config, "workerinput", {}).get(WITHHELD)
    withheld.hold(given or {})
    try:
        mode = config.option.binary_sandbox
        if all(name.kind == "image" for name in names):
            return places.Sandbox(limits=places.Limits(network=profile.network), contained=True)
        sandbox = places.choose_sandbox(mode, network=profile.network)
        if not sandbox.holds and _is_ours(config):
            withheld.start_anew()
        return sandbox
    except Unavailable as error:
        told = find_program(config).name_options(f"--binary-sandbox require: {error}")
        pytest.exit(cut(one_line(told)), returncode=TRY_AGAIN)  # the package has no part in it
