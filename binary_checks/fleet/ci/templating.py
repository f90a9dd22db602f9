"""Templates of the files for CI systems: texts that read like what they become."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import DEFAULT_FILE
from binary_checks.fleet.ci.pipeline import Pipeline
from binary_checks.profile import quote_toml

MARK = "by `binary-checks ci write`"
"""What the first line of every generated file says after the path of its matrix."""
_LONGEST_SLUG = 60


def render(template: str, pipeline: Pipeline, **values: Any) -> str:
    """Return the text of a template, which gets the settings and these values."""
    heading = (
        f"Generated from {pipeline.source} {MARK}; change that file and run the command again."
    )
    named = "" if pipeline.source == DEFAULT_FILE else f" {shlex.quote(pipeline.source)}"
    text: str = (
        _load_templates()
        .get_template(f"{template}.j2")
        .render(
            heading=heading,
            settings=pipeline.settings,
            stages=pipeline.stages,
            install=shlex.join(pipeline.settings.install),
            cells_file=named,
            cells_option=f" --cells{named}" if named else "",
            **values,
        )
    )
    return text


def _load_templates() -> Any:
    """Return Jinja's environment. Raises ProfileError if Jinja is not installed."""
    try:
        import jinja2
    except ImportError:
        message = "ci: Jinja2 is not installed: `pip install 'binary-checks[fleet]'`"
        raise ProfileError(message) from None
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("binary_checks.fleet.ci"),
        autoescape=False,  # noqa: S701 - YAML, TOML and Markdown, in which our filters escape
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # GitHub's expressions have braces, and CircleCI's have angle brackets
        block_start_string="[%",
        block_end_string="%]",
        variable_start_string="[[",
        variable_end_string="]]",
        comment_start_string="[#",
        comment_end_string="#]",
    )
    templates.filters.update(quote=quote, toml=quote_toml, tox=quote_for_tox)
    return templates


def quote(value: object) -> str:
    """Return a value as JSON, which is YAML, too: a text in quotes is nothing but a text."""
    return json.dumps(value, ensure_ascii=False)


def quote_for_tox(text: str) -> str:
    """Return a text in TOML, in which tox substitutes nothing."""
    return quote_toml(text.replace("{", "\\{").replace("}", "\\}"))


def identify(text: str, joint: str) -> str:
    """Return a name of letters, digits and ``joint``, with a hash that makes the name unique.

    The same text always gives the same name.
    """
    slug = re.sub(r"[^A-Za-z0-9]+", joint, text)[:_LONGEST_SLUG].strip(joint)
    return f"{slug}{joint}{hashlib.sha256(text.encode()).hexdigest()[:10]}"
