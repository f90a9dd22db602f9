"""The stages with their shell: this tool's own commands, and the project's for the build.

Scripts never have a value of a cell in them. What a variable holds is split at line ends and at
nothing else, and no pattern in it is expanded: it is data.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from binary_checks.fleet.ci.ci_settings import CiSettings
from binary_checks.fleet.ci.pipeline import PipelineStage, SharedFolder, ShellStep

DIST = SharedFolder(name="dist", path="dist")
CPU_RESULTS = SharedFolder(name="cpu", path="results/cpu")
GPU_RESULTS = SharedFolder(name="gpu", path="results/gpu")
NIGHT = SharedFolder(name="night", path="night")
SITE = SharedFolder(name="site", path="site")
_SPLIT = "set -f  # from here on an option is a line of the variable, and no pattern\nIFS='\n'\n"
_HOLD_DIST = """\
set -- dist/*
test -e "$1" || { echo "the build left nothing in dist/" >&2; exit 1; }
"""
_TEST = f"""\
mkdir -p results/cpu
set -- dist/*
test $# -ne 1 || set -- "$@" --binary-report facts:results/cpu/facts.json
{_SPLIT}binary-checks "$@" --binary-report json:results/cpu/result.json $CELL_OPTIONS
"""
_GPU = f"""\
mkdir -p results/gpu
set -- dist/*
test ! -e results/cpu/facts.json || set -- "$@" --binary-facts results/cpu/facts.json
{_SPLIT}binary-checks "$@" --binary-report json:results/gpu/result.json $CELL_GPU_OPTIONS
"""
_STORE = '--store "$BINARY_CHECKS_STORE"'
_SET = 'test -z "${CELL_VARIANT:-}" || set -- "$@" --set "variant=$CELL_VARIANT"'
_PUSH = f"""\
set -- dist/*
test -e "$1" || {{ echo "the build left nothing in dist/" >&2; exit 1; }}
{_SET}
binary-checks artifact push "$@" {_STORE} --channel "$BUILT_CHANNEL"
"""
_ATTEST = f"""\
set -- results/*/result.json
test -e "$1" || {{ echo "no stage left a result" >&2; exit 1; }}
{_SET}
binary-checks artifact attest "$@" {_STORE}
"""
_SIGN = f"""\
set -- results/*/result.json
test -e "$1" || {{ echo "no stage left a result" >&2; exit 1; }}
{_SET}
umask 077
key=$(mktemp)
trap 'rm -f "$key"' EXIT
printf '%s\\n' "$@KEY@" > "$key"
binary-checks artifact attest "$@" {_STORE} --key "$key"
"""
_PROMOTE = f"""\
binary-checks artifact promote dist/* --from "$BUILT_CHANNEL" --to "$PUBLISHED_CHANNEL" \\
  --cells @CELLS@@POLICY@ {_STORE}
"""
_DATE = '--date "$(cat night/date)"'
_PLAN = f"""\
mkdir -p night
date -u +%Y-%m-%d > night/date
binary-checks nightly run @CELLS@ {_STORE} {_DATE} --plan-only
"""
_SMOKE = f"""\
set -f
IFS='
'
set --
for cell in $SMOKE_CELLS; do set -- "$@" --cell "$cell"; done
binary-checks nightly run @CELLS@ {_STORE} {_DATE} --queue "$SMOKE_QUEUE" "$@"
"""
_COLLECT = f"binary-checks nightly collect @CELLS@ {_STORE} {_DATE} --close\n"
_HUD = f"binary-checks hud site {_STORE}\n"
_SUMMARY = f"binary-checks nightly summary {_STORE} {_DATE}\n"


def install_step(settings: CiSettings) -> ShellStep:
    """Put the tool into the job's Python."""
    wanted = shlex.join(settings.install)
    return ShellStep(name="Install binary-checks", script=f"python -m pip install {wanted}\n")


def chain_stages(settings: CiSettings, source: str, *, gpu: bool) -> tuple[PipelineStage, ...]:
    """Those of one cell; none where the project builds nothing, no GPU's where no cell has one."""
    return tuple(_chain(settings, shlex.quote(source), gpu)) if settings.build else ()


def _chain(settings: CiSettings, source: str, gpu: bool) -> Iterator[PipelineStage]:
    install = install_step(settings)
    constants = dict(settings.environment)
    build = ShellStep(name="Build", script="".join(f"{line}\n" for line in settings.build))
    yield PipelineStage(
        name="build",
        steps=(build, ShellStep(name="Check that dist is not empty", script=_HOLD_DIST)),
        leaves=(DIST,),
        environment=constants,
    )
    yield PipelineStage(
        name="test",
        steps=(install, ShellStep(name="Test on the CPU", script=_TEST)),
        needs=("build",),
        takes=(DIST,),
        leaves=(CPU_RESULTS,),
        environment=constants,
    )
    if gpu:
        yield PipelineStage(
            name="gpu",
            steps=(install, ShellStep(name="Test on the GPU", script=_GPU)),
            needs=("build", "test"),
            takes=(DIST, CPU_RESULTS),
            leaves=(GPU_RESULTS,),
            environment=constants,
            gpu=True,
        )
    if settings.built:
        yield PipelineStage(
            name="publish",
            steps=(install, *_publish(settings, source)),
            needs=("build", "test", *(("gpu",) if gpu else ())),
            takes=(DIST, CPU_RESULTS, *((GPU_RESULTS,) if gpu else ())),
            environment={**constants, **_name_channels(settings)},
            secrets=settings.publish_secrets,
            regardless=True,  # the policy decides, by what the stages found
            trusted=True,
            own_python=False,
        )


def _name_channels(settings: CiSettings) -> dict[str, str]:
    named = {
        "BINARY_CHECKS_STORE": settings.store,
        "BUILT_CHANNEL": settings.built,
        "PUBLISHED_CHANNEL": settings.published,
    }
    return {name: value for name, value in named.items() if value}


def _publish(settings: CiSettings, source: str) -> Iterator[ShellStep]:
    yield ShellStep(name="Keep what was built", script=_PUSH, secrets=settings.secrets)
    attest = _SIGN.replace("@KEY@", settings.key) if settings.key else _ATTEST
    yield ShellStep(
        name="Keep what the tests found", script=attest, secrets=settings.publish_secrets
    )
    if settings.published:
        policy = f" --policy {shlex.quote(settings.policy)}" if settings.policy else ""
        promote = _PROMOTE.replace("@POLICY@", policy).replace("@CELLS@", source)
        yield ShellStep(
            name="Publish what the policy lets through", script=promote, secrets=settings.secrets
        )


def night_stages(settings: CiSettings, source: str, *, gpu: bool) -> tuple[PipelineStage, ...]:
    """Those of the smoke of what is published; none without a store."""
    return tuple(_night(settings, shlex.quote(source), gpu)) if settings.store else ()


def _night(settings: CiSettings, source: str, gpu: bool) -> Iterator[PipelineStage]:
    install = install_step(settings)

    def steps(*named: tuple[str, str]) -> tuple[ShellStep, ...]:
        filled = ((name, script.replace("@CELLS@", source)) for name, script in named)
        return (
            install,
            *(
                ShellStep(name=name, script=script, secrets=settings.secrets)
                for name, script in filled
            ),
        )

    common: dict[str, Any] = {
        "environment": {**settings.environment, "BINARY_CHECKS_STORE": settings.store},
        "secrets": settings.secrets,
        "trusted": True,
        "own_python": False,
    }
    yield PipelineStage(
        name="plan", steps=steps(("Plan the night", _PLAN)), leaves=(NIGHT,), **common
    )
    yield PipelineStage(
        name="smoke",
        steps=steps(("Judge what is published", _SMOKE)),
        needs=("plan",),
        takes=(NIGHT,),
        **common,
    )
    if gpu:  # a cell without a passing CPU stage is blocked there, and holds up no other
        yield PipelineStage(
            name="smoke-gpu",
            steps=steps(("Judge what is published on a GPU", _SMOKE)),
            needs=("plan", "smoke"),
            takes=(NIGHT,),
            gpu=True,
            regardless=True,
            **common,
        )
    yield PipelineStage(
        name="collect",
        steps=steps(
            ("Make the tables of the night", _COLLECT),
            ("Write the pages", _HUD),
            ("Say how the night ended", _SUMMARY),
        ),
        needs=("plan", "smoke", *(("smoke-gpu",) if gpu else ())),
        takes=(NIGHT,),
        leaves=(SITE,),
        regardless=True,
        **common,
    )
