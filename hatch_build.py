"""Make the description for PyPI from README.md, whose relative links lead nowhere there."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class DescriptionHook(MetadataHookInterface):
    """Sets the project's readme; hatchling finds the class by its base."""

    def update(self, metadata: dict) -> None:
        """Point every relative link at the page of the site that pyproject.toml names."""
        site = self.config["site"]
        text = (Path(self.root) / "README.md").read_text("utf-8")
        links = re.compile(r"\]\((?:docs/)?([\w/-]+)\.(md|svg)(#[\w-]+)?\)")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": links.sub(lambda found: f"]({site}/{_name_page(found)})", text),
        }


def _name_page(link: re.Match) -> str:
    name, suffix, anchor = link.groups("")
    return f"{name.lower()}.html{anchor}" if suffix == "md" else f"{name}.{suffix}"
