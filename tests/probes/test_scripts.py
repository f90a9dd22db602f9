"""Probes are scripts that any interpreter since 3.8 runs, with nothing but its standard library."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import resources
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from binary_checks.declaring import load_checks
from binary_checks.model import Ending
from binary_checks.places.running import identify, run_probe
from fixtures.environments import list_interpreters

FOLDER = Path(str(resources.files("binary_checks.probes")))
STARTERS = Path(str(resources.files("binary_checks.places.scripts")))
SCRIPTS = sorted(
    [*FOLDER.glob("*/script.py"), FOLDER / "process.py"]
    + [FOLDER / "gpu_torch" / "steps.py"]
    + [path for path in STARTERS.glob("*.py") if path.name != "__init__.py"]
)
SCRIPTS.remove(STARTERS / "pip_without_urls.py")  # it runs pip, in an interpreter that has one
SCRIPTS.remove(STARTERS / "conda_worker.py")  # and that py-rattler, in our own


def name_script(path: Path) -> str:
    return path.parent.name if path.stem == "script" else path.stem


each_script = pytest.mark.parametrize("path", SCRIPTS, ids=name_script)


@each_script
def test_a_probe_is_written_in_the_python_of_3_8_and_imports_the_standard_library_alone(
    path: Path,
) -> None:
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    assert tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    # The packaging that a request names is loaded from its path, and missed without harm.
    allowed = {"packaging.tags"} if name_script(path) == "identify" else set()
    outside = {
        name for name in names - allowed if name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert outside == set()


@each_script
def test_a_probe_leaves_the_import_of_typing_to_the_package(path: Path) -> None:
    read = "import sys; code = open(sys.argv[1], encoding='utf-8').read()"
    leave = "sys.exit('typing' in sys.modules)"
    command = f"{read}; exec(code, {{'__name__': 'probe'}}); {leave}"
    subprocess.run((sys.executable, "-I", "-S", "-c", command, path), check=True)


each_interpreter = pytest.mark.parametrize(
    "python", list_interpreters(), ids=lambda path: str(path.parts[-3])
)
NEW_GRAMMAR = (
    ((3, 10), "match f(x=1):\n    case 1: pass  # one\n"),
    ((3, 12), "def f[T](x: T): pass\n"),
    ((3, 12), "if x:\n    type X = int\n"),
    ((3, 12), "class A[\n    T,\n]: pass\n"),
    ((3, 13), "def f[T: list[int], U = int](): pass\n"),
    ((3, 13), "type X[T = int] = list[T]\n"),
    ((3, 14), "x = rt'{a}'\n"),
    ((3, 14), "try: pass\nexcept A, b.B: pass\n"),
    ((3, 14), "try: pass\nexcept* A, B: pass\n"),
)


@pytest.mark.parametrize(("since", "code"), NEW_GRAMMAR)
def test_each_new_grammar_has_a_hint(
    monkeypatch: pytest.MonkeyPatch, since: tuple[int, int], code: str
) -> None:
    hints = load(monkeypatch, "compile_modules").HINTS
    assert any(hint.search(code.encode()) for version, hint in hints if version == since)


@each_interpreter
def test_every_interpreter_at_hand_says_who_it_is_and_knows_its_grammar(
    tmp_path: Path, python: Path
) -> None:
    version = subprocess.run(
        (python, "-c", "import platform; print(platform.python_version())"),
        capture_output=True,
        text=True,
        check=True,
    )
    target = identify(python, timeout=60)
    assert target.version == version.stdout.strip()
    assert any(tag.interpreter.startswith(("cp", "pp")) for tag in target.tags)
    assert target.extension_suffixes
    major, minor = target.version.split(".")[:2]
    for since, code in NEW_GRAMMAR:
        if since > (int(major), int(minor)):
            continue
        (tmp_path / "a.py").write_text(code)
        request = {"site_packages": str(tmp_path), "step": "compile", "files": ["a.py"]}
        for lowest, count in ((since[1] - 1, 1), (since[1], 0)):
            asked = {**request, "lowest": [3, lowest]}
            answer = run_probe(python, "compile_modules", asked, timeout=60).answer
            assert len(answer["broken"]) == count, (code, lowest)


@each_interpreter
@pytest.mark.parametrize(
    ("script", "asked", "expected"),
    [
        ("import_name", {"name": "json"}, {"state": "imported", "gil_enabled": None}),
        ("import_name", {"name": "no.such"}, {"state": "raised", "missing_module": "no"}),
        ("load_extensions", {"extensions": [], "broken_parents": []}, {"finished": True}),
        (
            "load_entry_points",
            {
                "command": "tool",
                "modules": [
                    {"module": "json", "points": [{"attribute": "loads", "script": True}]},
                    {"module": "no.such", "points": [{"attribute": "", "script": False}]},
                ],
            },
            {"state": "finished"},
        ),
        (
            "compile_modules",
            {"step": "compile", "files": ["absent.py"], "lowest": [3, 7]},
            {"more": 0},
        ),
        (
            "compile_modules",
            {"step": "follow", "roots": ["demo"]}
            | {"modules": {}, "wanted": [], "never": [], "others": []},
            {"reached": {}, "complete": True},
        ),
        (
            "ask_module",
            {"module": "json", "snippet": "measured = {'x': 1}", "questions": ["json.no", "1"]},
            {"state": "finished", "stage": "", "measured": {"x": 1.0}},
        ),
        ("gpu_host", {}, {"stage": ""}),
        ("gpu_torch", {"steps": ["rnn"]}, {"state": "raised", "stage": "import torch"}),
        ("nvidia_libraries", {"module": "json"}, {"state": "finished"}),
        ("gpu_compilers", {"compiler": "nvJitLink"}, {"state": "finished", "library": ""}),
        (
            "gpu_compilers",
            {"compiler": "Triton", "targets": []},
            {"state": "raised", "stage": "import triton"},
        ),
        (
            "gpu_compilers",
            {"compiler": "NVRTC", "module": "json", "load": "json.no", "targets": []},
            {"state": "finished", "lying": []},
        ),
    ],
)
def test_every_probe_runs_on_every_interpreter_at_hand(
    tmp_path: Path, python: Path, script: str, asked: dict[str, Any], expected: dict[str, Any]
) -> None:
    request = {"site_packages": str(tmp_path), **asked}
    result = run_probe(python, script, request, timeout=60)
    assert (result.outcome, result.stderr) == (Ending.OK, "")
    assert dict(result.answer) | expected == dict(result.answer)


def load(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    monkeypatch.setitem(sys.modules, f"probe_{name}", sys)  # put back what load_checks sets
    path = FOLDER / "process.py" if name == "process" else FOLDER / name / "script.py"
    return load_checks(str(path), f"probe_{name}")


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(monkeypatch, "process")


def test_the_loaders_refusal_is_found_below_what_a_package_makes_of_it(
    process: ModuleType,
) -> None:
    path = f"/e/a{EXTENSION_SUFFIXES[-1]}"
    refused = ImportError("libx.so.1: cannot open", name="a", path=path)
    try:
        try:
            raise refused
        except ImportError as error:
            raise RuntimeError("please reinstall") from error
    except RuntimeError as outer:
        assert process.find_loader_error(outer) is refused
    assert process.find_loader_error(ImportError("no", path="/e/a.py")) is None
    no_name = ImportError("cannot import name 'x' from 'a'", name="a", path=path)
    assert process.find_loader_error(no_name) is None


@pytest.mark.parametrize(
    ("version", "enabled", "expected"),
    [
        ("3.13.1 experimental free-threading build", True, True),
        ("3.14.0 free-threading build", False, False),
        ("3.13.1 (main)", True, None),
    ],
)
def test_only_a_free_threaded_interpreter_has_a_gil_to_bring_back(
    process: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    enabled: bool,
    expected: bool | None,
) -> None:
    monkeypatch.setattr(sys, "version", version)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: enabled, raising=False)
    assert process.reenabled_gil() is expected


def test_the_absence_that_ended_it_is_found_below_what_a_package_makes_of_it(
    process: ModuleType,
) -> None:
    site = str(Path("/e/site"))
    path = str(Path(site, "demo", "..", "demo", "a.json"))
    absent = FileNotFoundError(2, "No such file or directory", path)
    wrapped = ImportError("please reinstall")
    wrapped.__cause__ = absent
    assert process.find_missing_file(wrapped, site) == "demo/a.json"
    assert process.find_missing_file(wrapped, site[:-1]) == ""
    assert process.find_missing_file(KeyError("a"), site) == ""
    no_module = ModuleNotFoundError("No module named 'tomli'", name="tomli")
    no_module.__context__ = ModuleNotFoundError("No module named 'tomllib'", name="tomllib")
    wrapped.__cause__ = no_module
    assert process.find_missing_module(wrapped) == "tomli"


def test_an_absence_that_the_code_had_got_over_is_not_to_blame(
    process: ModuleType,
) -> None:
    later: list[OSError | ImportError] = [
        OSError("no network"),
        ImportError("cannot import name 'x' from 'demo'", name="demo"),
    ]
    for each in later:
        each.__context__ = FileNotFoundError(2, "No such file", "/e/site/demo/cache.json")
        assert process.find_missing_file(each, "/e/site") == ""
        each.__context__ = ModuleNotFoundError("No module named 'demo.fast'", name="demo.fast")
        assert process.find_missing_module(each) == ""


def test_where_nobody_can_say_what_is_mapped_the_answer_is_none(
    process: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> set[str]:  # as of a hostile package that hides /proc
        raise PermissionError

    monkeypatch.setattr(process, "_mapped_on_linux", refuse)
    for platform in ("plan9", "linux"):
        monkeypatch.setattr(sys, "platform", platform)
        assert process.list_mapped() is None
