"""Read policy.toml: the gates of channels. A gate that no file can pass is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from binary_checks.declaring import FAMILIES
from binary_checks.documents.json_values import DocumentError
from binary_checks.errors import ProfileError
from binary_checks.files import read_named
from binary_checks.fleet.artifacts.gating import Gate, GateRule, GateWaiver
from binary_checks.fleet.artifacts.signatures import LARGEST_KEY, PublicKey, read_public_key
from binary_checks.fleet.cells import read_rows
from binary_checks.profile import convert_table, load_profile, locate, parse_toml, reject_unknown
from binary_checks.safe_text import one_line

_LARGEST = 1 << 20  # bytes of the file
_Words = tuple[Literal["passed", "warned", "known"], ...]
_TOP = {"channels": Mapping[str, dict[str, Any]], "keys": list, "own_families": tuple[str, ...]}
_KEY = {"name": str, "file": str, "public": str}
_GATE: dict[str, Any] = {
    "from": tuple[str, ...],
    "families": tuple[str, ...],
    "places": tuple[str, ...],
    "gaps": tuple[str, ...],
    "accept": _Words,
    "profile": str,
    "max_age": float,
    "signed": bool,
    "keys": tuple[str, ...],
    "threshold": int,
    "promoters": tuple[str, ...],
    "relabel": bool,
    "upload_rules": str,
}
_RULE: dict[str, Any] = {
    "when": str,
    "reason": str,
    "families": tuple[str, ...],
    "places": tuple[str, ...],
    "gaps": tuple[str, ...],
    "accept": _Words,
    "profile": str,
    "max_age": float,
    "gpu": bool,
}
_WAIVER = {"despite": str, "reason": str, "owner": str, "expires": date, "package": str}
_NEEDED_OF_WAIVERS = ("despite", "reason", "owner", "expires")


@dataclass(frozen=True, kw_only=True, slots=True)
class GatePolicy:
    """The content of one policy file."""

    source: str  # the path, as the user gave it
    gates: Mapping[str, Gate]  # by channel
    warnings: tuple[str, ...] = ()  # a line each
    folder: Path = Path()  # of the file

    def gate_of(self, channel: str) -> Gate:
        """Return the gate of a channel. Raises ProfileError if it has none."""
        reject_unknown([channel], self.gates, self.source, "channel")
        return self.gates[channel]


def read_policy(path: Path, today: date) -> GatePolicy:
    """Read a policy; ``today`` decides what has expired. Raises ProfileError."""
    named = one_line(str(path))
    return _PolicyReader(read_named(path, _LARGEST, named), path.parent, named).read(today)


def locate_rules(name: str, folder: Path) -> str:
    """Return a shipped profile by its name, and a file by its path, relative to the policy."""
    return str((folder / name).absolute()) if name.endswith(".toml") else name


class _PolicyReader:
    """The reader of one policy file."""

    def __init__(self, content: bytes, folder: Path, named: str) -> None:
        self._folder, self._named = folder, named
        self._tables = convert_table(parse_toml(content, named), _TOP, named)
        self._families = dict.fromkeys((*FAMILIES, *self._tables.get("own_families", ())))
        self._keys = self._read_keys()

    def read(self, today: date) -> GatePolicy:
        channels = self._tables.get("channels", {})
        if not channels:
            message = "it has no [channels.NAME], so no channel has a gate"
            raise ProfileError(f"{self._named}: {message}")
        gates = {name: self._read_gate(name, row) for name, row in channels.items()}
        warnings = tuple(
            f"{self._named}: channels.{name}: waivers: {each.despite}: expired on {each.expires}"
            for name, gate in gates.items()
            for each in gate.waivers
            if each.has_expired(today)
        )
        return GatePolicy(source=self._named, gates=gates, warnings=warnings, folder=self._folder)

    def _read_keys(self) -> dict[str, PublicKey]:
        found: dict[str, PublicKey] = {}
        for table, where in read_rows(self._tables, self._named, "keys", _KEY, ("name",)):
            name = table["name"]
            if ("file" in table) == ("public" in table):
                raise ProfileError(f"{where}: give either file or public")
            text, place = table.get("public", ""), f"{where}: public"
            if "file" in table:
                place = f"{where}: file {one_line(table['file'])}"
                content = read_named(self._folder / table["file"], LARGEST_KEY, place)
                text = content.decode("utf-8", "replace")
            key = read_public_key(name, text, place)
            if name in found or key.public in {each.public for each in found.values()}:
                raise ProfileError(f"{where}: {name}: this name or this key is listed before")
            found[name] = key
        return found

    def _read_gate(self, name: str, row: Mapping[str, Any]) -> Gate:
        header = f"channels.{name}"
        where = locate(f"{self._named}: {header}", name)
        plain = {key: row[key] for key in row if key not in ("cells", "waivers")}
        table = convert_table(plain, _GATE, where)
        if "families" not in table:
            message = "'families' is missing: name the families that must have been judged"
            raise ProfileError(f"{where}: {message}")
        if "from" in table and not set(table["from"]) - {name}:
            message = "name another channel; otherwise nothing can be promoted"
            raise ProfileError(f"{where}: from: {message}")
        trusted = self._choose_keys(table, where)
        gate = Gate(
            channel=name,
            sources=table.pop("from", ()),
            keys=trusted,
            threshold=table.pop("threshold", 1) if trusted else 0,
            promoters=self._pick(table.pop("promoters", ()), f"{where}: promoters"),
            rules=tuple(
                GateRule(**each)
                for each, _ in read_rows(row, self._named, f"{header}.cells", _RULE, ("when",))
            ),
            waivers=tuple(
                GateWaiver(**{**each, "expires": each["expires"].isoformat()})
                for each, _ in read_rows(
                    row, self._named, f"{header}.waivers", _WAIVER, _NEEDED_OF_WAIVERS
                )
            ),
            **{key: table[key] for key in table if key not in ("signed", "keys")},
        )
        for families in (gate.families, *(each.families or () for each in gate.rules)):
            reject_unknown(families, self._families, f"{where}: families", "family")
        try:
            gate.require_sound()
            load_profile(locate_rules(gate.upload_rules or "default", self._folder))
        except (DocumentError, ProfileError) as error:
            raise ProfileError(f"{where}: {error}") from None
        return gate

    def _choose_keys(self, table: Mapping[str, Any], where: str) -> tuple[PublicKey, ...]:
        """Return the keys that count, or none if verdicts need not be signed."""
        asked = "keys" in table or "threshold" in table
        if not table.get("signed", asked or bool(self._keys)):
            if asked:
                raise ProfileError(f"{where}: signed = false contradicts the keys that are given")
            return ()
        found = self._pick(table.get("keys", self._keys), f"{where}: keys")
        if not found:
            message = "signatures are required, but there are no [[keys]]: no file could pass"
            raise ProfileError(f"{where}: {message}")
        threshold = table.get("threshold", 1)
        if not 0 < threshold <= len(found):
            raise ProfileError(
                f"{where}: threshold: {threshold}, but it has {len(found)} of the keys"
            )
        return found

    def _pick(self, names: Iterable[str], where: str) -> tuple[PublicKey, ...]:
        reject_unknown(names, self._keys, where, "key")
        return tuple(self._keys[name] for name in dict.fromkeys(names))
