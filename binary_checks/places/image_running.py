"""Starts programs in a clean root file system, confined like probes are."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from binary_checks.errors import GatherError
from binary_checks.model.places import Conditions, ProbeAnswer
from binary_checks.model.root_filesystem import RootFilesystem
from binary_checks.places.confinement import Limits
from binary_checks.places.conversation import Conversation
from binary_checks.places.processes import Ended, run_process
from binary_checks.places.running import OPTIONS, judge_end, limit, make_environment
from binary_checks.places.sandbox import Sandbox

PACKAGE = "/mnt/package"
"""Where the prefix with the package lies there."""
PROBES, PROBE = "/mnt/probes", "/mnt/probe"
"""Where our scripts lie, and the folder of one that is not ours."""
Bound = tuple[tuple[Path, str], ...]
"""Paths of this host, and where they are read in the root."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRunner:
    """A root file system, and what of this host's files processes have in it."""

    image: RootFilesystem
    sandbox: Sandbox
    timeout: float  # seconds for one process
    bound: Bound = ()
    writable: tuple[Path, ...] = ()  # under the same path
    conditions: Conditions = field(default_factory=Conditions)

    def start(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        *,
        talk: Conversation | None = None,
        kept: int = 1 << 16,
    ) -> Ended:
        """Run a command in a clean environment and an empty folder, and end what it leaves.

        The variables are the command's alone, and not of what confines it.

        Raises GatherError when it cannot be started.
        """
        with tempfile.TemporaryDirectory(
            prefix="binary_checks-", ignore_cleanup_errors=True
        ) as private:
            home, cwd = (Path(private).resolve() / name for name in ("home", "empty"))
            home.mkdir()
            cwd.mkdir()
            argv = (*self.image.runner, *command)
            started, watch = self.sandbox.start(
                argv, replace(self._limit(home.parent), variables=variables)
            )
            try:
                ended = run_process(
                    started,
                    cwd=cwd,
                    env={**make_environment(home), **self.conditions.variables},
                    timeout=self.timeout,
                    calls=self.conditions.calls,
                    talk=talk,
                    watch=watch,
                    kept=kept,
                )
            except OSError as error:
                raise GatherError(f"{started[0]}: cannot be run: {error.strerror}") from error
        return replace(ended, status=self.sandbox.read_status(ended.status))

    def _limit(self, private: Path) -> Limits:
        return Limits(
            root=self.image.path,
            bound=(*self.image.binds, *self.bound),
            writable=self.writable,
            private=private,
            folders=(private, private / "home", private / "empty"),
            disk=self.sandbox.budget.disk,
            network=self.sandbox.network,
            gpu=self.conditions.gpu,
            services=self.conditions.services,
        )

    def run_probe(
        self, python: str, script: str | Path, request: Mapping[str, object]
    ) -> ProbeAnswer:
        """Run the script of a probe with the request by an interpreter of the root."""
        probes = resources.files("binary_checks.probes")
        with resources.as_file(probes) as folder:
            bound: Bound = ((folder, PROBES),)
            words: tuple[str, ...] = (f"{PROBES}/{script}/script.py",)
            if isinstance(script, Path):
                bound = (*bound, (script.absolute().parent, PROBE))
                words = (f"{PROBE}/{script.name}", f"{PROBES}/process.py")
            alone = () if self.conditions.site else ("-S",)
            limits = limit(self.conditions, self.sandbox.budget, self.timeout)
            ended = replace(self, bound=(*self.bound, *bound)).start(
                (python, *alone, *OPTIONS, *words),
                {},
                talk=Conversation({**request, **limits}, self.conditions.stages),
            )
        return judge_end(ended, self.timeout)
