"""The entry points of an installed package are loaded, and its own faults told from all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks.python_code.entry_points import missing_entry_point
from binary_checks.model import (
    Ending,
    EntryPoint,
    Level,
    LoadedEntryPoint,
    LoadedEntryPoints,
    ModuleNames,
    NotInspected,
    Problem,
    PythonModules,
    Step,
    Wheel,
)
from binary_checks.probes.load_entry_points.reader import load_each, load_entry_points
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, UnpackedPlace, read_wheel, within
from fixtures.values import member, only, wheel

Load = Callable[..., tuple[UnpackedPlace, LoadedEntryPoints]]
Judge = Callable[..., list[Any]]
PATH = "demo-1.0.dist-info/entry_points.txt"


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    made: list[UnpackedPlace] = []

    def load_wheel(
        points: str, members: Mapping[str, Any]
    ) -> tuple[UnpackedPlace, LoadedEntryPoints]:
        members = {"demo/__init__.py": "", **members}
        path = build_wheel(
            tmp_path, members=members, tags=PURE, root_is_purelib=True, entry_points=points
        )
        place = UnpackedPlace(read_wheel(path), tmp_path / "environment")
        made.append(place)
        return place, load_entry_points(place, place.wheel)

    yield load_wheel
    for place in made:
        place.close()


@pytest.fixture
def judge(load: Load) -> Judge:
    def judge_wheel(points: str, members: Mapping[str, Any]) -> list[Any]:
        place, loaded = load(points, members)
        return list(missing_entry_point(place.wheel, PythonModules(), loaded))

    return judge_wheel


def commands(*values: str) -> str:
    rows = (f"c{number} = {value}\n" for number, value in enumerate(values))
    return "[console_scripts]\n" + "".join(rows)


def test_what_can_be_loaded_passes(judge: Judge) -> None:
    points = commands("demo.cli:main", "demo.cli:Tool.run", "demo.cli:late", "json.decoder:scanner")
    members = {
        "demo/cli.py": "main = print\nclass Tool:\n    run = print\n"
        "def __getattr__(name):\n    if name == 'late': return print\n    raise AttributeError\n"
    }
    members["demo/sub/inner.py"] = ""  # which only plugins may leave to others to import
    plugins = "[demo.plugins]\na = demo.cli\nb = demo.cli:main [extra]\nc = demo.cli.Tool\n"
    plugins += "d = demo:sub.inner\n[demo.manifest]\na = demo:a.yaml\n"
    members["demo/a.yaml"] = "a: 1\n"  # an entry point may name a file
    (not_called,) = judge(points + plugins, members)
    assert "c3 = json.decoder:scanner: it is not callable" in not_called.sentence


@pytest.mark.parametrize(
    ("value", "members", "said"),
    [
        ("demo.cli:main", {}, "No module named 'demo.cli': demo.cli is not in the wheel"),
        ("demo.cli:main", {"demo/cli.py": ""}, "module 'demo.cli' has no attribute 'main'"),
        ("demo.cli:main", {"demo/cli.py": "import demo.inner\n"}, "demo.inner is not in the wheel"),
        ("demo.cli:main", {"demo/cli.py": "main = prin\n"}, "name 'prin' is not defined"),
        ("demo.cli:main", {"demo/cli.py": "def (:\n"}, "SyntaxError: "),
        (
            "demo.cli:main",
            {"demo/cli.py": "from pathlib import Path\nPath(__file__, '../a').resolve().open()\n"},
            "demo/a is not in the wheel",
        ),
        ("demo.cli:main", {"demo/cli.py": "import os; os.abort()\n"}, "crashes: SIGABRT"),
    ],
)
def test_a_command_that_cannot_be_loaded(
    judge: Judge, value: str, members: dict[str, str], said: str
) -> None:
    points = commands(value, value) + f"[demo.plugins]\nplug = {value}\n"
    command, plugin = judge(points, members)
    assert isinstance(command, Problem)
    assert (command.path, command.level) == (PATH, Level.ERROR)
    assert command.sentence.startswith(
        f"the command c0 = {value} (and 1 more entry point of that module) "
    )
    assert said in command.sentence
    assert said in plugin.sentence
    assert isinstance(plugin, NotInspected) or plugin.level is Level.WARNING


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        ("import sys; sys.exit('install more')", "so it is not known whether the command works"),
        ("import os; os._exit(3)", "so it is not known whether the command works"),
        ("raise RuntimeError('cannot connect to display')", "it may need a display"),
        ("raise ImportError('libGL.so.1: cannot open it')", "it may need a display"),
        (
            "raise ModuleNotFoundError('tkinter', name='tkinter')",
            "this Python was built without tkinter",
        ),
    ],
)
def test_a_command_that_may_be_healthy_is_not_inspected(
    judge: Judge, code: str, doubt: str
) -> None:
    found = only(NotInspected, judge(commands("demo.cli:main"), {"demo/cli.py": code}))
    assert found.sentence.endswith(doubt)


@pytest.mark.parametrize(
    "code", ["import sys; sys.exit('x')", "import os; os._exit(0)", "assert False"]
)
def test_what_loading_cannot_answer_the_source_may(load: Load, code: str) -> None:
    place, loaded = load(commands("demo.cli:maim", "demo.cli:main"), {"demo/cli.py": code})
    path = next(each.path for each in place.wheel.members if each.path.endswith("cli.py"))
    bound = frozenset({"main"})
    names = ModuleNames(
        path=path, bound=bound, extends_path=False, fills_modules=False, has_code=True
    )
    typo, other = missing_entry_point(place.wheel, PythonModules(names=(names,)), loaded)
    assert typo.sentence == "the command c0 = demo.cli:maim: demo.cli binds no maim"
    assert typo.level is Level.ERROR
    assert other.sentence.startswith("the command c1 = demo.cli:main ")
    assert isinstance(other, NotInspected) or other.level is Level.WARNING


def test_groups_are_judged_apart(judge: Judge) -> None:
    points = "[demo.plugins]\na = demo.cli:x\n[pytest11]\nb = demo.cli:x\n"
    mild, grave = judge(points, {"demo/cli.py": ""})
    assert (mild.level, grave.level) == (Level.WARNING, Level.ERROR)
    points = "[gui_scripts]\na = demo.cli:x\n[console_scripts]\nb = demo.cli:x\n"
    excused, found = judge(points, {"demo/cli.py": "raise OSError\n"})
    assert isinstance(excused, NotInspected)
    assert found.level is Level.WARNING


def test_a_plugin_that_is_always_loaded_has_a_process_of_its_own(judge: Judge) -> None:
    points = "[demo.plugins]\na = demo.a:x\n[pytest11]\np = demo.p\n"
    members = {"demo/a.py": "import xml.dom.minidom\nx = 1\n"}
    (found,) = judge(points, {**members, "demo/p.py": "import xml\nxml.dom.minidom\n"})
    assert "'xml' has no attribute 'dom'" in found.sentence


@pytest.mark.parametrize(
    "code",
    [
        "from demo.util import display",
        "import sys; sys.stderr.write('no display'); import demo.nothing",
        "from _json import nothing",  # an extension module
        "import xml.nothing",
        "from importlib.metadata import version; version('demo-of-nobody')",
    ],
)
def test_faults_that_look_like_another_hosts(judge: Judge, code: str) -> None:
    (found,) = judge(commands("demo.cli:main"), {"demo/cli.py": code, "demo/util.py": ""})
    assert isinstance(found, Problem)
    assert found.level is Level.ERROR
    assert "no requirement" not in found.sentence


@pytest.mark.parametrize("code", ["import os; os.startfile", "from ctypes import windll"])
def test_a_wheel_for_any_system_may_be_for_another(judge: Judge, code: str) -> None:
    found = only(NotInspected, judge(commands("demo.cli:main"), {"demo/cli.py": code}))
    assert "another system may have" in found.sentence


def test_the_environment_is_asked_for_what_is_required(load: Load) -> None:
    place, _ = load(commands("demo:main"), {})
    point = EntryPoint(group="console_scripts", name="c", module="demo", attribute="main")
    assert load_each(place, [point], ["demo", "demo-of-nobody"]).lacking == ("demo-of-nobody",)


def test_what_another_host_may_spare_users_is_a_warning(judge: Judge) -> None:
    code = "import os; os.environ['DEMO_HOME']\n"
    (found,) = judge(commands("demo.cli:main"), {"demo/cli.py": code})
    assert "KeyError: 'DEMO_HOME' (demo/cli.py:1)" in found.sentence
    assert found.level is Level.WARNING


def test_each_command_has_a_process_of_its_own(judge: Judge) -> None:
    members = {
        "demo/a.py": "import demo.helper\nmain = print\n",
        "demo/b.py": "import demo\nmain = demo.helper.run\n",  # which a.py has imported
        "demo/helper.py": "run = print\n",
    }
    (found,) = judge(commands("demo.a:main", "demo.b:main"), members)
    assert "module 'demo' has no attribute 'helper'" in found.sentence


def test_plugins_share_a_process_and_the_failing_one_is_loaded_again_alone(
    load: Load, tmp_path: Path
) -> None:
    tally = tmp_path / "tally"
    code = f"open({str(tally)!r}, 'a').write(__name__ + ' ')\n"
    names = ("a", "b", "c")
    members = {f"demo/{name}.py": f"{code}run = 1\n" for name in names}
    members["demo/b.py"] = f"{code}import demo.absent\n"
    points = "[demo.plugins]\n" + "".join(f"{name} = demo.{name}:run\n" for name in names)
    _, loaded = load(points, members)
    ends = {each.point.name: each.step.outcome for each in loaded.points}
    assert ends == {"a": Ending.OK, "b": Ending.RAISED, "c": Ending.OK}
    assert tally.read_text() == "demo.a demo.b demo.c demo.b "


def test_a_command_that_hangs_is_not_inspected(load: Load) -> None:
    place, _ = load(commands("demo:main"), {"demo/slow.py": "import time; time.sleep(60)\n"})
    point = EntryPoint(group="console_scripts", name="slow", module="demo.slow", attribute="main")
    loaded = load_each(within(place, 1), [point])
    found = only(NotInspected, missing_entry_point(place.wheel, PythonModules(), loaded))
    assert "hangs: 1 s" in found.sentence


def test_thousands_of_commands_have_a_time_for_all(load: Load) -> None:
    place, _ = load(commands("demo:main"), {"demo/a.py": "main = print\n"})
    points = [
        EntryPoint(group="console_scripts", name=f"c{n}", module=f"json.m{n}", attribute="main")
        for n in range(5000)
    ]
    clock = iter(range(0, 10_000_000, 200))
    loaded = load_each(place, points, now=lambda: next(clock))
    assert len(loaded.untried) > 4900
    *_, left = missing_entry_point(place.wheel, PythonModules(), loaded)
    assert isinstance(left, NotInspected)
    assert left.sentence.endswith("the earlier processes took all 600 s that one package may take")


def raised(group: str, missing: str, **fields: str) -> LoadedEntryPoints:
    point = EntryPoint(group=group, name="x", module="demo.x", attribute="f", **fields)
    step = Step(name="demo.x", outcome=Ending.RAISED, detail="no", missing_module=missing)
    each = LoadedEntryPoint(point=point, step=step, exception="ModuleNotFoundError")
    return LoadedEntryPoints(python="", points=(each,), requirements_installed=True)


IMPORTING = wheel(
    "demo-1.0-py3-none-any.whl",
    members=(member("demo/__init__.py"), member("demo/x.py")),
    entry_points=(("console_scripts", "x", "demo.x:f"),),
)


def test_a_module_that_cannot_be_imported_is_reported_as_a_consequence() -> None:
    loaded = raised("console_scripts", "yaml")
    (unimported,) = missing_entry_point(IMPORTING, PythonModules(), loaded)
    assert unimported.consequence
    points = tuple(replace(each, imported=True) for each in loaded.points)
    (imported,) = missing_entry_point(IMPORTING, PythonModules(), replace(loaded, points=points))
    assert not imported.consequence


def test_a_module_that_python_removed_or_that_the_environment_lacks_is_named() -> None:
    loaded = replace(raised("console_scripts", "cgi"), version=(3, 13))
    (found,) = missing_entry_point(IMPORTING, PythonModules(), loaded)
    assert (found.level, found.cause) == (Level.ERROR, "Python 3.13 has no cgi")
    lacking: Any = {"requirements_installed": False, "lacking": ("packaging",)}
    loaded = replace(raised("console_scripts", "packaging"), **lacking)
    gap = only(NotInspected, missing_entry_point(IMPORTING, PythonModules(), loaded))
    assert gap.sentence.endswith("the environment lacks packaging, which the package requires")


def test_no_requirement_is_judged_where_no_installer_ran(judge: Judge) -> None:
    (found,) = judge(commands("demo.cli:main"), {"demo/cli.py": "import demo_of_nobody\n"})
    assert "No module named 'demo_of_nobody' (demo/cli.py:1)" in found.sentence
    assert "Requires-Dist" not in found.sentence


def requiring(requires: tuple[str, ...], *points: tuple[str, str, str]) -> Wheel:
    return wheel(
        "demo-1.0-py3-none-any.whl",
        metadata=tuple(("Requires-Dist", each) for each in requires),
        members=(member("demo/__init__.py"), member("demo/x.py")),
        entry_points=points,
    )


@pytest.mark.parametrize(
    ("module", "requires", "extras", "ending"),
    [
        ("yaml.cli", "pyyaml; extra == 'all'", "", "the module yaml (an extra may)"),
        ("yaml.cli", "yaml; extra == 'all'", "", "no"),
        ("yaml.cli", "yaml; extra == 'all'", "all", ""),
    ],
)
def test_the_module_of_a_command_is_not_excused_by_an_extra(
    module: str, requires: str, extras: str, ending: str
) -> None:
    point = EntryPoint(
        group="console_scripts", name="x", module=module, attribute="f", extras=extras
    )
    step = Step(name=module, outcome=Ending.RAISED, detail="no", missing_module="yaml")
    each = LoadedEntryPoint(point=point, step=step, exception="ModuleNotFoundError")
    loaded = LoadedEntryPoints(python="", points=(each,), requirements_installed=True)
    package = requiring((requires,), ("console_scripts", "x", f"{module}:f"))
    (finding,) = missing_entry_point(package, PythonModules(), loaded)
    assert getattr(finding, "level", None) is (Level.ERROR if ending else None)
    assert finding.sentence.endswith(ending or "only an extra requires yaml")


LACKING = "no: no Requires-Dist provides the module yaml"
MAY_BE_OF_EXTRA = f"{LACKING} (an extra may)"
OF_EXTRA = "only an extra requires yaml"
ELSEWHERE = "a requirement for another system may provide it"


@pytest.mark.parametrize(
    ("group", "requires", "extras", "level", "ending"),
    [
        ("console_scripts", (), "", Level.ERROR, LACKING),
        ("console_scripts", ("pyyaml; extra == 'all'",), "", Level.WARNING, MAY_BE_OF_EXTRA),
        ("console_scripts", ("yaml; extra == 'all'",), "", None, OF_EXTRA),
        ("console_scripts", ("a; extra == 'all'",), "all", None, OF_EXTRA),
        ("console_scripts", ("pytest; extra == 'dev'",), "all", Level.ERROR, LACKING),
        ("console_scripts", ("pyyaml; sys_platform == 'plan9'",), "", None, ELSEWHERE),
        ("other.group", (), "", None, "other.group may provide the module yaml"),
        ("pytest11", (), "", None, "pytest is not required, so it was not installed"),
        ("pytest11", ("pytest>=7",), "", Level.ERROR, LACKING),
    ],
)
def test_a_module_of_others_that_is_not_found(
    group: str, requires: tuple[str, ...], extras: str, level: Level | None, ending: str
) -> None:
    package = requiring(requires, (group, "x", "demo.x:f"))
    loaded = raised(group, "yaml", extras=extras)
    (finding,) = missing_entry_point(package, PythonModules(), loaded)
    assert finding.sentence.endswith(ending)
    assert getattr(finding, "level", None) is level
