"""Run a stage of a cell or of a night: the one command of a CI job, also for use by hand.

A stage starts in the repository's folder and finds the files that earlier stages left: packages in
dist/, results in results/cpu and results/gpu. Foreign programs see no secrets: the project's build
and the packages get none, and our own commands only the secrets that they need.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from binary_checks.errors import FIT, PROBLEMS, TRY_AGAIN, GatherError, ProfileError
from binary_checks.fleet.cells import ALSO, LABELS, ONLY, Matrix
from binary_checks.fleet.ci.ci_settings import read_ci
from binary_checks.fleet.ci.pipeline import make_options, name_values
from binary_checks.fleet.lifelines import open_lifeline
from binary_checks.fleet.night import Cell
from binary_checks.fleet.nights import choose_python, find_python, options_of_gpu
from binary_checks.fleet.stored_nights import read_date, tonight
from binary_checks.processes import SAFE_PATH, user_environment
from binary_checks.profile import reject_unknown

CHAIN = ("build", "test", "gpu", "publish")
"""The stages of a cell, in order."""
NIGHT = ("plan", "smoke", "smoke-gpu", "collect")
"""The stages of a night, in order."""
DIST, CPU_RESULTS, GPU_RESULTS, SITE = "dist", "results/cpu", "results/gpu", "site"
"""The folders in which stages leave files for later ones."""
NIGHT_DATE, STORE = "BINARY_CHECKS_NIGHT", "BINARY_CHECKS_STORE"
"""Variables: the date of the night, which all of its jobs share, and another store."""
_RESULT, _FACTS = "result.json", "facts.json"
# they select cells for one run, but a night has the cells of its plan
_ONE_OFF = (ONLY, ALSO, LABELS)
_PATIENCE = 30.0  # seconds to end after the time limit


class StageRun:
    """A runner for the stages of a matrix in the current folder."""

    def __init__(self, matrix: Matrix, complain: Callable[[str], None]) -> None:
        self.matrix = matrix
        self.source = Path(matrix.source)  # as commands name it
        self.settings = read_ci(matrix)
        self.environment = {**user_environment(), **self.settings.environment}
        self.complain = complain  # prints a line

    def run(self, stage: str, ids: Sequence[str]) -> int:
        """Run a stage; return its exit status. Raises ProfileError."""
        if stage in NIGHT:
            return self._run_night(stage, ids)
        if len(ids) != 1:
            raise ProfileError(f"ci stage {stage}: give one cell instead of {len(ids)}")
        known = {cell.id: cell for cell in self.matrix.product}
        reject_unknown(ids, known, f"ci stage {stage}: {self.matrix.source}", "cell")
        steps = {
            "build": self._build,
            "test": self._test,
            "gpu": self._test_on_gpu,
            "publish": self._publish,
        }
        return steps[stage](known[ids[0]])

    # -- a cell

    def _build(self, cell: Cell) -> int:
        """Run the project's build in a POSIX shell, and require files in dist/."""
        if not self.settings.build:
            raise ProfileError(f"{self.matrix.source}: ci: it has no 'build'")
        _forget(CPU_RESULTS, GPU_RESULTS)
        environment = {**self._hide(()), **name_values(cell, self.matrix.axes)}
        shell, options = _find_shell()
        script = "\n".join(self.settings.build)
        status = self._call(
            [shell, *options, "-c", script], environment, timeout=self.settings.build_timeout
        )
        if status == 0 and not _list_dist():
            self.complain("ci stage build: the build wrote nothing to dist/")
            return PROBLEMS
        return status and PROBLEMS

    def _test(self, cell: Cell) -> int:
        files = _require_dist("test")
        _forget(CPU_RESULTS, GPU_RESULTS)
        Path(CPU_RESULTS).mkdir(parents=True, exist_ok=True)
        reports = ["--report", f"json:{CPU_RESULTS}/{_RESULT}"]
        if len(files) == 1:
            reports += ["--report", f"facts:{CPU_RESULTS}/{_FACTS}"]
        return self._judge(cell, [*files, *reports, *self._list_options(cell, files)])

    def _test_on_gpu(self, cell: Cell) -> int:
        """Judge on a GPU the files that passed the CPU stage, with the facts of that stage."""
        files = _require_dist("gpu")
        _forget(GPU_RESULTS)
        if not _has_passed(Path(CPU_RESULTS, _RESULT)):
            message = f"{CPU_RESULTS} contains no passed result of the CPU stage"
            raise GatherError(f"ci stage gpu: blocked: {message}")
        Path(GPU_RESULTS).mkdir(parents=True, exist_ok=True)
        reports = ["--report", f"json:{GPU_RESULTS}/{_RESULT}"]
        facts = Path(CPU_RESULTS, _FACTS)
        given = ["--facts", facts.as_posix()] if facts.is_file() else []
        options = options_of_gpu(self._list_options(cell, files))
        return self._judge(cell, [*files, *given, *reports, *options])

    def _list_options(self, cell: Cell, files: Sequence[str]) -> tuple[str, ...]:
        portable = all(each.endswith("-any.whl") for each in files)
        python = choose_python(cell, find_python, portable=portable)
        if python == ["--python", sys.executable]:
            python = []
        return make_options(cell, self.matrix, self.source, python=python)

    def _judge(self, cell: Cell, arguments: Sequence[str]) -> int:
        return self._call([*_PROGRAM, *arguments], self._hide(()), timeout=cell.timeout)

    def _publish(self, cell: Cell) -> int:
        """Store files and results; the policy decides what is published."""
        if not self.settings.built:
            raise ProfileError(f"{self.matrix.source}: ci: it has no 'built' channel")
        files = _require_dist("publish")
        results = sorted(path.as_posix() for path in Path("results").glob(f"*/{_RESULT}"))
        if not results:
            raise ProfileError("ci stage publish: there is no result in results/")
        stated = ["--set", f"variant={cell.variant}"] if cell.variant else []
        own, store = self.settings, self._store()
        with self._write_key() as key:
            push = ["artifact", "push", *files, *stated, *store, "--channel", own.built, *key]
            if status := self._command(push, own.secrets):
                return status
            attest = ["artifact", "attest", *results, *store, *key]
            if status := self._command(attest, own.secrets):
                return status
        if not own.published:
            return FIT
        policy = ["--policy", own.policy] if own.policy else []
        ends = ["--from", own.built, "--to", own.published]
        cells = ["--cells", self.source.as_posix()]
        promote = ["artifact", "promote", *files, *ends, *cells, *policy, *store]
        return self._command(promote, own.secrets)

    @contextlib.contextmanager
    def _write_key(self) -> Iterator[list[str]]:
        """Yield the option that names a file with the private key; delete the file afterwards."""
        if not self.settings.key:
            yield []
            return
        text = self.environment.get(self.settings.key, "")
        if not text.strip():
            raise ProfileError(
                f"ci stage publish: the variable {self.settings.key} contains no key"
            )
        with tempfile.TemporaryDirectory() as folder:  # readable only by this user
            path = Path(folder, "key.pem")
            path.touch(mode=0o600)
            path.write_text(f"{text.strip()}\n", encoding="ascii")
            yield ["--key", str(path)]

    # -- a night

    def _run_night(self, stage: str, ids: Sequence[str]) -> int:
        store = self._store()
        night = read_date(self.environment.get(NIGHT_DATE) or tonight(), NIGHT_DATE)
        date = ["--date", night]
        secrets = self.settings.secrets
        cells = self.source.as_posix()
        if stage == "plan":
            return self._command(["nightly", "run", cells, *store, *date, "--plan-only"], secrets)
        if stage == "collect":
            commands = (
                ["nightly", "collect", *store, *date, "--close"],
                ["hud", SITE, *store],
                ["nightly", "summary", *store, *date],
            )
            return max(self._command(each, secrets) for each in commands)
        if not ids:
            raise ProfileError(f"ci stage {stage}: give the ids of cells")
        queue = ["--queue", "gpu" if stage == "smoke-gpu" else "cpu", "--no-collect"]
        chosen = [word for each in ids for word in ("--cell", each)]
        return self._command(["nightly", "run", cells, *store, *date, *queue, *chosen], secrets)

    # -- processes

    def _store(self) -> list[str]:
        url = self.environment.get(STORE) or self.settings.store
        if not url:
            raise ProfileError(f"{self.matrix.source}: ci: it has no 'store'")
        return ["--store", url]

    def _command(self, arguments: Sequence[str], secrets: Sequence[str]) -> int:
        """Run one of our commands with these secrets and no other ones."""
        visible = self._hide(secrets)
        environment = {key: value for key, value in visible.items() if key not in _ONE_OFF}
        return self._call([*_PROGRAM, *arguments], environment)

    def _hide(self, kept: Sequence[str]) -> dict[str, str]:
        """Return the environment without secrets, except for the given ones."""
        hidden = {*self.settings.publish_secrets} - {*kept}
        return {name: value for name, value in self.environment.items() if name not in hidden}

    def _call(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        timeout: float | None = None,
    ) -> int:
        """Run a program up to its time limit; return its exit status.

        Our own programs end when this process is killed, by whatever means.
        """
        sys.stdout.flush()
        with (
            open_lifeline() as (descriptors, variables),
            subprocess.Popen(
                command,
                env={**environment, **variables},
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                # so that the program's own processes can be ended with it
                start_new_session=os.name == "posix",
            ) as process,
        ):
            try:
                status = process.wait(timeout)
                return status if status >= 0 else TRY_AGAIN  # a signal ended it
            except subprocess.TimeoutExpired:
                self.complain(f"ci stage: stopped after {timeout:g} s")
                _end(process)
                return PROBLEMS
            except BaseException:
                _end(process)
                raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything that it started, by force if that takes too long."""
    if os.name != "posix":
        process.kill()
        return
    # The group is gone if none of its processes runs; macOS then forbids signals to it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
        os.killpg(process.pid, signal.SIGKILL)


_PROGRAM = (sys.executable, SAFE_PATH, "-m", "binary_checks")


def _find_shell() -> tuple[str, tuple[str, ...]]:
    """Return a POSIX shell and its options.

    On Windows, this is Git's bash, because another bash may belong to WSL.
    """
    programs = os.environ.get("PROGRAMFILES", "")
    of_git = Path(programs, "Git", "bin", "bash.exe")
    bash = str(of_git) if programs and of_git.is_file() else shutil.which("bash")
    if bash:
        return bash, ("--noprofile", "--norc", "-eo", "pipefail")
    if found := shutil.which("sh"):
        return found, ("-e",)
    raise ProfileError("ci stage build: neither bash nor sh is installed")


def _list_dist() -> list[str]:
    """Return the files in dist/, except for hidden ones: uv leaves a .gitignore there."""
    return sorted(path.as_posix() for path in Path(DIST).glob("[!.]*"))


def _require_dist(stage: str) -> list[str]:
    if found := _list_dist():
        return found
    raise ProfileError(f"ci stage {stage}: the build wrote nothing to {DIST}/")


def _forget(*folders: str) -> None:
    """Remove results of earlier runs on this machine: they may be of another build or cell."""
    for folder in folders:
        for name in (_RESULT, _FACTS):
            Path(folder, name).unlink(missing_ok=True)


def _has_passed(path: Path) -> bool:
    """Return whether the file is the result document of a run with exit code 0."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("exit_code") == FIT
