"""The ``binary-checks`` command: pytest with the plugin, deaf to the folder it runs in."""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pytest

from binary_checks.errors import BinaryChecksError, NotApplicable
from binary_checks.facts import Facts, Settings, Shelf
from binary_checks.inspection import write_facts
from binary_checks.model import Linkage, Package
from binary_checks.packages import recognises
from binary_checks.profile import find_profile, load_profile


UNNEEDED = ("doctest", "unittest", "unraisableexception", "threadexception", "pastebin")
"""Plugins of pytest's own that have nothing to say about packages."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the packages named, or print the facts of one; returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["inspect"]:
        return inspect(arguments[1:])
    return check(arguments)


def check(arguments: Sequence[str]) -> int:
    """Run pytest in this process on nothing but the given arguments."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if not arguments:
        print("binary-checks: name a package, for example dist/*.whl", file=sys.stderr)
        return int(pytest.ExitCode.USAGE_ERROR)
    ini = resources.files("binary_checks") / "binary-checks.ini"
    own = ["-p", "xdist.plugin", "-p", "binary_checks.plugin", "-p", "no:cacheprovider"]
    unneeded = [part for name in UNNEEDED for part in ("-p", f"no:{name}")]
    place = ["-c", str(ini), "--rootdir", str(Path.cwd()), "--noconftest"]
    gc.set_threshold(100_000, 20, 20)  # facts are trees; the collector would only walk them
    return int(pytest.main([*own, *unneeded, *place, *arguments]))


def inspect(arguments: Sequence[str]) -> int:
    """Print the facts of one package as JSON, without a verdict."""
    options = _inspect_options().parse_args(arguments)
    path = Path(options.package)
    try:
        profile = load_profile(options.profile) if options.profile else find_profile(Path.cwd())
        if not path.is_file() or not recognises(path):
            print(f"binary-checks: {options.package}: not a package file", file=sys.stderr)
            return int(pytest.ExitCode.USAGE_ERROR)
        settings = Settings(profile=profile, python=Path(sys.executable))
        facts = Facts(path, settings, Shelf(map(Path, options.beside)))
        _print_facts(facts, symbols=options.symbols)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        return int(pytest.ExitCode.INTERRUPTED)
    except BinaryChecksError as error:
        print(f"binary-checks: {error}", file=sys.stderr)
        return int(pytest.ExitCode.TESTS_FAILED)
    return int(pytest.ExitCode.OK)


def _inspect_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="binary-checks inspect", description=inspect.__doc__)
    parser.add_argument("package", metavar="PACKAGE")
    parser.add_argument("--json", action="store_true", help="the only format, and the default")
    parser.add_argument("--no-symbols", dest="symbols", action="store_false")
    parser.add_argument("--binary-with", dest="beside", metavar="PATH", action="append", default=[])
    parser.add_argument("--binary-profile", dest="profile", metavar="NAME_OR_TOML")
    return parser


def _print_facts(facts: Facts, *, symbols: bool) -> None:
    package = facts.get(Package)
    try:
        linkage = facts.get(Linkage)
    except NotApplicable:
        linkage = None
    for piece in write_facts(package, _sha256(facts.path), linkage, symbols=symbols):
        sys.stdout.write(piece)
    sys.stdout.flush()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
