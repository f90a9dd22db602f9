"""What the checks of a package's own Python code find in wheels that are built for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine
from binary_checks.checks.metadata import missing_requires_python
from binary_checks.checks.python_code.entry_points import (
    command_name_refused,
    missing_entry_point,
)
from binary_checks.checks.python_code.top_level_modules import (
    missing_own_module,
    missing_top_level_module,
    shadowed_module,
    shared_namespace_taken,
)
from binary_checks.declaring import Check
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Distribution,
    Level,
    NotInspected,
    OwnImports,
    Problem,
    PythonModules,
    UnparsedSource,
)
from fixtures.build_wheel import build_wheel
from fixtures.values import member, only, wheel

Judge = Callable[..., list[Any]]
POINTS = "demo-1.0.dist-info/entry_points.txt"


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    def judge_wheel(check: Check[Any], members: Mapping[str, Any], **wheel: Any) -> list[Any]:
        wheel = {"tags": ("py3-none-any",), "root_is_purelib": True, **wheel}
        path = build_wheel(tmp_path, members=members, **wheel)
        with examine(path) as examination:
            reads_imports = check in (missing_own_module, missing_requires_python)
            kind = OwnImports if reads_imports else PythonModules
            if check is shadowed_module:
                return list(check(examination.get(Distribution)))
            facts = (examination.get(Distribution), examination.get(kind))
            installed = (None,) if check is missing_entry_point else ()
            return list(check(*facts, *installed))

    return judge_wheel


def told(found: list[Any]) -> list[tuple[str, str, Level]]:
    assert all(isinstance(each, Problem) for each in found), found
    return [
        (each.path.rpartition("site-packages/")[2], each.sentence, each.level) for each in found
    ]


@pytest.mark.parametrize(
    ("value", "lacking"),
    [
        ("demo.cli:main", "there is no module demo.cli"),
        ("demo:absent", "demo binds no absent"),
        ("demo.core:Tool.run", "demo.core binds no Tool"),
        ("demo.core:loop", "demo.core binds no loop"),
        ("demo.sub:main", "demo.sub is a folder without code, and has no main"),
    ],
)
def test_a_command_whose_function_is_not_there(judge: Judge, value: str, lacking: str) -> None:
    members = {"demo/__init__.py": "", "demo/core.py": "def f():\n    loop = 1\n"}
    members["demo/sub/deeper.py"] = "main = print\n"
    points = f"[console_scripts]\ntool = {value}\n[other.group]\nplug = {value} [extra]\n"
    assert told(judge(missing_entry_point, members, entry_points=points)) == [
        (POINTS, f"the command tool = {value}: {lacking}", Level.ERROR),
        (POINTS, f"the entry point 'other.group' plug = {value}: {lacking}", Level.WARNING),
    ]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("x.__dict__\n_sys.modules.setdefault(old, new)\n", NotInspected),
        ("x = vars()\nsys.modules[f'demo.{name}'] = new\n", NotInspected),
        ("x = vars()\nsys.modules[__name__] = new\n", Problem),
        ("x = vars()\nif sys.modules[name] == new: pass\n", Problem),
    ],
)
def test_a_package_that_fills_the_modules_itself_may_have_more(
    judge: Judge, code: str, outcome: type
) -> None:
    points = "[console_scripts]\ntool = demo.tools.cli:main\n"
    (found,) = judge(missing_entry_point, {"demo/__init__.py": code}, entry_points=points)
    assert isinstance(found, outcome)


def test_a_command_without_a_function(judge: Judge) -> None:
    points = "[console_scripts]\ntool = demo\n[gui_scripts]\ngui = demo:run it\n"
    found = told(judge(missing_entry_point, {"demo/__init__.py": ""}, entry_points=points))
    assert [sentence.partition(":")[0] for _, sentence, _ in found] == [
        "the command tool = demo names no function",
        "the command gui = demo",
    ]
    with pytest.raises(NotApplicable):  # without entry points
        judge(missing_entry_point, {"demo/__init__.py": ""})


@pytest.mark.parametrize(
    "code",
    [
        "def main(): pass\n",
        "main = print\n",
        "class main: pass\n",
        "from os import getcwd as main\n",
        "import os as main\n",
        "try:\n    from os import main\nexcept ImportError:\n    main = None\n",
        "if 1:\n    for main in []: pass\n",
        "with open('x') as main: pass\n",
        "a, (*main, b) = 1, (2, 3)\n",
        "main: int = 1\n",
        "def f():\n    global main\n    main = 1\n",
        "from demo.other import *\n",
        "from .other import *\n",
    ],
)
def test_a_name_is_there_wherever_the_module_binds_it(judge: Judge, code: str) -> None:
    members = {"demo/__init__.py": "", "demo/cli.py": code, "demo/other.py": "main = 1\n"}
    points = "[console_scripts]\ntool = demo.cli:main\n"
    assert judge(missing_entry_point, members, entry_points=points) == []


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        ("def __getattr__(name): ...\n", "__getattr__ makes it"),
        ("globals()['main'] = 1\n", "globals() makes it"),
        ("from click import *\n", "a star import of click may bind it"),
    ],
)
def test_a_name_that_only_running_the_module_shows(judge: Judge, code: str, doubt: str) -> None:
    points = "[console_scripts]\ntool = demo:main\n"
    (finding,) = judge(missing_entry_point, {"demo/__init__.py": code}, entry_points=points)
    assert isinstance(finding, NotInspected)
    assert finding.sentence == f"the command tool = demo:main: demo binds no main, unless {doubt}"


def test_a_module_that_was_not_parsed_is_not_inspected() -> None:
    package = wheel(
        "demo-1.0-py3-none-any.whl",
        members=(member("demo/__init__.py"),),
        entry_points=(("console_scripts", "tool", "demo:main"),),
    )
    modules = PythonModules(unparsed=(UnparsedSource(path="demo/__init__.py", reason="too large"),))
    finding = only(NotInspected, missing_entry_point(package, modules, None))
    assert finding.sentence.endswith("demo/__init__.py is not parsed: too large")


@pytest.mark.parametrize(
    ("value", "members", "requires"),
    [
        ("other.cli:main", {"demo/__init__.py": ""}, ("other",)),
        ("other_x.cli:main", {"demo/__init__.py": ""}, ("my.other-x>=2",)),
        ("other.cli:main [all]", {"demo/__init__.py": ""}, ("other; extra == 'all'",)),
        ("demo.cli:main", {"demo/inner/__init__.py": ""}, ("demo-cli",)),
        # pydantic-monty 1.5.0 is empty: pydantic-monty-client has its modules
        ("demo.cli:main", {"other.py": ""}, ("demo-client",)),
        ("demo.cli:main", {"demo/__init__.py": "__path__ = []\n"}, ()),
        ("demo.cli:main", {"demo/__init__.py": "", "demo.pth": "demo/inner\n"}, ()),
        ("demo.fast:main", {"demo/__init__.py": "", "demo/fast.abi3.so": b"\x7fELF"}, ()),
    ],
)
def test_a_module_that_may_be_elsewhere_is_not_inspected(
    judge: Judge, value: str, members: dict[str, Any], requires: tuple[str, ...]
) -> None:
    points = f"[console_scripts]\ntool = {value}\n"
    (finding,) = judge(missing_entry_point, members, entry_points=points, requires=requires)
    assert isinstance(finding, NotInspected)


@pytest.mark.parametrize(
    ("value", "members", "requires", "level"),
    [
        ("demo.cli:main", {"other.py": ""}, ("six",), Level.ERROR),
        ("demo.cli:main", {"demo/inner/__init__.py": ""}, ("six",), Level.ERROR),
        ("demo.cli:main", {"demo/__init__.py": ""}, ("demo-cli",), Level.ERROR),
        ("other.cli:main", {"demo.py": ""}, ("other; extra == 'all'",), Level.ERROR),
        ("torch.run:main", {"demo.py": ""}, ("six",), Level.WARNING),
        # torch 2.5.1: torchfrtrace = tools.flight_recorder.fr_trace:main
        ("other.cli:main", {"demo.py": ""}, ("six", "jinja2"), Level.WARNING),
    ],
)
def test_a_module_that_no_requirement_is_named_after(
    judge: Judge, value: str, members: dict[str, Any], requires: tuple[str, ...], level: Level
) -> None:
    points = f"[console_scripts]\ntool = {value}\n"
    found = told(judge(missing_entry_point, members, entry_points=points, requires=requires))
    ((_, sentence, actual),) = found
    assert actual is level
    assert f"there is no module {value.partition(':')[0]}" in sentence


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("../evil", "leads out of the folder of commands: pip and uv refuse it"),
        ("/evil", "leads out of the folder of commands: pip and uv refuse it"),
        ("..", "leads out of the folder of commands: pip and uv refuse it"),
        ("a/b", "has a slash: uv refuses it, and pip puts it where no shell looks for commands"),
        ("a[b]", "has a bracket: pip refuses it"),
        ("a b", "has a blank: pip drops everything in front of it from the name"),
        ("python", "overwrites the interpreter if pip installs it; uv refuses to"),
        ("PyPy3.11", "overwrites the interpreter if pip installs it; uv refuses to"),
    ],
)
@pytest.mark.parametrize("group", ["console_scripts", "gui_scripts"])
def test_a_command_with_a_name_that_installers_refuse(name: str, fault: str, group: str) -> None:
    package = wheel(entry_points=((group, name, "demo:x"), ("other", name, "demo:x")))
    assert told(list(command_name_refused(package))) == [
        (POINTS, f"the command {name!r} {fault}", Level.ERROR)
    ]


@pytest.mark.parametrize("name", ["python-zig", "pythonx", ".x", "a..b", "-a", "a+b", "x.exe", "é"])
def test_a_command_with_an_unusual_name_is_quiet(name: str) -> None:
    package = wheel(entry_points=(("console_scripts", name, "demo:x"),))
    assert list(command_name_refused(package)) == []


@pytest.mark.parametrize(
    "line",
    [
        "[console_scripts]\ntool = demo:sub\n",
        "[console_scripts]\ntool = json:loads\n",
        "[fsspec.specs]\nhf = demo.FileSystem\n",
        "[any]\nthing = some text, of another form\n",
    ],
)
def test_entry_points_that_lead_somewhere(judge: Judge, line: str) -> None:
    members = {"demo/__init__.py": "class FileSystem: pass\n", "demo/sub.py": ""}
    assert judge(missing_entry_point, members, entry_points=line) == []


def test_a_wheel_that_installs_nothing(judge: Judge) -> None:
    nothing = "installs nothing: it has no files but its metadata"
    for members in ({}, {"demo/": ""}):
        assert told(judge(missing_top_level_module, members)) == [("", nothing, Level.ERROR)]
    required = f"{nothing}, so only what it requires can be imported (demo-core, other)"
    extras = f"{nothing}, so only its extras can be imported"
    for requires, sentence in {
        ("other", "Demo_Core>=1", "x; extra == 'all'"): required,
        ("x; extra == 'all'",): extras,
    }.items():
        found = judge(missing_top_level_module, {}, requires=requires)
        assert told(found) == [("", sentence, Level.WARNING)]
    assert judge(missing_top_level_module, {"demo-1.0.data/scripts/demo": "x"}) == []
    # langroid 0.33.3
    ((_, sentence, _),) = told(
        judge(missing_top_level_module, {"demo/py.typed": "", "pyproject.toml": ""})
    )
    assert sentence == (
        "installs nothing that can be imported: "
        "it has no files but its metadata, demo/py.typed, pyproject.toml"
    )
    for other in ("demo/x.json", "demo/a.h", "demo-stubs/__init__.pyi", "demo/README.txt"):
        assert judge(missing_top_level_module, {"demo/py.typed": "", other: ""}) == []


def test_a_command_of_a_wheel_that_installs_nothing_follows_from_it(judge: Judge) -> None:
    points = "[console_scripts]\ndemo = demo.__main__:main\n"
    (nothing,) = judge(missing_top_level_module, {}, entry_points=points)
    (command,) = judge(missing_entry_point, {}, entry_points=points)
    assert (
        command.sentence
        == "the command demo = demo.__main__:main: there is no module demo.__main__"
    )
    assert (nothing.cause, nothing.consequence) == (command.cause, not command.consequence)
    (alone,) = judge(missing_entry_point, {"demo/__init__.py": ""}, entry_points=points)
    assert (alone.cause, alone.consequence) == ("", False)


ABOUT = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"


@pytest.mark.parametrize(
    ("lines", "advised"),
    [
        ("Requires-Dist: six\n\nUsage:\n\n    import demo\n", "import demo"),
        ("Requires-Dist: six\n\n>>> import demo as d\n", "import demo"),
        ("Requires-Dist: six\n\nfrom demo.core import run\n", "from demo.core import"),
        ("Requires-Dist: demo-core; extra == 'all'\n\nimport demo\n", "import demo"),
        # llama-index, whose modules are those of llama-index-core
        ("Requires-Dist: demo-core\n\nimport demo\n", ""),
        ("Requires-Dist: six\n\nimport demos\nfrom demo to show\nimport demo data\n", ""),
    ],
)
def test_a_description_that_imports_what_nothing_installs(
    judge: Judge, lines: str, advised: str
) -> None:
    ((_, sentence, level),) = told(judge(missing_top_level_module, {}, metadata=ABOUT + lines))
    assert (level is Level.ERROR) == bool(advised)
    assert sentence.endswith(f"its description says `{advised}`") == bool(advised)


def test_a_promised_module_that_is_not_there(judge: Judge) -> None:
    listing = {"demo-1.0.dist-info/top_level.txt": "demo\n_demo\n"}
    assert told(judge(missing_top_level_module, {"engine.py": "", **listing})) == [
        (
            "demo-1.0.dist-info/top_level.txt",
            "promises the module demo, _demo, which does not exist; there is engine",
            Level.ERROR,
        )
    ]
    assert judge(missing_top_level_module, {"demo/__init__.py": "", **listing}) == []
    assert judge(missing_top_level_module, {"demo/data.txt": "", **listing}) == []
    inner = {"space/_demo.cp312-win_amd64.pyd": "", **listing}  # as in delvewheel's tests
    assert judge(missing_top_level_module, inner) == []
    wrong = {"demo-1.0.dist-info/top_level.txt": "name\n"}  # essentia 2.1b6
    assert judge(missing_top_level_module, {"demo/__init__.py": "", **wrong}) == []
    for other in ("engine", "no-module"):  # a module may have another name than the package
        named = {"demo-1.0.dist-info/top_level.txt": f"{other}\n", "engine.py": ""}
        assert judge(missing_top_level_module, named) == []


def test_a_source_folder_that_is_installed(judge: Judge) -> None:
    lost = {"src/demo/__init__.py": "", "src/__init__.py": ""}
    assert told(judge(missing_top_level_module, lost)) == [
        ("src", "is installed as a package of its own: `import demo` fails", Level.ERROR)
    ]
    beside = {"demo/__init__.py": "", "src/tools.py": ""}
    assert told(judge(missing_top_level_module, beside)) == [
        (
            "src",
            "is installed as a package of its own: it collides with any other project's src",
            Level.WARNING,
        )
    ]
    headers = {"demo/__init__.py": "", "src/demo.c": ""}
    assert judge(missing_top_level_module, headers) == []


@pytest.mark.parametrize(
    ("name", "content", "level"),
    [
        ("google", "version = 1\n", Level.ERROR),
        ("google", '"""Google."""\n# nothing\n', Level.ERROR),
        ("nvidia", "", Level.WARNING),  # each part of this namespace has an empty file
        ("nvidia", "x = 1\n", Level.ERROR),
    ],
)
def test_a_shared_package_that_is_taken(
    judge: Judge, name: str, content: str, level: Level
) -> None:
    members = {f"{name}/__init__.py": content, f"{name}/demo/__init__.py": ""}
    sentence = f"takes the package {name} from all other distributions that have parts of it"
    assert told(judge(shared_namespace_taken, members)) == [
        (f"{name}/__init__.py", sentence, level)
    ]


@pytest.mark.parametrize(
    "members",
    [
        {"google/demo/__init__.py": "x = 1\n"},
        {"google/__init__.py": "__path__ = __import__('pkgutil').extend_path(__path__, 'g')\n"},
        {"google/__init__.py": "__import__('pkg_resources').declare_namespace(__name__)\n"},
        {"google.py": "x = 1\n"},
        {"demo/__init__.py": "x = 1\n"},
    ],
)
def test_a_shared_package_stays_shared(judge: Judge, members: dict[str, str]) -> None:
    assert judge(shared_namespace_taken, members) == []


def test_a_shared_package_whose_code_is_too_long_is_not_inspected(judge: Judge) -> None:
    content = "#" * (1 << 24) + "\n"
    gap = only(NotInspected, judge(shared_namespace_taken, {"google/__init__.py": content}))
    assert gap.path.endswith("google/__init__.py")


@pytest.mark.parametrize(
    "members",
    [
        {f"demo/m{n}.py": f"from demo.m{n + 1} import *\n" * 9 for n in range(900)},
        {"demo/__init__.py": "from demo import *\nfrom .a import *\n", "demo/a.py": ""},
        {"demo/__init__.py": f"from{' ' * 300_000}os import path\n"},
        {"demo/__init__.py": f"{' ' * 50}\n" * 30_000},
        {"demo/__init__.py": f"from {'a.' * 50_000}a import {'b,' * 50_000}b\ndef f(:\n"},
        {"a/" * 20_000 + "b.py": ""},
    ],
    ids=["stars", "circle", "spaces", "blank lines", "long names", "deep folders"],
)
def test_hostile_code_takes_no_time_without_end(judge: Judge, members: dict[str, str]) -> None:
    points = "[console_scripts]\n" + "".join(f"t{n} = demo.m{n}:x\n" for n in range(300))
    judge(missing_entry_point, {"x.py": "", **members}, entry_points=points)


TRIED = "from . import core\n"
LOST = {"demo/__init__.py": "from . import core\n", "demo/core.py": "from .inner.deep import x\n"}


@pytest.mark.parametrize(
    "code",
    [
        f"from{' ' * 300_000}os import path\n",
        "from . import (\n" * 60_000,
        "from . import a as\n" * 40_000,
        f"x = 'a.{'b' * 900_000}\n",
        f"{'a.' * 450_000}a\n",
        f"from {'.' * 900_000}\n",
        f"import {'a,' * 150_000}\n",
    ],
    ids=["spaces", "parentheses", "as", "long word", "dots", "levels", "plain"],
)
def test_imports_of_hostile_code_take_no_time_without_end(judge: Judge, code: str) -> None:
    """The watchdog would end a search whose cost grows with the square."""
    found = judge(missing_own_module, {**NAMED, "demo/__init__.py": f"from . import core\n{code}"})
    assert all(isinstance(each, (Problem, NotInspected)) for each in found)


def test_an_own_module_that_is_imported_and_not_there(judge: Judge) -> None:
    lack = "demo.inner is not in the wheel"
    (problem,) = told(judge(missing_own_module, LOST))
    assert problem == ("demo/core.py", f"`import demo` fails at line 1: {lack}", Level.ERROR)
    alone = {**LOST, "demo/__init__.py": ""}
    (problem,) = told(judge(missing_own_module, alone))
    warned = ("demo/core.py", f"`import demo.core` fails at line 1: {lack}", Level.WARNING)
    assert problem == warned
    # rikai 0.0.5: a key is no name of a module, nor is a branch that imports another one
    beside = {"demo/a.py": "x['core']\ny = 'a.core'\ndef f():\n    from demo import inside\n"}
    assert told(judge(missing_own_module, {**alone, **beside})) == [warned]
    command = "[console_scripts]\ndemo = demo.core:x\n"
    (problem,) = told(judge(missing_own_module, alone, entry_points=command))
    assert problem[2] is Level.ERROR


@pytest.mark.parametrize(
    "members",
    [
        {"demo/inner/deep.py": "x = 1\n"},
        {"demo/core.py": "try:\n    import demo.inner\nexcept ImportError:\n    pass\n"},
        {"demo/core.py": "with optional():\n    import demo.inner\n"},
        {"demo/core.py": "def late():\n    import demo.inner\n"},
        {"demo/core.py": "if TYPE_CHECKING:\n    import demo.inner\n"},
        {"demo/core.py": "'''\nimport demo.inner\n'''\n"},
        {"demo/core.py": "", "demo/tests/a.py": "import demo.inner\n"},
        {"demo/core.py": "", "demo/a_test.py": "import demo.inner\n"},
        {"demo/core.py": "from demo.tests import x\n"},
        {"demo/core.py": "", "demo/_old.py": "import demo.inner\n"},  # pyzmq
        {"demo/__init__.py": "if x:\n    from . import core\n"},  # chosen, as psutil._pswindows
        {"demo/__init__.py": "f('demo.core')\n"},
        {"demo/__init__.py": "f('.core', __name__)\n"},
        # insightface 2.1
        {
            "demo/__init__.py": "try:\n    from .a import *\nexcept ImportError: 1\n",
            "demo/a.py": TRIED,
        },
        {"demo/core.py": "import demo.plugins.other\n", "demo/plugins/own.py": ""},  # no __init__
    ],
)
def test_an_import_that_may_be_right_is_quiet(judge: Judge, members: dict[str, str]) -> None:
    assert judge(missing_own_module, {**LOST, **members}) == []


@pytest.mark.parametrize(
    ("members", "metadata", "doubt"),
    [
        ({"demo/__init__.py": "import demo.core\n__path__.append('x')\n"}, "", "demo makes it"),
        ({"demo/b.py": "sys.modules['demo.inner'] = x\n"}, "", "demo.b makes it"),
        ({"demo/inner.pyx": ""}, "", "code loads demo/inner.pyx"),
        ({}, "Requires-Dist: demo-inner\n", "the required demo-inner has it"),
    ],
)
def test_what_may_provide_an_own_module_is_not_inspected(
    judge: Judge, members: dict[str, str], metadata: str, doubt: str
) -> None:
    head = f"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n{metadata}"
    found = only(NotInspected, judge(missing_own_module, {**LOST, **members}, metadata=head))
    assert f", unless {doubt}" in found.sentence


def test_a_module_too_long_to_follow_is_not_inspected(judge: Judge) -> None:
    long = "x = 1\n" * 200_000
    found = judge(missing_own_module, {**LOST, "demo/__init__.py": f"from . import core\n{long}"})
    assert any(isinstance(each, NotInspected) and "not parsed" in each.sentence for each in found)
    assert only(
        NotInspected, judge(missing_requires_python, {"demo/__init__.py": long}, metadata=ABOUT)
    )


def test_an_extension_module_makes_modules_of_its_own_package_alone(judge: Judge) -> None:
    # river 0.24.0 has extension modules in folders that lost everything else
    (problem,) = told(judge(missing_own_module, {**LOST, "demo/other/fast.abi3.so": b""}))
    assert problem[2] is Level.ERROR
    # fastwarc's makes fastwarc.warc
    found = only(NotInspected, judge(missing_own_module, {**LOST, "demo/fast.abi3.so": b""}))
    assert found.sentence.endswith(", unless the extension module demo.fast makes it")


NAMED = {"demo/__init__.py": "from . import core\n", "demo/core.py": "from demo import inner\n"}


def test_a_name_that_is_neither_a_module_nor_bound_by_its_package(judge: Judge) -> None:
    lack = "demo.inner is not in the wheel"
    (problem,) = told(judge(missing_own_module, NAMED))
    assert problem == ("demo/core.py", f"`import demo` fails at line 1: {lack}", Level.ERROR)
    (problem,) = told(judge(missing_own_module, {"demo/__init__.py": "from . import (\n inner)\n"}))
    assert problem == ("demo/__init__.py", f"`import demo` fails at line 1: {lack}", Level.ERROR)
    several = {"demo/__init__.py": "from . import inner, more\nimport demo.most\n"}
    ((_, sentence, _),) = told(judge(missing_own_module, several))
    assert sentence == f"`import demo` fails at line 1: {lack}, and it imports 2 more that are not"


@pytest.mark.parametrize(
    "code",
    [
        "inner = 1\n",
        "def inner(): pass\n",
        "from .core import inner\n",
        "from . import core as inner\n",
        "from os import *\n",
        "def __getattr__(name): return 1\n",
        "globals().update(inner=1)\n",
        "from other import inner\n",
        "def set_it():\n    global inner\n    inner = 1\n",
    ],
)
def test_a_name_that_its_package_may_bind_is_quiet(judge: Judge, code: str) -> None:
    beginning = f"{code}from . import core\n"
    assert judge(missing_own_module, {**NAMED, "demo/__init__.py": beginning}) == []


def test_a_module_that_its_namesake_shadows(judge: Judge) -> None:
    package = {"demo/__init__.py": "", "demo/abc/__init__.py": ""}
    ((path, sentence, _),) = told(judge(shadowed_module, {**package, "demo/abc.py": ""}))
    assert (path, shadowed_module.level) == ("demo/abc.py", Level.WARNING)
    assert sentence == "`import demo.abc` finds demo/abc/__init__.py instead"
    for other in ("demo/abc.pyi", "demo/abc.abi3.so", "demo/abc_.py", "demo/b/abc.py"):
        assert judge(shadowed_module, {**package, other: ""}) == []
    inner = {"demo/__init__.py": "", "demo/abc/x.py": "", "demo/abc.py": ""}
    assert judge(shadowed_module, inner) == []
    # a folder of scripts, as in imgui_bundle 1.93.0
    assert judge(shadowed_module, {"demo/abc/__init__.py": "", "demo/abc.py": ""}) == []


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        ("def f(x):\n    return f'{x}'\n", "Python 3.6 (an f-string in line 2)"),
        ("x: int = 1\n", "Python 3.6 (an annotated name in line 1)"),
        ("f'{x}'\nif (x := 1): pass\n", "Python 3.8 (`:=` in line 2)"),
        ("match x:\n    case 1: f'{x}'\n", "Python 3.10 (`match` in line 1)"),
    ],
)
def test_newer_syntax_without_requires_python(judge: Judge, code: str, needs: str) -> None:
    members = {"demo/__init__.py": "from .core import *\n", "demo/core.py": code}
    ((path, sentence, _),) = told(judge(missing_requires_python, members, metadata=ABOUT))
    assert path == "demo-1.0.dist-info/METADATA"
    assert sentence.startswith(f"has no Requires-Python, but demo/core.py needs {needs}: pip")
    stated = f"{ABOUT}Requires-Python: >=2.7\n"
    quiet: Any = (
        ({**members, "demo/__init__.py": "if x:\n    from .core import *\n"}, {}),
        ({**members, "demo/core.py": "async def f(): 'f{}'\n"}, {}),
        (members, {"metadata": stated}),
        (members, {"tags": ("py36-none-any",)}),
        (members, {"tags": ("py3-none-manylinux_2_28_x86_64",)}),
    )
    for others, changed in quiet:
        assert judge(missing_requires_python, others, **{"metadata": ABOUT, **changed}) == []
