"""The recipes of the README and docs/ work as they are written, from this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from binary_checks import __version__
from fixtures.build_conda import build_conda
from fixtures.build_cpp_archive import build_cpp_archive
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.conda.channel import build_python, index
from fixtures.samples import FOLDER

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
SAMPLE = FOLDER / "wheels" / "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"
LIBRARY = build_elf(soname="libdemo.so", needed=("libc.so.6",))
TOOL = f"binary_checks-{__version__}-py3-none-any.whl"
NEEDS_INDEX = re.compile(r"pip |tox |.*(?: index:|--for|image:)")  # lines that download
pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="bash is not Windows' own"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a wheel for Linux runs there"),
]


def readme() -> str:
    return (ROOT / "README.md").read_text("utf-8")


def nights() -> str:
    """The part of a page about nights without a repository of artifacts."""
    text = (ROOT / "docs" / "release_chain.md").read_text("utf-8")
    return text[text.index("## Every night") :]


def recipes() -> str:
    first = readme()[readme().index("## In cibuildwheel\n") : readme().index("## Known problems\n")]
    return first + (ROOT / "docs" / "recipes.md").read_text("utf-8") + nights()


def release_chain() -> str:
    text = (ROOT / "docs" / "release_chain.md").read_text("utf-8")
    return text.removesuffix(nights())


def commands(text: str) -> list[str]:
    """The blocks of commands, which are indented; those in fences are settings."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def block_of(language: str, having: str, text: str = "") -> str:
    """The one block in that language that has such a table or key."""
    pattern = rf"^```{language}\n(.*?)^```$"
    blocks = re.findall(pattern, text or recipes(), re.DOTALL | re.MULTILINE)
    (found,) = (block for block in blocks if having in block)
    return str(found)


def settings(language: str, having: str) -> Any:
    """What that block says."""
    read = tomllib.loads if language == "toml" else yaml.safe_load
    return read(block_of(language, having))


def named(block: str) -> str:
    return block.split("\n", 1)[0][:60]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A folder as a project has it after a build."""
    for folder in ("dist", "last", "mine", "tools", "linux-64"):
        (tmp_path / folder).mkdir()
    shutil.copy(SAMPLE, tmp_path / "dist")
    shutil.copy(SAMPLE, tmp_path / "mine")
    shutil.copy(SAMPLE, tmp_path / "last")
    (tmp_path / "cells.toml").write_text(block_of("toml", "[[cells]]"))
    for tag, sample in (("macosx_11_0_x86_64", "macho/plain.dylib"), ("win_amd64", "pe/plain.dll")):
        content = (FOLDER / sample).read_bytes()
        members = {"other/__init__.py": "", f"other/{Path(sample).name}": content}
        build_wheel(tmp_path / "dist", name="other", tags=(f"py3-none-{tag}",), members=members)
    build_conda(tmp_path / "linux-64")
    build_channel(tmp_path / "channel")
    build_cpp_archive(tmp_path / "cpp", {"lib/libdemo.so": LIBRARY}, name="libdemo-1.0.zip")
    (tmp_path / "build/lib").mkdir(parents=True)
    (tmp_path / "build/lib/libdemo.so").write_bytes(LIBRARY)
    (tmp_path / "release.txt").write_text("demo-1.0-cp38-*.whl\nother-1.0-*.whl\n")
    return tmp_path


def build_channel(folder: Path) -> None:
    """A channel with the package that is judged, and a Python for it."""
    if find_spec("rattler") is None:
        pytest.skip("py-rattler is not installed")
    build_python(folder)
    build_conda(folder / "linux-64")
    index(folder)


def run(script: str, folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    known.pop("GITHUB_STEP_SUMMARY", None)
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env=known,
        capture_output=True,
        text=True,
        check=False,
    )


def make_programs(folder: Path) -> Path:
    """The programs of an environment in which binary_checks is installed."""
    folder.mkdir()
    for name, module in (("binary-checks", "binary_checks"), ("pytest", "pytest")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        program.chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("block", commands(recipes()), ids=named)
def test_commands_do_what_they_say(block: str, project: Path) -> None:
    lines = [line for line in block.splitlines() if not NEEDS_INDEX.match(line)]
    if not lines:
        pytest.skip("all of it needs an index: see the test of all recipes")
    ended = run("\n".join(lines), project, make_programs(project / "bin"))
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_the_two_samples_are_judged_as_the_readme_says(tmp_path: Path) -> None:
    (lines,) = (block for block in commands(readme()) if "demo_broken" in block)
    programs = make_programs(tmp_path / "bin")
    healthy, broken = (run(line, ROOT, programs) for line in lines.splitlines())
    assert (healthy.returncode, broken.returncode) == (0, 1), healthy.stdout + healthy.stderr
    assert ": fit" in healthy.stdout
    assert "whl: unfit" in broken.stdout
    assert "executable-stack: demo_broken-1.0-" in broken.stdout


@pytest.mark.slow
def test_known_problems_are_written_and_accepted_as_the_readme_says(project: Path) -> None:
    (lines,) = (block for block in commands(readme()) if "--write-known" in block)
    for old in project.glob("dist/*"):
        old.unlink()
    shutil.copy(next((FOLDER / "wheels").glob("demo_broken-*.whl")), project / "dist")
    programs = make_programs(project / "bin")
    first, second = (run(line, project, programs) for line in lines.splitlines())
    assert (first.returncode, second.returncode) == (1, 0), second.stdout + second.stderr


@pytest.mark.slow
def test_the_way_from_a_matrix_to_a_release_is_as_it_is_told(project: Path) -> None:
    """In one shell from an empty store: what pip installs is what the policy let through."""
    for extra in ("duckdb", "jinja2", "securesystemslib"):
        pytest.importorskip(extra)
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the keys")
    for name in ("cells.toml", "policy.toml"):
        (project / name).write_text(block_of("toml", f"# {name}", release_chain()))
    programs = make_programs(project / "bin")
    user = project / "user"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(user)], check=True)
    pip = programs / "pip"
    pip.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip --python "{user}" "$@"\n')
    pip.chmod(0o755)
    ended = run(f"COMMIT={'c' * 40}\n{''.join(commands(release_chain()))}", project, programs)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl: promoted" in ended.stdout
    assert [*user.glob("lib/python*/site-packages/demo-1.0.dist-info")]
    assert (project / "site" / "index.html").is_file()


def test_settings_name_the_wheel_that_this_checkout_makes() -> None:
    for text in (recipes(), release_chain()):
        assert {*re.findall(r"binary_checks-[\w.]+-py3-none-any\.whl", text)} == {TOOL}


@pytest.mark.slow
def test_cibuildwheel_runs_our_command_on_its_wheel(project: Path) -> None:
    table = settings("toml", "tool.cibuildwheel")["tool"]["cibuildwheel"]
    programs = make_programs(project / "bin")
    for key in ("audit", "test"):
        assert table[f"{key}-requires"] == [f"./tools/{TOOL}[fast]"]
        ended = run(table[f"{key}-command"].replace("{wheel}", str(SAMPLE)), project, programs)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def check_schema(schema: str, path: Path) -> None:
    if find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is not installed (nox -s workflows)")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_the_workflow_gives_the_action_what_it_takes(tmp_path: Path) -> None:
    workflow = settings("yaml", "./tools/binary_checks\n")
    (keeping,) = settings("yaml", "steps.packages.outputs")
    text = yaml.safe_dump({"on": workflow.pop(True), **workflow})  # YAML 1.1 takes on for true
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    step = workflow["jobs"]["judge"]["steps"][-1]
    assert step["with"].keys() <= action["inputs"].keys()
    assert "html" in keeping["with"]["path"]
    assert "html" in action["outputs"]
    (tmp_path / "w.yml").write_text(text)
    check_schema("vendor.github-workflows", tmp_path / "w.yml")


@pytest.mark.slow
def test_gitlab_finds_the_report_that_the_job_writes(project: Path) -> None:
    settings_of_ci = settings("yaml", "junit: problems.xml")
    job = settings_of_ci["packages"]
    install, command = job["script"]
    assert install.startswith("pip install ")
    assert run(command, project, make_programs(project / "bin")).returncode == 0
    report = ElementTree.parse(project / job["artifacts"]["reports"]["junit"])
    assert report.find(".//testcase") is not None
    assert report.find(".//failure") is None
    (project / "ci.yml").write_text(yaml.safe_dump(settings_of_ci))
    check_schema("vendor.gitlab-ci", project / "ci.yml")


def test_pre_commit_asks_for_a_hook_that_there_is() -> None:
    (repository,) = settings("yaml", "repos:")["repos"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert [hook["id"] for hook in repository["hooks"]] == [hook["id"] for hook in hooks]


@pytest.mark.network
def test_all_recipes_run_as_they_are_written(project: Path) -> None:
    """In an environment of their own, with what they install themselves."""
    subprocess.run([sys.executable, "-m", "venv", str(project / "venv")], check=True)
    programs = project / "venv" / "bin"
    subprocess.run([str(programs / "pip"), "install", "-q", "tox", "cibuildwheel"], check=True)
    tables = re.findall(r"^```toml\n(.*?)^```$", recipes(), re.DOTALL | re.MULTILINE)
    (project / "pyproject.toml").write_text("\n".join(tables))
    for block in commands(recipes()):
        ended = run(block.replace("PATH_OF_THE_CHECKOUT", str(ROOT)), project, programs)
        assert ended.returncode == 0, f"{block}\n{ended.stdout}{ended.stderr}"
    ended = run("cibuildwheel --print-build-identifiers --platform linux .", project, programs)
    assert "cp312-manylinux_x86_64" in ended.stdout, ended.stderr


@pytest.mark.network
def test_pre_commit_runs_the_hook_of_this_checkout(project: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(project / "venv")], check=True)
    programs = project / "venv" / "bin"
    subprocess.run([str(programs / "pip"), "install", "-q", "pre-commit"], check=True)
    script = f"""
        git init -q .
        pre-commit try-repo {ROOT} binary-checks --verbose --files dist/demo-1.0-*.whl
    """
    ended = run(script, project, programs)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl: fit" in ended.stdout
