"""The shell of jobs on all CI systems: a Python, the tool, and the one command of a stage.

Scripts have no value of a cell in them: its id comes as the variable CELL, and `ci stage` reads the
rest from the matrix.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from binary_checks.fleet.cells.cells_file import DEFAULT_FILE
from binary_checks.fleet.cells.matrix import family_of
from binary_checks.fleet.ci.ci_settings import RunsOn
from binary_checks.fleet.ci.generated_files import heading
from binary_checks.fleet.ci.pipeline import Pipeline
from binary_checks.fleet.ci.running_stages import CPU_RESULTS, DIST, GPU_RESULTS, SITE
from binary_checks.fleet.night import Cell

JOB_PYTHON = "JOB_PYTHON"
"""The variable with the version of Python that runs a job."""
SMOKE_PYTHONS = "SMOKE_PYTHONS"
"""The variable with those that the cells of a smoke job name, separated by spaces."""
TAKES: Mapping[str, tuple[str, ...]] = {
    "test": (DIST,),
    "gpu": (DIST, CPU_RESULTS),
    "publish": (DIST, CPU_RESULTS, GPU_RESULTS),
}
"""The folders that a stage gets from stages before it."""
LEAVES: Mapping[str, str] = {
    "build": DIST,
    "test": CPU_RESULTS,
    "gpu": GPU_RESULTS,
    "collect": SITE,
}
"""The folder that a stage leaves, even if it has failed."""
ARTIFACTS: Mapping[str, str] = {
    DIST: "dist",
    CPU_RESULTS: "cpu",
    GPU_RESULTS: "gpu",
    SITE: "site",
}
"""What the artifact of a folder is called, with the id of the cell behind it."""
MAKE_PYTHON = f"""\
if ! command -v uv > /dev/null; then
  case "$(uname -s)" in
    Darwin) brew install --quiet uv ;;
    Linux) python3 -m venv .uv && .uv/bin/python -m pip install --quiet uv ;;
    *) choco install uv --yes --no-progress ;;
  esac
fi
PATH="$PWD/.uv/bin:$PATH"
uv venv --quiet --clear --seed --python "${JOB_PYTHON}" .python
"""
"""For machines without a container: uv takes a Python that is there, or downloads one."""
FETCH_PYTHONS = f"""\
python -m pip install --quiet uv
uv python install --quiet ${SMOKE_PYTHONS}
"""
"""The night finds them where uv keeps them."""
OWN_PATH = 'PATH="$PWD/.python/bin:$PWD/.python/Scripts:$PATH"\n'
"""Before a script, so that it runs in the environment that was made."""
_LONGEST_SLUG = 60


def install_line(pipeline: Pipeline) -> str:
    """Put the tool into the job's Python."""
    return f"python -m pip install {shlex.join(pipeline.settings.install)}\n"


def stage_line(pipeline: Pipeline, stage: str) -> str:
    """Run a stage, of the cells that the variable CELL names: no shell has to quote them."""
    return f"binary-checks ci stage {stage}{_name_matrix(pipeline, '--cells ')}\n"


def plan_line(pipeline: Pipeline, system: str) -> str:
    """Print the jobs of this run, in the form that a CI system takes."""
    return f"binary-checks cells{_name_matrix(pipeline)} --ci {system}\n"


def _name_matrix(pipeline: Pipeline, option: str = "") -> str:
    source = pipeline.source
    return "" if source == DEFAULT_FILE else f" {option}{shlex.quote(source)}"


def hide_secrets(script: str, pipeline: Pipeline, stage: str = "") -> str:
    """The script without those secrets that the system gives all jobs, but not to this stage.

    Installing runs other people's code, and so does a build.
    """
    kept = secrets_of(pipeline, stage)
    names = [name for name in pipeline.settings.publish_secrets if name not in kept]
    return f"unset {' '.join(names)}\n{script}" if names else script


def secrets_of(pipeline: Pipeline, stage: str) -> tuple[str, ...]:
    """The names of the secrets that a stage reads."""
    if stage == "publish":
        return pipeline.settings.publish_secrets
    return () if stage in ("", "build", "test", "gpu") else pipeline.settings.secrets


def find_family(cell: Cell) -> str:
    """The operating system of its machine; a cell that names none runs on Linux."""
    return family_of(cell.system) or "linux"


def has_python(machine: RunsOn, python: str) -> bool:
    """Whether a machine is a container with the Python of its cell.

    Those that are named after Python have no free-threaded one, unless they say so.
    """
    named = python if python.endswith("t") else "python"
    return not machine.pool and named in machine.image


def identify(text: str, joint: str) -> str:
    """A name of letters, digits and ``joint`` alone; other texts have others, by a hash behind it.

    The same text always has the same one, whatever else there is.
    """
    slug = re.sub(r"[^A-Za-z0-9]+", joint, text)[:_LONGEST_SLUG].strip(joint)
    return f"{slug}{joint}{hashlib.sha256(text.encode()).hexdigest()[:10]}"


# Writes YAML by PyYAML: equal documents have the same bytes, on every Python.

_PINNED = re.compile(r"(?m)^(?P<before> *(?:- )?uses: )(?P<action>\S+@[0-9a-f]{40})$")
_NUMERIC = re.compile(r"[-+]?\.?[0-9][^\s:]*|[-+]?\.(?:inf|nan)", re.IGNORECASE)
"""What YAML 1.2 may read as a number: 1e3, 0o7, 08; PyYAML quotes what 1.1 would."""
_STEP = {"run", "uses", "bash", "task", "script"}
"""A mapping with one of these keys has a line for each of its keys."""
_HARD = {"\n", "'"}
_WIDE = 1 << 20  # columns: a text is never folded

_Fastest: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Fastest):  # type: ignore[misc] # libyaml's, where PyYAML was built with it
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write what is there twice twice: no schema of a CI system knows anchors."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _NUMERIC.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_mapping(dumper: yaml.SafeDumper, mapping: dict[str, Any]) -> yaml.MappingNode:
    short = _is_short([*mapping, *mapping.values()]) and not _STEP & mapping.keys()
    tag = "tag:yaml.org,2002:map"
    return dumper.represent_mapping(tag, mapping, flow_style=short)


def _represent_list(dumper: yaml.SafeDumper, items: Sequence[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=_is_short(items))


def _is_short(values: Iterable[Any]) -> bool:
    """Whether a mapping or a list is written in one line: it has plain values, without a quote.

    In one line a quote stands in quotes, where readers of expressions would not know it.
    """
    return not any(
        isinstance(each, (Mapping, list, tuple)) or _HARD & {*str(each)} for each in values
    )


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(dict, _represent_mapping)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(tuple, _represent_list)


def write_yaml(document: Mapping[str, Any], pipeline: Pipeline) -> str:
    """The document below its heading, in its own order, with the tag behind each pinned action."""
    pins = {pin.used: pin.tag for pin in pipeline.settings.actions.values()}

    def add_tag(found: re.Match[str]) -> str:
        return f"{found[0]} # {pins[found['action']]}"

    return f"# {heading(pipeline)}\n{_PINNED.sub(add_tag, dump_yaml(document))}"


def dump_yaml(document: Mapping[str, Any]) -> str:
    """The document as YAML, in its own order."""
    text: str = yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=_WIDE)
    return text
