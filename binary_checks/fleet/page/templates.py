"""The templates of the site and the mail, with the functions that they call."""

from __future__ import annotations

from typing import Any

from binary_checks.fleet.page import naming
from binary_checks.fleet.page.charts import draw_numbers, draw_sizes, draw_states
from binary_checks.reports.html.templating import format_size, prepare, read_own
from binary_checks.reports.markdown import format_code
from binary_checks.reports.verdict_texts import count

_WORDS = (
    count,
    draw_numbers,
    draw_sizes,
    draw_states,
    format_size,
    naming.format_projects,
    naming.format_seconds,
    naming.format_since,
    naming.format_text,
    naming.name_cell_page,
    naming.name_checks,
    naming.name_commit_page,
    naming.name_file,
    naming.name_pull_page,
    naming.split,
)
"""Functions that the templates call."""


class Templates:
    """The templates, with style and script and their hashes for the page's policy."""

    def __init__(self) -> None:
        self._environment = prepare("binary_checks.fleet.page")
        self._environment.globals.update({each.__name__: each for each in _WORDS})
        for name, words in {"tones": naming.TONES, "marks": naming.MARKS}.items():
            self._environment.globals[name] = {state.value: word for state, word in words.items()}
        self._environment.filters.update(code=format_code, text=naming.format_text)
        style, source = read_own(self._environment, "fleet.css")
        script, script_source = read_own(self._environment, "filter.js")
        self._own = {"style": style, "style_source": source}
        self._script = {"script": script, "script_source": script_source}

    def render(self, template: str, **values: Any) -> str:
        """Return a file made from a template."""
        script = self._script if template == "index.html" else {}
        found = self._environment.get_template(template)
        return found.render(**self._own, **script, **values)
