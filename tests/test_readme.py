"""The README's Python blocks run, in order, as one program."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("page", ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").glob("*.md"))])
def test_python_blocks_run(page):
    text = (ROOT / page).read_text()
    scope = {"__name__": "readme"}
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 2
        code = compile("\n" * (line - 1) + match[1], str(ROOT / page), "exec")
        exec(code, scope)


def test_promised_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"make ([a-z][a-z-]+)", (ROOT / page).read_text()):
            assert re.search(rf"^{target}:", makefile, re.M), f"{page} promises make {target}"


def test_linked_files_exist():
    for page in ("README.md", "CONTRIBUTING.md", "docs/index.md"):
        folder = (ROOT / page).parent
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert (folder / link).exists(), f"{page} links to {link}"
