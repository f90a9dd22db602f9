"""Read policy.toml: the gates of channels. A gate that no file can pass is an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from binary_checks.declaring import FAMILIES
from binary_checks.errors import ProfileError
from binary_checks.files import read_named
from binary_checks.fleet.artifacts.gating import (
    MOST_DAYS,
    PLACED_FAMILIES,
    Gate,
    GateRule,
    GateWaiver,
)
from binary_checks.fleet.artifacts.matching import FIELDS
from binary_checks.fleet.artifacts.signatures import PublicKey, read_public_key
from binary_checks.fleet.artifacts.verdict import GOOD_WORDS
from binary_checks.fleet.cells import read_rows
from binary_checks.model import read_place
from binary_checks.profile import (
    convert,
    convert_table,
    load_profile,
    parse_toml,
    read_condition,
    reject_unknown,
)
from binary_checks.safe_text import one_line

_LARGEST = 1 << 20  # bytes of the file
_LARGEST_KEY = 16 << 10
_MOST_CHANNELS = 200
_TOP = {"channels": dict, "keys": list, "own_families": tuple[str, ...]}
_KEY = {"name": str, "file": str, "public": str}
_GATE: dict[str, Any] = {
    "from": tuple[str, ...],
    "families": tuple[str, ...],
    "places": tuple[str, ...],
    "gaps": tuple[str, ...],
    "accept": tuple[str, ...],
    "profile": str,
    "known_problems_sha256": str,
    "max_age": float,
    "signed": bool,
    "keys": tuple[str, ...],
    "threshold": int,
    "promoters": tuple[str, ...],
    "relabel": bool,
    "upload_rules": str,
    "cells": list,
    "waivers": list,
}
_RULE = {
    "when": str,
    "reason": str,
    "families": tuple[str, ...],
    "places": tuple[str, ...],
    "gaps": tuple[str, ...],
    "accept": tuple[str, ...],
    "profile": str,
    "max_age": float,
    "gpu": bool,
}
_WAIVER = {"despite": str, "reason": str, "owner": str, "expires": date, "package": str}
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class GatePolicy:
    """The content of one policy file."""

    source: str  # the path, as the user gave it
    gates: Mapping[str, Gate]  # by channel
    keys: tuple[PublicKey, ...] = ()  # all keys of the file
    warnings: tuple[str, ...] = ()  # a line each
    folder: Path = Path()  # of the file

    def locate_rules(self, gate: Gate) -> str:
        """Return the name or the path of the profile with the gate's upload rules, or ""."""
        return locate_rules(gate.upload_rules, self.folder)

    def gate_of(self, channel: str) -> Gate:
        """Return the gate of a channel. Raises ProfileError if it has none."""
        if channel not in self.gates:
            reject_unknown([channel], self.gates, self.source, "channel")
        return self.gates[channel]


def read_policy(path: Path, today: date) -> GatePolicy:
    """Read a policy; ``today`` decides what has expired. Raises ProfileError."""
    named = one_line(str(path))
    return _PolicyReader(read_named(path, _LARGEST, named), path, named, today).read()


class _PolicyReader:
    """The reader of one policy file."""

    def __init__(self, content: bytes, path: Path, named: str, today: date) -> None:
        self._folder, self._named, self._today = path.parent, named, today
        self._tables = parse_toml(content, named)
        self._content, self._lines = content, content.decode("utf-8").splitlines()
        self._warnings: list[str] = []
        self._families = dict.fromkeys(FAMILIES, "")

    def read(self) -> GatePolicy:
        reject_unknown(self._tables, _TOP, self._named, "key")
        own = self._take("own_families", ())
        self._families |= dict.fromkeys(own, "")
        keys = self._read_keys()
        channels = self._take("channels", {})
        if not channels:
            raise ProfileError(
                f"{self._named}: it has no [channels.NAME], so no channel has a gate"
            )
        if len(channels) > _MOST_CHANNELS:
            raise ProfileError(f"{self._named}: channels: at most {_MOST_CHANNELS} are allowed")
        gates = {name: self._read_gate(name, row, keys) for name, row in channels.items()}
        return GatePolicy(
            source=self._named,
            gates=gates,
            keys=(*keys.values(),),
            warnings=tuple(self._warnings),
            folder=self._folder,
        )

    def _take(self, key: str, empty: Any) -> Any:
        """Return the value of a top-level key, or ``empty``."""
        if key not in self._tables:
            return empty
        return convert(self._tables[key], _TOP[key], f"{self._named}: {key}")

    def _format_line(self, header: str) -> str:
        """Return the line of a table's header, as " (line 12)"; "" if the table has no header."""
        pattern = re.compile(rf"[ \t]*\[[ \t]*{re.escape(header)}[ \t]*\]")
        found = (number for number, line in enumerate(self._lines, 1) if pattern.match(line))
        return next((f" (line {number})" for number in found), "")

    def _rows(
        self, table: Mapping[str, Any], header: str, kinds: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the tables of an array, converted, each with its location for messages."""
        for row, where in read_rows(table, self._content, self._named, header, kinds):
            yield convert_table(row, kinds, where), where

    def _read_keys(self) -> dict[str, PublicKey]:
        found: dict[str, PublicKey] = {}
        for table, where in self._rows(self._tables, "keys", _KEY):
            name = _require_text(table, "name", where)
            if ("file" in table) == ("public" in table):
                raise ProfileError(f"{where}: give either file or public")
            text, place = table.get("public", ""), f"{where}: public"
            if "file" in table:
                place = f"{where}: file {one_line(table['file'])}"
                content = read_named(self._folder / table["file"], _LARGEST_KEY, place)
                text = content.decode("utf-8", "replace")
            key = read_public_key(name, text, place)
            same = [each.name for each in found.values() if each.public == key.public]
            if name in found or same:
                repeated = f"the same key as {same[0]}" if same else "a second key of that name"
                raise ProfileError(f"{where}: {name}: {repeated}; each counts once")
            found[name] = key
        return found

    def _read_gate(self, name: str, row: object, keys: Mapping[str, PublicKey]) -> Gate:
        header = f"channels.{name}"
        where = f"{self._named}: {header}{self._format_line(header)}"
        if not isinstance(row, dict):
            raise ProfileError(f"{where}: not a table; write [{header}]")
        plain = {key: row[key] for key in row if key not in ("cells", "waivers")}
        table = convert_table(plain, _GATE, where)
        if "families" not in table:
            raise ProfileError(
                f"{where}: 'families' is missing: name the families that must have been judged"
            )
        self._require_asked(table, where)
        trusted = self._choose_keys(table, keys, where)
        gate = Gate(
            channel=name,
            families=table["families"],
            places=table.get("places", ()),
            gaps=table.get("gaps", ()),
            sources=_require_sources(table, name, where),
            accept=table.get("accept", GOOD_WORDS),
            profile=table.get("profile", ""),
            known_problems_sha256=table.get("known_problems_sha256", ""),
            max_age=table.get("max_age"),
            threshold=table.get("threshold", 1) if trusted else 0,
            keys=trusted,
            promoters=_pick(table.get("promoters", ()), keys, f"{where}: promoters"),
            rules=tuple(self._read_rules(row, f"{header}.cells", table)),
            waivers=tuple(self._read_waivers(row, f"{header}.waivers")),
            relabel=table.get("relabel", False),
            upload_rules=self._require_profile(table.get("upload_rules", ""), where),
        )
        _require_places(gate.places, gate.families, where)
        reject_unknown(gate.gaps, dict.fromkeys(gate.places), f"{where}: gaps", "place")
        return gate

    def _require_asked(self, table: Mapping[str, Any], where: str) -> None:
        """Raise ProfileError for conditions that no file can meet, or that every file meets."""
        if "families" in table:
            if not table["families"]:
                raise ProfileError(
                    f"{where}: families: name at least one; otherwise every file would pass"
                )
            reject_unknown(table["families"], self._families, f"{where}: families", "family")
        words = {word: word for word in GOOD_WORDS}
        if "accept" in table:
            reject_unknown(table["accept"], words, f"{where}: accept", "verdict")
            if "passed" not in table["accept"]:
                raise ProfileError(
                    f"{where}: accept: add 'passed'; otherwise packages without problems are "
                    "refused"
                )
        if "max_age" in table and not 0 < table["max_age"] <= MOST_DAYS:
            reason = (
                "the age must be more than 0" if table["max_age"] <= 0 else "more than 10 years"
            )
            raise ProfileError(f"{where}: max_age: {table['max_age']:g} days: {reason}")
        digest = table.get("known_problems_sha256", "0" * 64)
        if not _DIGEST.fullmatch(digest):
            raise ProfileError(f"{where}: known_problems_sha256: not 64 hexadecimal digits")

    def _choose_keys(
        self, table: Mapping[str, Any], keys: Mapping[str, PublicKey], where: str
    ) -> tuple[PublicKey, ...]:
        """Return the keys that count, or none if verdicts need not be signed."""
        asked = "keys" in table or "threshold" in table
        if not table.get("signed", asked or bool(keys)):
            if asked:
                raise ProfileError(f"{where}: signed = false contradicts the keys that are given")
            return ()
        found = (
            _pick(table["keys"], keys, f"{where}: keys") if "keys" in table else (*keys.values(),)
        )
        threshold = table.get("threshold", 1)
        if not found:
            raise ProfileError(
                f"{where}: signatures are required, but there are no [[keys]]: no file could pass"
            )
        if not 0 < threshold <= len(found):
            there = f"there {'is 1 key' if len(found) == 1 else f'are {len(found)} keys'}"
            raise ProfileError(f"{where}: threshold: {threshold}, and {there}")
        return found

    def _require_profile(self, name: str, where: str) -> str:
        """Return the name of a profile. Raises ProfileError if it cannot be read."""
        if name:
            try:
                load_profile(locate_rules(name, self._folder))
            except ProfileError as error:
                raise ProfileError(f"{where}: upload_rules: {error}") from None
        return name

    def _read_rules(
        self, row: Mapping[str, Any], header: str, gate: Mapping[str, Any]
    ) -> Iterator[GateRule]:
        for table, where in self._rows(row, header, _RULE):
            when = _require_text(table, "when", where)
            condition = read_condition(when, f"{where}: when", dict.fromkeys(FIELDS, str))
            self._require_asked(table, where)
            families = table.get("families", gate["families"])
            if "places" in table:
                _require_places(table["places"], families, where)
            there = dict.fromkeys(table.get("places", gate.get("places", ())))
            reject_unknown(table.get("gaps", ()), there, f"{where}: gaps", "place")
            less = set(gate["families"]) - set(families)
            if (less or table.get("gpu") is False) and not table.get("reason", "").strip():
                lacking = ", ".join(sorted(less)) or "gpu"
                raise ProfileError(
                    f"{where}: 'reason' is missing: state why these files need no {lacking}"
                )
            yield GateRule(**{**table, "when": condition.written})

    def _read_waivers(self, row: Mapping[str, Any], header: str) -> Iterator[GateWaiver]:
        for table, where in self._rows(row, header, _WAIVER):
            for name in ("despite", "reason", "owner"):
                _require_text(table, name, where)
            if "expires" not in table:
                raise ProfileError(f"{where}: 'expires' is missing: every waiver needs an end")
            expires = table["expires"].isoformat()
            waiver = GateWaiver(**{**table, "expires": expires})
            if waiver.has_expired(self._today):
                self._warnings.append(f"{where}: {waiver.despite}: expired on {expires}")
            yield waiver


def locate_rules(name: str, folder: Path) -> str:
    """Return a shipped profile by its name, and a file by its path, relative to the policy."""
    return str((folder / name).absolute()) if name.endswith(".toml") else name


def _require_text(table: Mapping[str, Any], name: str, where: str) -> str:
    text: str = table.get(name, "")
    if not text.strip():
        raise ProfileError(f"{where}: {name!r} is missing")
    return text


def _require_sources(table: Mapping[str, Any], channel: str, where: str) -> tuple[str, ...]:
    sources: tuple[str, ...] = table.get("from", ())
    if "from" in table and not set(sources) - {channel}:
        raise ProfileError(
            f"{where}: from: name another channel; otherwise nothing can be promoted"
        )
    return sources


def _require_places(places: Iterable[str], families: Iterable[str], where: str) -> None:
    """Raise ProfileError for invalid places, and for places where no family would run."""
    for each in places:
        try:
            read_place(each)
        except ProfileError as error:
            raise ProfileError(f"{where}: places: {error}") from None
        if not set(families) & set(PLACED_FAMILIES):
            known = ", ".join(PLACED_FAMILIES)
            fault = f"{each}: none of the families runs the package there; add one of: {known}"
            raise ProfileError(f"{where}: places: {fault}")


def _pick(names: Iterable[str], keys: Mapping[str, PublicKey], where: str) -> tuple[PublicKey, ...]:
    reject_unknown(names, keys, where, "key")
    return tuple(keys[name] for name in dict.fromkeys(names))
