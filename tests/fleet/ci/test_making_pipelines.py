"""From cells.toml to the pipeline that generators write from: stages, machines, options, smoke."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.ci.ci_settings import NOWHERE, RunsOn
from binary_checks.fleet.ci.generated_files import write_files
from binary_checks.fleet.ci.pipeline import (
    Pipeline,
    choose_job_python,
    list_warnings,
    make_options,
    make_pipeline,
    name_values,
)

CELLS = """\
[[cells]]
project = "torch"
system = ["linux-x86_64", "macos-arm64"]
python = ["3.9", "3.12"]
variant = ["cpu", "cu126"]
[[leave_out]]
when = "system=macos variant=cu*"
reason = "no CUDA there"
[[gpu]]
when = "variant=cu*"
[[run]]
when = "system=linux"
profile = "profiles/torch.toml"
options = ["--with-requirements"]
timeout = 600
"""
CI = """\
[ci]
systems = ["github", "circleci"]
build = ["python -m build --wheel"]
install = "./tools/binary_checks-0.1.0-py3-none-any.whl[fleet,sign]"
store = "s3://results/torch"
built = "test"
published = "release"
policy = "policy.toml"
key = "SIGNING_KEY"
secrets = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
[ci.environment]
AWS_REGION = "eu-central-1"
"""
KEPT = 'built = "test"\npublished = "release"\npolicy = "policy.toml"\n'
TOOL = "./tools/binary_checks-0.1.0-py3-none-any.whl[fleet,sign]"
GPU_RUNNER = """\
[[runners]]
when = "variant=cu*"
stage = "gpu"
github = ["self-hosted", "gpu-{variant}"]
circleci = { image = "nvidia/cuda:{variant}" }
"""

Make = Callable[..., Pipeline]
Warn = Callable[[str], list[str]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(text: str = CELLS + CI + GPU_RUNNER, name: str = "cells.toml") -> Pipeline:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return make_pipeline(read_cells(path), tmp_path)

    return make


@pytest.fixture
def warn(make: Make, tmp_path: Path) -> Warn:
    """What is warned of, where all named files exist."""
    (tmp_path / "profiles").mkdir()
    for name in ("policy.toml", "profiles/torch.toml"):
        (tmp_path / name).write_text("", encoding="utf-8")
    return lambda text: [*list_warnings(make(text), tmp_path)]


def test_a_cell_is_built_tested_on_both_and_published(make: Make) -> None:
    assert make().stages == ("build", "test", "gpu", "publish")
    assert make(CELLS + CI.replace(KEPT, "") + GPU_RUNNER).stages == ("build", "test", "gpu")
    watched = '[ci]\nsystems = ["github"]\nstore = "s3://results/torch"\ninstall = "x"\n'
    assert make(CELLS + watched + GPU_RUNNER).stages == ()  # what is not built


def test_the_values_of_a_cell_are_variables(make: Make) -> None:
    pipeline = make()
    cell = pipeline.matrix.cells[3]
    assert name_values(cell, pipeline.matrix.axes) == {
        "CELL": "torch-linux-x86_64-3.12-cu126",
        "CELL_PROJECT": "torch",
        "CELL_SYSTEM": "linux",
        "CELL_ARCHITECTURE": "x86_64",
        "CELL_PYTHON": "3.12",
        "CELL_VARIANT": "cu126",
    }
    options = make_options(cell, pipeline.matrix, Path(pipeline.source), python=())
    assert options == ("--profile", "profiles/torch.toml", "--with-requirements")
    assert pipeline.place_cells("github")[3].minutes == 20


def test_a_python_too_old_for_the_tool_is_inspected_only(make: Make) -> None:
    pipeline = make(CELLS + CI.replace('"circleci"', '"tox"'))
    cell = pipeline.matrix.cells[0]
    assert cell.python == "3.9"
    assert choose_job_python(cell, pipeline.settings) == "3.13"
    first, *others = write_files(pipeline)[0]["tox.toml"].split("[env.")[2:]
    assert 'base_python = [ "3.13" ]' in first
    assert '"--static"' in first
    assert '"--static"' not in others[-1]


def test_machines_are_ours_until_the_file_says_otherwise(make: Make) -> None:
    on_circleci = RunsOn(image="cimg/python:3.12", size="medium")
    cells = make().place_cells("github")
    assert cells[2].machine == RunsOn(labels=("ubuntu-24.04",))
    assert cells[-1].machine == RunsOn(labels=("macos-15",))
    assert cells[2].gpu_machine == NOWHERE
    assert cells[3].gpu_machine == RunsOn(labels=("self-hosted", "gpu-cu126"))
    assert make().place_cells("circleci")[2].machine == on_circleci
    own = '[[runners]]\nwhen = "system=linux"\ngithub = ["self-hosted", "big"]\n'
    changed = make(CELLS + CI + GPU_RUNNER + own)
    assert changed.place_cells("github")[2].machine == RunsOn(labels=("self-hosted", "big"))
    assert changed.place_cells("circleci")[2].machine == on_circleci


def test_the_smoke_shares_cells_of_the_same_machines(make: Make) -> None:
    pipeline = make(CELLS + CI.replace("[ci.env", "smoke_cells = 3\n[ci.env") + GPU_RUNNER)
    groups = pipeline.group_smoke("github")
    gpu = RunsOn(labels=("self-hosted", "gpu-cu126"))
    assert [
        (each.name, len(each.ids.split()), each.machine.labels, each.gpu_machine) for each in groups
    ] == [
        ("1", 2, ("ubuntu-24.04",), NOWHERE),
        ("2", 2, ("ubuntu-24.04",), gpu),
        ("3", 2, ("macos-15",), NOWHERE),
    ]
    assert groups[0].pythons == ("3.9", "3.12", "3.13")


def test_a_runner_for_no_cell_is_warned_of(warn: Warn) -> None:
    idle = '[[runners]]\nwhen = "system=windows"\ngithub = "x"\n'
    idle += '[[runners]]\nwhen = "variant=cpu"\nstage = "gpu"\ngithub = "x"\n'
    first, second = warn(CELLS + CI + GPU_RUNNER + idle)
    assert first.endswith("33: runners[1]: when = 'system=windows' matches no cell; remove it")
    assert "when = 'variant=cpu' matches no cell with a GPU stage" in second
    assert warn(CELLS + CI + GPU_RUNNER) == []


def test_builds_that_no_channel_keeps_are_warned_of(warn: Warn) -> None:
    (warning,) = warn(CELLS + CI.replace(KEPT, "") + GPU_RUNNER)
    assert warning.startswith(
        "cells.toml: ci: 'built' is missing: builds are tested, but not stored"
    )


@pytest.mark.parametrize("system", ["github", "circleci", "tox"])
def test_without_install_no_job_is_written_that_would_guess_a_name(make: Make, system: str) -> None:
    """Anybody could register a name that is on no index, and those jobs hold secrets."""
    watched = f'[ci]\nsystems = ["{system}"]\nstore = "s3://results/torch"\n'
    for settings in (watched, watched.replace("store", "build")):
        with pytest.raises(
            ProfileError, match="ci: 'install' is missing: state which binary"
        ) as error:
            make(CELLS + settings + GPU_RUNNER)
        assert "\n" not in str(error.value)
        assert 'Write install = "./tools/binary_checks-' in str(error.value)


@pytest.mark.parametrize(
    "settings", ['systems = ["docs"]\nstore = "s3://results/torch"', 'systems = ["github"]']
)
def test_where_no_job_installs_the_tool_nothing_need_be_stated(make: Make, settings: str) -> None:
    assert make(CELLS + f"[ci]\n{settings}\n" + GPU_RUNNER).settings.install == ()


@pytest.mark.parametrize(
    "text",
    [
        TOOL,
        ".[fleet,sign]",
        "binary-checks[fleet,sign]==0.1.0",
        f"binary-checks @ https://example.org/tool.whl#sha256={'ab' * 32}",
        f"binary-checks[fleet] @ git+https://example.org/tool.git@{'ab' * 20}",
    ],
)
def test_what_is_stated_is_what_every_job_installs(make: Make, text: str) -> None:
    files, _ = write_files(make(CELLS + CI.replace(TOOL, text) + GPU_RUNNER))
    found = {
        line.strip()
        for content in files.values()
        for line in content.splitlines()
        if "pip install" in line and " uv" not in line
    }
    assert found == {f"python -m pip install {shlex.quote(text)}"}


def test_a_matrix_in_a_folder_names_its_files_from_the_repository(make: Make) -> None:
    pipeline = make(name="ci/cells.toml")
    assert pipeline.source == "ci/cells.toml"
    cell = pipeline.matrix.cells[3]
    options = make_options(cell, pipeline.matrix, Path(pipeline.source), python=())
    assert "ci/profiles/torch.toml" in options
    texts = "".join(write_files(pipeline)[0].values())
    assert "binary-checks ci stage test --cells ci/cells.toml\n" in texts
    assert "binary-checks cells ci/cells.toml --ci github >> " in texts


RUNNER = CELLS + CI + '[[runners]]\nwhen = "variant=cu*"\n'


def changed(old: str, new: str) -> str:
    return CELLS + CI.replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CELLS, "cells.toml: it has no [ci]"),
        (CELLS + "[ci]\n", "ci: 'systems' is missing; name some of: github, circleci, tox"),
        (CELLS + '[ci]\nsystems = ["githup"]\n', "systems: 'githup' is not one of: github,"),
        (CELLS + '[ci]\nsystems = ["github"]\nbiuld = "x"\n', "ci: unknown key 'biuld'; did you"),
        (
            RUNNER + 'stage = "cuda"\n',
            "cells.toml:30: runners[0]: stage: 'cuda' is not one of: cpu, gpu",
        ),
        (
            RUNNER + 'githup = "x"\n',
            "toml:30: runners[0]: unknown key 'githup'; did you mean 'github'?",
        ),
        (
            RUNNER + 'github = "{pyhton}"\n',
            "github: labels: unknown axis 'pyhton'; did you mean 'python'?",
        ),
        (RUNNER + 'github = "x-{python"\n', "has an unmatched brace"),
        (
            CELLS + CI + '[[runners]]\nwhen = "id=*"\ngithub = "x\\n- evil"\n',
            "is not the name of a machine or an image",
        ),
        (changed('built = "test"\n', ""), "ci: 'published' is set, but 'built', which it"),
        (changed('policy = "policy.toml"\n', ""), "ci: 'published' is set, but there is no policy"),
        (changed('"SIGNING_KEY"', '"hunter2 "'), "ci: key: not a name for a variable"),
        (
            changed('"AWS_ACCESS_KEY_ID"', '"AKIAIOSFODNN7EXAMPLE"'),
            "cells.toml: ci: secrets[0]: not a name for a variable, such as SIGNING_KEY",
        ),
        (changed('"release"', '"test"'), "built and published are one channel, 'test'"),
        (changed("[ci.env", 'branch = "v*"\n[ci.env'), "'v*' is a pattern; name one"),
        (changed(TOOL, ""), "install: it has an empty line"),
        (
            changed(TOOL, "binary-checks @ https://example.org/tool.whl#sha256=ab"),
            "tool.whl#sha256=ab' could change, and the jobs that install it have secrets",
        ),
        (
            changed(TOOL, "binary-checks @ git+https://example.org/tool.git@main"),
            "or name a git repository as .git@COMMIT",
        ),
        (RUNNER, "cells.toml:28: runners[0]: name a machine for one of: github, circleci"),
        (CELLS + CI + 'AWS_SECRET_KEY = "x"\n', "AWS_SECRET_KEY: list the name in 'secrets'"),
        (CELLS + CI + 'CELL_PYTHON = "x"\n', "environment: 'CELL_PYTHON' is reserved"),
        (changed("--wheel", "${{ github.head_ref }}"), "has an expression of a CI system"),
        (changed("policy.toml", "policy\\n.toml"), "is not one line of printable text"),
        (changed("s3://", "s3://key:secret@"), "ci: store: s3://"),
        (changed("[ci.env", 'schedule = "daily"\n[ci.env'), "is not five cron fields"),
        (changed("[ci.env", 'python = "3.10"\n[ci.env'), "is not 3.11 or later"),
    ],
)
def test_a_mistake_is_one_line(make: Make, text: str, said: str) -> None:
    with pytest.raises(ProfileError) as raised:
        make(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "AKIA" not in str(raised.value)  # what may be a secret


def test_a_cell_without_a_machine_concerns_the_system_that_lacks_it_alone(make: Make) -> None:
    files, refused = write_files(make(CELLS + CI + GPU_RUNNER.replace("circleci = {", "# {")))
    assert {path.partition("/")[0] for path in files} == {".github"}
    assert refused == {
        "circleci": "cells.toml: runners: circleci has no machine for "
        "torch-linux-x86_64-3.9-cu126 and 1 more; write [[runners]] with when = "
        '"id=torch-linux-x86_64-3.9-cu126", stage = "gpu" and circleci = …'
    }
    # An architecture that nobody hosts.
    text = CELLS.replace('"linux-x86_64"', '"linux-s390x"') + CI + GPU_RUNNER
    files, refused = write_files(make(text))
    assert files == {}
    assert "github has no machine for torch-linux-s390x-3.9-cpu" in refused["github"]


def test_the_example_of_the_documentation_is_read(make: Make) -> None:
    text = (Path(__file__).parents[3] / "docs" / "ci.md").read_text("utf-8")
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    (settings,) = (textwrap.dedent(each) for each in blocks if each.lstrip().startswith("[ci"))
    pipeline = make(CELLS + settings)
    assert pipeline.settings.published == "release"
    cell = pipeline.place_cells("github")[3]
    assert cell.gpu_machine.labels == ("self-hosted", "gpu-cu126")
