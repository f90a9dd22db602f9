"""Templates that escape all texts, and load only their own style and script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable

import jinja2
import markupsafe

from binary_checks.model import PackageResult, Problem
from binary_checks.reports.explanation import find_page
from binary_checks.reports.faults import shell_path
from binary_checks.safe_text import one_line
from binary_checks.wording.sentences import fill_in

_LITERAL = re.compile("``(.+?)``|`([^`]+?)`")


def prepare(package: str) -> jinja2.Environment:
    """Return the templates of a Python package and of this one, with the colours of all pages."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package), jinja2.PackageLoader("binary_checks.reports.html")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(line=one_line, prose=mark_up, shorten=shorten, size=format_size)
    environment.globals.update(find_commands=find_commands, find_page=find_page)
    return environment


def read_own(environment: jinja2.Environment, template: str) -> tuple[markupsafe.Markup, str]:
    """Return a style or script of ours, with its hash for a Content-Security-Policy."""
    text = environment.get_template(template).render()
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return markupsafe.Markup(text), f"'sha256-{digest}'"  # noqa: S704 - our own


def mark_up(text: str) -> markupsafe.Markup:
    """Return documentation as HTML, with literals as code and all other text escaped."""
    code = markupsafe.Markup("<code>{}</code>")
    pieces, end = list[str](), 0
    text = one_line(" ".join(text.split()))
    for found in _LITERAL.finditer(text):
        pieces += (markupsafe.escape(text[end : found.start()]), code.format(found[1] or found[2]))
        end = found.end()
    return markupsafe.Markup("").join((*pieces, text[end:]))


def find_commands(package: PackageResult, problems: Iterable[Problem]) -> list[str]:
    """Return the commands that mend the problems, each once, with the files' paths inserted."""
    place = shell_path(package)
    found = (fill_in(each.command, path=each.path, package=place) for each in problems)
    return [command for command in dict.fromkeys(found) if command]


# Texts: sizes, and names that are too long for their place.


def format_size(count: float) -> str:
    """Format a number of bytes in powers of 1000, as indexes do."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{round(count):,} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"


def shorten(text: str, longest: int) -> str:
    """Return the text, shortened in its middle if it has more than ``longest`` characters."""
    if len(text) <= longest:
        return text
    kept = max(longest - 1, 2)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
