"""The rules of PyPI for an uploaded wheel."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from binary_checks.profile import read_toml

_LONGEST_LABEL = 32  # characters
_TABLE = Path(__file__).with_name("upload_rules.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadRules:
    """The rules, as PyPI's own code states them."""

    largest: int  # bytes of a file
    metadata_versions: tuple[str, ...]
    longest_summary: int  # characters
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
        compressed_from=table["compression"]["from"],
        most_compressed=table["compression"]["most"],
        platforms=tuple(re.compile(each, re.ASCII) for each in table["platforms"].values()),
    )


def find_license_fault(expression: str) -> str:
    """Return why PyPI refuses a License-Expression; "" if it does not."""
    try:
        canonicalize_license_expression(expression)
    except InvalidLicenseExpression as error:
        reason = str(error).partition(":")[0].lower()
        return f"PyPI accepts only SPDX expressions ({reason})"
    return ""


def find_project_url_fault(value: str) -> str:
    """Return why PyPI refuses a Project-URL; "" if it does not."""
    label, comma, url = value.partition(",")
    if not comma or not label.strip():
        return "PyPI accepts only a label, a comma and a URL"
    if len(label.strip()) > _LONGEST_LABEL:
        return f"PyPI accepts only labels of up to {_LONGEST_LABEL} characters"
    if not url.strip().lower().startswith(("http://", "https://")):
        return "PyPI accepts only URLs that begin with http:// or https://"
    return ""
