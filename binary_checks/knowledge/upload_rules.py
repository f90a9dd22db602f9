"""The rules of PyPI for an uploaded wheel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.metadata import ExceptionGroup, Metadata, parse_email

from binary_checks.profile import read_toml
from binary_checks.safe_text import elide

_PROJECT_URL = re.compile(r"\s*[^,\s](?:[^,]{0,31}),\s*https?://.*", re.DOTALL | re.IGNORECASE)
_TABLE = Path(__file__).with_name("upload_rules.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadRules:
    """The rules, as PyPI's own code states them."""

    largest: int  # bytes of a file
    metadata_versions: tuple[str, ...]
    longest_summary: int  # characters
    fields: Mapping[str, str]  # the values that PyPI accepts, in words, by field
    compressed_from: int  # bytes of all members from which their compression is limited
    most_compressed: int  # how many times as large as the file its members may be
    platforms: tuple[re.Pattern[str], ...]

    def accepts(self, platform: str) -> bool:
        """Return whether a wheel with this platform tag is accepted."""
        return any(each.fullmatch(platform) for each in self.platforms)


@cache
def read_upload_rules() -> UploadRules:
    """Return the rules of PyPI."""
    table = read_toml(_TABLE, _TABLE.name)
    return UploadRules(
        largest=table["largest"],
        metadata_versions=tuple(table["metadata_versions"]),
        longest_summary=table["longest_summary"],
        fields=table["fields"],
        compressed_from=table["compression"]["from"],
        most_compressed=table["compression"]["most"],
        platforms=tuple(re.compile(each, re.ASCII) for each in table["platforms"].values()),
    )


_ADDED = re.compile(r"introduced in metadata version (\d+\.\d+)")
_OF_INSTALLERS = frozenset({"name", "version", "requires-dist", "requires-python"})
"""Fields whose values installers refuse, too, so that other checks judge them."""


@cache
def list_metadata_versions() -> tuple[str, ...]:
    """Return the versions of METADATA that PyPI accepts and the installed packaging knows."""
    return tuple(
        each
        for each in read_upload_rules().metadata_versions
        if not _find_fault(each, "Platform", "")
    )


def find_field_faults(
    version: str, headers: Sequence[tuple[str, str]]
) -> Mapping[str, tuple[str, str]]:
    """Map sentences about what PyPI refuses in METADATA of that version to a field and its value.

    packaging.metadata decides, which PyPI and twine use.
    """
    shown = [(key, elide(value)) for key, value in headers]
    faults = (_find_fault(version, key, value) for key, value in headers)
    found = {fault: each for fault, each in zip(faults, shown, strict=True) if fault}
    fields = {key.lower(): (key, value) for key, value in shown}
    _, repeated = parse_email("".join(f"{key}: {value}\n" for key, value in headers))
    for name, values in repeated.items():
        if name in fields and len(values) > 1 and not parse_email(f"{name}: x\n")[1]:
            what = "each of its labels" if name == "project-url" else "it"
            fault = f"{fields[name][0]} stands {len(values)} times, but {what} may stand only once"
            found[fault] = fields[name]
    if fields.get("license", ("", ""))[1] and "license-expression" in fields:
        both = "has License and License-Expression, of which PyPI accepts only the latter"
        found[both] = fields["license"]
    return found


def _find_fault(version: str, key: str, value: str) -> str:
    field, rules = key.lower(), read_upload_rules()
    raw, unknown = parse_email(f"{key}: {value}\n")
    if unknown:
        return f"{key} is a field of no metadata version: twine does not upload the wheel"
    if field == "license-file":
        # setuptools wrote it into METADATA 2.1, and twine does not send it to PyPI then.
        return ""  # missing-license-file judges its values
    raw = {"name": "a", "version": "1", **raw, "metadata_version": version}
    fault = ""
    if field == "project-url" and not _PROJECT_URL.fullmatch(value):
        fault = rules.fields[field]
    if field == "summary" and len(value) > rules.longest_summary:
        fault = f"it has {len(value)} characters, and PyPI accepts up to {rules.longest_summary}"
    try:
        Metadata.from_raw(raw)
    except (ExceptionGroup, LookupError, RecursionError, ValueError) as error:
        # Up to 26.2 packaging lets errors of the parser of content types escape.
        reason = str(next(iter(getattr(error, "exceptions", [error]))))
        if added := _ADDED.search(reason):
            return f"{key} came with Metadata-Version {added[1]}: PyPI refuses it in {version}"
        if field not in _OF_INSTALLERS:
            fault = rules.fields.get(field, f"PyPI does not accept it ({reason})")
    return f"{key} is {elide(value)!r}: {fault}" if fault else ""
