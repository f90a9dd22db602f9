"""Sphinx's settings for the site of these pages, which GitHub renders as they are, too.

docs/index.md is an ordinary page with lists of links. The navigation of the site is made from it,
so that no page needs a directive that GitHub would show as text.
"""

import re

from pygments.lexers.special import TextLexer
from pygments.lexers.sql import MySqlLexer
from sphinx.application import Sphinx

project = "binary_checks"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = project
html_copy_source = False
html_extra_path = ["failing-run.svg"]  # the description on PyPI shows it by its address
myst_heading_anchors = 4


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append a table of contents to the pages that have one: the pages that they link to, in order.

    Links to CONTRIBUTING.md and CHANGELOG.md, which are outside of this folder, become links to
    their pages here.
    """
    source[0] = re.sub(r"\]\((?:\.\./)+(CONTRIBUTING|CHANGELOG)\.md", _link_page, source[0])
    if page == "index":
        for title, section in re.findall(r"^## (.+)\n((?:.*\n)*?)(?=^## |\Z)", source[0], re.M):
            source[0] += list_pages(re.findall(r"^- \[.+?\]\(([\w/]+)\.md\)", section, re.M), title)
    if page == "cells":
        source[0] += list_pages(["examples/pytorch/docs/matrix"])
    if page == "checks":
        source[0] += list_pages(re.findall(r"^\| \[\w+\]\(([\w/]+)\.md\)", source[0], re.M))


def _link_page(link: re.Match[str]) -> str:
    return f"](/{link[1].lower()}.md"


def list_pages(pages: list[str], caption: str = "") -> str:
    """Return the directive that puts pages into the navigation."""
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n```{{toctree}}\n{options}\n" + "\n".join(pages) + "\n```\n"


def setup(app: Sphinx) -> None:
    """Connect the function above; show Mermaid's diagrams as text, and accept SQL's ``$night``."""
    app.add_lexer("sql", MySqlLexer)
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", add_navigation)
