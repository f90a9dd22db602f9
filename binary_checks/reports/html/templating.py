"""Templates of pages that escape everything, and load nothing but their own style and script."""

from __future__ import annotations

import base64
import hashlib

import jinja2
import markupsafe


def prepare(package: str) -> jinja2.Environment:
    """The templates of a Python package, and ours, among them the colours of all pages."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package), jinja2.PackageLoader("binary_checks.reports.html")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def read_own(environment: jinja2.Environment, template: str) -> tuple[markupsafe.Markup, str]:
    """A style or a script of ours, and the source that a Content-Security-Policy allows it by."""
    text = environment.get_template(template).render()
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return markupsafe.Markup(text), f"'sha256-{digest}'"  # noqa: S704 - our own
