"""Answers in the place of the probes of a GPU stage, as JSON by script and step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from binary_checks.model import Conditions, ProbeAnswer
from binary_checks.places import HostPlace, PlaceSettings
from fixtures.environments import PYTHON

HOST = """{"stage": "", "library": "/usr/lib/libcuda.so.1", "status": 0, "cuda": 13000,
"driver": "580.95.05", "devices": [{"name": "NVIDIA H200", "capability": "9.0", "memory": 1}]}"""
LIBRARIES = """{"stage": "", "state": "finished", "versions":
{"cudnn": {"compiled": "9.10.2", "loaded": "9.10.2", "installed": "9.10.2.21"}}}"""
FINISHED = '{"stage": "", "state": "finished"}'


class StandIn:
    """Answers in the place of the probes, with JSON by script and step."""

    def __init__(self, **answers: str | ProbeAnswer) -> None:
        self.answers = {"gpu_host": HOST, "nvidia_libraries": LIBRARIES, **answers}
        self.sites: list[bool] = []  # whether code of packages ran at the start of the host's probe
        self.asked: list[str] = []
        self.platforms: list[str] = []  # of the host's probe, and of the steps

    def run(self, python: Path, script: str, request: Any, **limits: Any) -> ProbeAnswer:
        if "platform" in request:
            self.platforms.append(request["platform"])
        if "steps" in request:
            return self.take(request["steps"])
        name = "list" if request.get("list") else script
        self.asked.append(name)
        if name == "gpu_host":
            self.sites.append(limits["conditions"].site)
            name = name if len(self.sites) == 1 else self.answers.get("then", name)
        answer = self.answers.get(name, FINISHED)
        return answer if isinstance(answer, ProbeAnswer) else ProbeAnswer(answer=json.loads(answer))

    def take(self, steps: list[str]) -> ProbeAnswer:
        """Answer for one process that takes steps, until one fails."""
        self.asked.append("+".join(steps))
        results: dict[str, Any] = {}
        for name in steps:
            answer = self.answers.get(name, FINISHED)
            if isinstance(answer, ProbeAnswer):
                return replace(answer, answer={"stage": name, "results": results})
            results[name] = json.loads(answer)
            if results[name].get("state") == "raised":
                break
        return ProbeAnswer(answer={"stage": "", "state": "finished", "results": results})


def listed(*names: str, alone: tuple[str, ...] = (), thorough: tuple[str, ...] = ()) -> str:
    """What the script lists."""
    rows = [
        {"name": name, "bound": 20, "alone": name in alone, "thorough": name in thorough}
        for name in names
    ]
    return json.dumps({"steps": rows})


class Answering(HostPlace):
    """A place whose probes answer as they are told to, in turn."""

    def __init__(self, *answers: ProbeAnswer) -> None:
        super().__init__(PlaceSettings(python=PYTHON, timeout=60))
        self.answers, self.asked = list(answers), list[Mapping[str, Any]]()

    def run(
        self,
        script: str | Path,
        request: Mapping[str, object],
        *,
        timeout: float | None = None,
        conditions: Conditions | None = None,
    ) -> ProbeAnswer:
        self.asked.append(request)
        return self.answers.pop(0)


class Record:
    """Keeps what a script tells: its stages, and its last answer."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request, self.answer = request, dict[str, Any]()
        self.stages: list[str] = []

    def enter(self, stage: str, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.answer["stage"] = stage
        self.stages.append(stage)

    def finish(self, answer: dict[str, Any]) -> None:
        self.answer = answer
