"""Sphinx settings. The pages are written in Markdown."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "metatensor"))
from _version import __version__

project = "metatensor"
copyright = "2026, the metatensor contributors"
release = __version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"metatensor {release}"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# Pages link to files in the repository that are not pages.
suppress_warnings = ["myst.xref_missing"]
