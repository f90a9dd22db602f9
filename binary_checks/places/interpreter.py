"""The interpreter that probes run in: what it says of itself, and which wheels it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import packaging
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag, platform_tags

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Ending, Wheel
from binary_checks.model.places import Conditions, TargetPython
from binary_checks.places.running import run_probe
from binary_checks.places.sandbox import Sandbox

# How macOS and Windows spell what Linux calls otherwise.
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def identify(
    python: Path, *, timeout: float, sandbox: Sandbox | None = None, site: bool = True
) -> TargetPython:
    """Ask an interpreter who it is.

    Without ``site`` nothing runs there but the interpreter itself: no ``.pth``, no sitecustomize.
    Raises GatherError when it does not answer: then it is no Python that probes can run in.
    """
    # The packaging installed here computes the tags there: its own libc and ABI decide.
    folder = Path(packaging.__file__).parent
    sandbox = sandbox or Sandbox()
    limits = replace(sandbox.limits, visible=(folder, *sandbox.limits.visible))
    result = run_probe(
        python,
        "identify",
        {"packaging": str(folder)},
        timeout=timeout,
        sandbox=replace(sandbox, limits=limits),
        conditions=Conditions(site=site),
    )
    if result.outcome is not Ending.OK or not result.answer:
        last = result.stderr.strip().rpartition("\n")[2]
        reason = last or " ".join((result.outcome.value, result.detail))
        raise GatherError(f"{python}: not a Python 3.8 or later that runs here: {reason}")
    return read_target(python, result.answer)


def read_target(python: Path, answer: Mapping[str, object]) -> TargetPython:
    """Turn the answer of the identify probe into facts.

    Raises GatherError when something is missing from it.
    """
    try:
        version, tags = str(answer["version"]), answer["tags"]
        paths, machine = answer["paths"], str(answer["machine"]).lower()
        if not isinstance(paths, dict) or "platlib" not in paths:
            raise KeyError("paths")
        texts = map(str, _list(tags))
        ranked = tuple(tag for text in texts for tag in parse_tag(text))
        if tags is None:
            ranked = tuple(_guess_tags(version))
        return TargetPython(
            executable=python,
            implementation=str(answer["implementation"]),
            version=version,
            free_threaded=bool(answer["free_threaded"]),
            platform=str(answer["platform"]),
            architecture=_ARCHITECTURES.get(machine, machine),
            libc=str(answer["libc"]),
            extension_suffixes=tuple(map(str, _list(answer["extension_suffixes"]))),
            paths={str(key): str(value) for key, value in paths.items()},
            prefix=str(answer["prefix"]),
            ranked_tags=ranked,
            tags=frozenset(ranked),
        )
    except KeyError as error:
        raise GatherError(f"{python}: does not say its {error.args[0]}") from error


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _guess_tags(version: str) -> Iterator[Tag]:
    """Tags of a CPython too old for our packaging, with the platform that we run on."""
    python = tuple(int(part) for part in version.split(".")[:2])
    platforms = list(platform_tags())
    flags = "m" if python < (3, 8) else ""
    nodot = "".join(map(str, python))
    yield from cpython_tags(python, [f"cp{nodot}{flags}"], platforms)
    yield from compatible_tags(python, f"cp{nodot}", platforms)


def require_fit(wheel: Wheel, target: TargetPython) -> None:
    """Raise Unavailable when the interpreter does not take the wheel."""
    if wheel.tags and target.tags.isdisjoint(wheel.tags):
        place = _describe_place(target, wheel.tags)
        label = spell_tags(wheel.tags)
        raise Unavailable(f"the wheel is for {label}, the interpreter is {target.name} on {place}")
    wanted = wheel.header("Requires-Python")
    try:
        fits = not wanted or SpecifierSet(wanted).contains(target.version, prereleases=True)
    except ValueError:  # none, or one of thousands of digits
        return  # the installer says what is wrong with it
    if not fits:
        raise Unavailable(f"the wheel requires Python {wanted}, the interpreter is {target.name}")


def spell_tags(tags: Iterable[Tag]) -> str:
    """Spell the first of the tags, and how many more there are."""
    first, *more = sorted(map(str, tags))
    return f"{first} (and {len(more)} more)" if more else first


def _describe_place(target: TargetPython, tags: Iterable[Tag]) -> str:
    """Describe the system: "linux x86_64", with its libc where the architecture is right."""
    place = target.platform.replace("-", " ")
    architecture = place.rpartition(" ")[2]
    close = any("linux" in tag.platform and tag.platform.endswith(architecture) for tag in tags)
    return f"{place} with {target.libc}" if close and target.libc else place
