"""The examples of the pages in docs/ops: every public operator has one, and each prints what the page shows."""

import doctest
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import metatensor as mt
from metatensor._core.op import registry

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs/ops").glob("*.md"))
ENTRY = re.compile(r"^## (.+)\n((?:(?!^## ).*\n)*)", re.M)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def opdocs():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        spec = importlib.util.spec_from_file_location("opdocs", ROOT / "tools/opdocs.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return module


def entries(page):
    """Yield the name and the text of each operator on a page."""
    for match in ENTRY.finditer(page.read_text()):
        if match[1] != "Other names":
            yield match[1], match[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(page):
    problems = []
    runner = doctest.DocTestRunner(verbose=False)
    for name, text in entries(page):
        for block in BLOCK.findall(text):
            test = doctest.DocTestParser().get_doctest(block, {"mt": mt}, name, str(page), 0)
            assert test.examples[-1].want, f"the example of {name} shows no result"
            runner.run(test, out=problems.append)
    assert not problems, "".join(problems)


def test_every_public_operator_has_an_example(opdocs):
    shown = {name for page in PAGES for name, text in entries(page) if BLOCK.search(text)}
    public = {name for name, op in registry.items()
              if op.name == name and not op.variant and "::" not in name and opdocs.has_example(op)}  # fmt: skip
    assert shown == public and len(public) > 700


def test_calls_are_of_public_operators(opdocs):
    examples = sys.modules["opexamples"]
    names = {name for name, op in registry.items() if op.name == name and not op.variant}
    assert set(examples.CALLS) <= names and examples.HARDWARE <= names
    assert not set(examples.CALLS) & examples.HARDWARE


def test_a_wrong_result_is_noticed():
    test = doctest.DocTestParser().get_doctest('>>> mt.ones(2, device="cpu")\ntensor([1., 2.])\n', {"mt": mt}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed == 1
