"""The Python blocks of the README and of each page run, in order, as one program.

If the first line of a block names a file, such as ``# plugins/disk/metatensor_disk.py``, the block is an excerpt: its lines
must occur in that file, in the same order.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
EXCERPT = re.compile(r"# (\S+/\S+\.py)\n")
SLOW = {f"docs/{name}.md" for name in ("custom-ops", "fit", "onnx-export", "plan", "writing-a-device")}
PAGES = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW)) for page in PAGES])
def test_python_blocks_run(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)  # pages write files
    request.addfinalizer(leave_world)
    text = (ROOT / page).read_text()
    scope = {"__name__": "page"}
    for match in BLOCK.finditer(text):
        excerpt = EXCERPT.match(match[1])
        if excerpt:
            check_excerpt(ROOT / excerpt[1], match[1][excerpt.end() :])
        else:
            line = text[: match.start()].count("\n") + 2
            source = "\n" * (line - 1) + match[1]
            if "torch_api" in source:  # needs a process without PyTorch
                path = os.pathsep.join(p for p in sys.path if p)
                subprocess.run([sys.executable, "-c", source], check=True, timeout=120, env={**os.environ, "PYTHONPATH": path})
            else:
                exec(compile(source, str(ROOT / page), "exec"), scope)


def leave_world():
    """Destroy the process group that a page made."""
    from metatensor import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


def check_excerpt(path, block):
    lines = iter(path.read_text().splitlines())
    for wanted in filter(str.strip, block.splitlines()):
        assert wanted.strip() == "..." or wanted in lines, f"{path} has no line {wanted!r} there"


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
