"""The shell scripts of jobs on all CI systems: get a Python, install the tool, run one command.

Scripts contain no value of a cell: its id is in the variable CELL, and `ci stage` reads the rest
from the matrix.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from binary_checks.fleet.cells import DEFAULT_FILE, family_of
from binary_checks.fleet.ci.ci_settings import RunsOn
from binary_checks.fleet.ci.generated_files import heading
from binary_checks.fleet.ci.pipeline import Pipeline
from binary_checks.fleet.ci.running_stages import CPU_RESULTS, DIST, GPU_RESULTS, SITE
from binary_checks.fleet.night import Cell

JOB_PYTHON = "JOB_PYTHON"
"""The variable with the version of Python for a job."""
SMOKE_PYTHONS = "SMOKE_PYTHONS"
"""The variable with the Pythons that the cells of a smoke job name, separated by spaces."""
TAKES: Mapping[str, tuple[str, ...]] = {
    "test": (DIST,),
    "gpu": (DIST, CPU_RESULTS),
    "publish": (DIST, CPU_RESULTS, GPU_RESULTS),
}
"""Stage -> folders of earlier stages that it needs."""
LEAVES: Mapping[str, str] = {
    "build": DIST,
    "test": CPU_RESULTS,
    "gpu": GPU_RESULTS,
    "collect": SITE,
}
"""Stage -> the folder that it leaves, even if it fails."""
ARTIFACTS: Mapping[str, str] = {
    DIST: "dist",
    CPU_RESULTS: "cpu",
    GPU_RESULTS: "gpu",
    SITE: "site",
}
"""Folder -> beginning of its artifact's name, which ends with the cell's id."""
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
"""For machines without a container: uv finds an installed Python, or downloads one."""
FETCH_PYTHONS = f"""\
python -m pip install --quiet uv
uv python install --quiet ${SMOKE_PYTHONS}
"""
"""Install the Pythons of a smoke job with uv, into a folder in which the night looks for them."""
OWN_PATH = 'PATH="$PWD/.python/bin:$PWD/.python/Scripts:$PATH"\n'
"""Precedes a script, so that the script runs in the environment that was made before."""
_LONGEST_SLUG = 60


def install_line(pipeline: Pipeline) -> str:
    """Return the line that installs the tool into the job's Python."""
    return f"python -m pip install {shlex.join(pipeline.settings.install)}\n"


def stage_line(pipeline: Pipeline, stage: str) -> str:
    """Return the line that runs a stage for the cells in the variable CELL."""
    return f"binary-checks ci stage {stage}{_name_matrix(pipeline, '--cells ')}\n"


def plan_line(pipeline: Pipeline, system: str) -> str:
    """Return the line that prints the jobs of this run in the form of a CI system."""
    return f"binary-checks cells{_name_matrix(pipeline)} --ci {system}\n"


def _name_matrix(pipeline: Pipeline, option: str = "") -> str:
    source = pipeline.source
    return "" if source == DEFAULT_FILE else f" {option}{shlex.quote(source)}"


def hide_secrets(script: str, pipeline: Pipeline, stage: str = "") -> str:
    """Return the script without the secrets that its stage does not need.

    The CI system passes them to all jobs, but installing and building run foreign code.
    """
    kept = secrets_of(pipeline, stage)
    names = [name for name in pipeline.settings.publish_secrets if name not in kept]
    return f"unset {' '.join(names)}\n{script}" if names else script


def secrets_of(pipeline: Pipeline, stage: str) -> tuple[str, ...]:
    """Return the names of the secrets that a stage needs."""
    if stage == "publish":
        return pipeline.settings.publish_secrets
    return () if stage in ("", "build", "test", "gpu") else pipeline.settings.secrets


def find_family(cell: Cell) -> str:
    """Return the operating system of a cell's machine; Linux if the cell names none."""
    return family_of(cell.system) or "linux"


def has_python(machine: RunsOn, python: str) -> bool:
    """Return whether a machine is a container with the cell's Python.

    An image whose name contains "python" has a free-threaded Python only if its name says so.
    """
    named = python if python.endswith("t") else "python"
    return not machine.pool and named in machine.image


def identify(text: str, joint: str) -> str:
    """Return a name of letters, digits and ``joint``, with a hash that makes the name unique.

    The same text always gives the same name.
    """
    slug = re.sub(r"[^A-Za-z0-9]+", joint, text)[:_LONGEST_SLUG].strip(joint)
    return f"{slug}{joint}{hashlib.sha256(text.encode()).hexdigest()[:10]}"


# Writing YAML with PyYAML: equal documents give the same bytes, on every Python.

_PINNED = re.compile(r"(?m)^(?P<before> *(?:- )?uses: )(?P<action>\S+@[0-9a-f]{40})$")
_NUMERIC = re.compile(r"[-+]?\.?[0-9][^\s:]*|[-+]?\.(?:inf|nan)", re.IGNORECASE)
"""Matches what YAML 1.2 reads as a number: 1e3, 0o7, 08. PyYAML knows only version 1.1."""
_STEP = {"run", "uses", "bash", "task", "script"}
"""A mapping with one of these keys is written with a line for each key."""
_HARD = {"\n", "'"}
_WIDE = 1 << 20  # columns: texts are never folded

_Fastest: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Fastest):  # type: ignore[misc] # libyaml's, where PyYAML was built with it
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write repeated values in full, because no CI system's schema knows anchors."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _NUMERIC.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


def _represent_mapping(dumper: yaml.SafeDumper, mapping: dict[str, Any]) -> yaml.MappingNode:
    short = _is_short([*mapping, *mapping.values()]) and not _STEP & mapping.keys()
    tag = "tag:yaml.org,2002:map"
    return dumper.represent_mapping(tag, mapping, flow_style=short)


def _represent_list(dumper: yaml.SafeDumper, items: Sequence[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=_is_short(items))


def _is_short(values: Iterable[Any]) -> bool:
    """Return whether a mapping or a list fits in one line: plain values without quotes.

    In one line, a value with a quote would itself be quoted, which hides expressions from readers.
    """
    return not any(
        isinstance(each, (Mapping, list, tuple)) or _HARD & {*str(each)} for each in values
    )


_Dumper.add_representer(str, _represent_text)
_Dumper.add_multi_representer(str, _represent_text)  # strings of a TOML file know their line
_Dumper.add_representer(dict, _represent_mapping)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(tuple, _represent_list)


def write_yaml(document: Mapping[str, Any], pipeline: Pipeline) -> str:
    """Return the document below its heading, with the tag after each pinned action."""
    pins = {pin.used: pin.tag for pin in pipeline.settings.actions.values()}

    def add_tag(found: re.Match[str]) -> str:
        return f"{found[0]} # {pins[found['action']]}"

    return f"# {heading(pipeline)}\n{_PINNED.sub(add_tag, dump_yaml(document))}"


def dump_yaml(document: Mapping[str, Any]) -> str:
    """Return the document as YAML, with its keys in the document's order."""
    text: str = yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=_WIDE)
    return text
