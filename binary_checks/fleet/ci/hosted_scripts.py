"""Shell of hosted machines besides that of stages: a Python, and secrets only where they belong."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace

from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.axis_values import family_of
from binary_checks.fleet.ci.ci_settings import CiSettings
from binary_checks.fleet.ci.pipeline import (
    Pipeline,
    PipelineCell,
    PipelineStage,
    ShellStep,
    SmokeJob,
)
from binary_checks.fleet.ci.runner_tables import RunsOn
from binary_checks.fleet.ci.stage_scripts import install_step

JOB_PYTHON = "JOB_PYTHON"
"""The variable with the version of Python that runs a job."""
SMOKE_PYTHONS = "SMOKE_PYTHONS"
"""The variable with those that the cells of a smoke job name, a line each."""
_FIND_UV = """\
if ! command -v uv > /dev/null; then
  case "$(uname -s)" in
    Darwin) brew install --quiet uv ;;
    Linux) python3 -m venv .uv && .uv/bin/python -m pip install --quiet uv ;;
    *) choco install uv --yes --no-progress ;;
  esac
fi
PATH="$PWD/.uv/bin:$PATH"
"""
MAKE_PYTHON = ShellStep(
    name="Make an environment of the job's Python",
    script=f'{_FIND_UV}uv venv --quiet --clear --seed --python "${JOB_PYTHON}" .python\n',
)
"""For machines without a container: uv takes a Python that is there, or downloads one."""
FETCH_PYTHONS = ShellStep(
    name="Fetch the Pythons that the cells name",
    script=f"python -m pip install --quiet uv\nuv python install --quiet ${SMOKE_PYTHONS}\n",
)
"""The night finds them where uv keeps them."""
_CHOOSE = """\
case "${BINARY_CHECKS_ONLY-}" in
  *=*)
    @INSTALL@
    binary-checks cells @CELLS@ --ids > .chosen
    if ! grep -qxF "$CELL" .chosen; then
      echo "$CELL is left out this time"
      for each in . dist results/cpu results/gpu; do mkdir -p $each && touch $each/.left-out; done
    fi
esac
"""
_UNLESS_LEFT_OUT = "test ! -e .left-out || exit 0\n"
OWN_PATH = 'PATH="$PWD/.python/bin:$PWD/.python/Scripts:$PATH"\n'
"""Before a script, so that it runs in the environment that was made."""
_LONGEST_SLUG = 60


def find_family(cell: Cell) -> str:
    """The operating system of its machine; a cell that names none runs on Linux."""
    return family_of(cell.system) or "linux"


def has_python(machine: RunsOn, python: str) -> bool:
    """Whether a machine is a container with the Python of its cell.

    Those that are named after Python have no free-threaded one, unless they say so.
    """
    named = python if python.endswith("t") else "python"
    return not machine.pool and named in machine.image


def choose_step(pipeline: Pipeline) -> ShellStep:
    """Ask whether the cell is one of those that a variable narrows this run to."""
    install = install_step(pipeline.settings).script.strip()
    script = _CHOOSE.replace("@INSTALL@", install)
    return ShellStep(
        name="Choose the cell",
        script=script.replace("@CELLS@", shlex.quote(pipeline.source)),
    )


def list_steps(stage: PipelineStage, pipeline: Pipeline) -> list[ShellStep]:
    """The steps of a stage of a cell, which have nothing to do in a run that leaves it out."""
    steps = [replace(step, script=f"{_UNLESS_LEFT_OUT}{step.script}") for step in stage.steps]
    return [choose_step(pipeline), *steps]


def name_pythons(job: SmokeJob) -> dict[str, str]:
    """The variables of a smoke job that say which Pythons it needs."""
    return {JOB_PYTHON: job.pythons[-1], SMOKE_PYTHONS: "\n".join(job.pythons)}


def hide_secrets(step: ShellStep, settings: CiSettings) -> str:
    """The script of a step, without those secrets that the system gives all jobs, but not to it.

    Installing runs other people's code, and so does a build.
    """
    names = [name for name in settings.publish_secrets if name not in step.secrets]
    return f"unset {' '.join(names)}\n{step.script}" if names else step.script


def jobs_of(stage: PipelineStage, pipeline: Pipeline, system: str) -> list[SmokeJob]:
    """The jobs of a stage of the night; none for one that is a single job."""
    return [job for job in pipeline.smoke_jobs[system] if job.stage == stage.name]


def list_needed(stage: PipelineStage, present: Iterable[str]) -> list[str]:
    """The stages that a stage waits for, of those that its cell has."""
    there = set(present)
    return [name for name in stage.needs if name in there]


def stages_of(
    cell: PipelineCell, stages: Iterable[PipelineStage], *, trusted: bool = True
) -> list[PipelineStage]:
    """Those of its chain; without trust none that has secrets or writes into a store."""
    return [
        stage
        for stage in stages
        if (cell.gpu_runners or not stage.gpu) and (trusted or not stage.trusted)
    ]


def identify(text: str, joint: str) -> str:
    """A name of letters, digits and ``joint`` alone; other texts have others, by a hash behind it.

    The same text always has the same one, whatever else there is.
    """
    slug = re.sub(r"[^A-Za-z0-9]+", joint, text)[:_LONGEST_SLUG].strip(joint)
    return f"{slug}{joint}{hashlib.sha256(text.encode()).hexdigest()[:10]}"
