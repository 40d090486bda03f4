"""Docstrings of operators: every argument is explained, in the sections and types of NumPy style."""

import re
import subprocess
import sys
from fnmatch import fnmatchcase

import pytest

import metatensor as mt
from metatensor._core import docstrings, glossary
from metatensor._core.op import registry
from metatensor._core.schema import parse

OPS = {name: op for name, op in registry.items() if op.name == name and not op.variant and "::" not in name}


def specific(operator, argument):
    """Return the patterns of the entry of SPECIFIC that describes an argument, or None."""
    for patterns, texts in glossary.SPECIFIC:
        for pattern in patterns.split():
            if argument in texts and fnmatchcase(operator, pattern):
                return patterns
    return None


def arguments(op):
    """Return the names under which the glossary explains an operator's arguments."""
    names = {a.name for text in op.schemas for a in parse(text).arguments} | {"out"}
    series = docstrings._runs(names)
    return {series.get(name, name) for name in names}


def test_every_argument_has_a_meaning():
    missing = [(op.name, entry.name) for op in OPS.values() for entry in docstrings.arguments(op) if not entry.meaning]
    assert not missing


def test_every_named_result_has_a_meaning():
    names = {(op.name, name) for op in OPS.values() for text in op.schemas for _, name in parse(text).returns if name}
    assert not [pair for pair in names if not glossary.describe_result(*pair)]
    used = {name for _, name in names} | {".".join(pair) for pair in names}
    assert not set(glossary.RESULTS) - used


@pytest.mark.slow
def test_no_entry_of_the_glossary_is_unused():
    general, found, patterns = set(), set(), set()
    for op in OPS.values():
        for argument in arguments(op):
            entry = specific(op.name, argument)
            if entry is None:
                general.add(argument)
            else:
                found.add((entry, argument))
        for entry, texts in glossary.SPECIFIC:
            patterns |= {(entry, p) for p in entry.split() if fnmatchcase(op.name, p) and arguments(op) & set(texts)}
    unused = set(glossary.GENERAL) - general
    unused |= {(entry, argument) for entry, texts in glossary.SPECIFIC for argument in texts} - found
    unused |= {(entry, pattern) for entry, _ in glossary.SPECIFIC for pattern in entry.split()} - patterns
    assert not unused


def test_sentences_are_complete():
    texts = [*glossary.GENERAL.values(), *glossary.RESULTS.values(), *(t for _, texts in glossary.SPECIFIC for t in texts.values())]
    assert not [text for text in texts if not re.fullmatch(r"[A-Zn'0-9-].*[.]", text)]


@pytest.mark.parametrize("name", ["add", "max", "nn.functional.conv2d", "linalg.svd", "einsum", "split"])
def test_sections(name):
    text = registry[name].__doc__
    assert text.startswith(registry[name].short_doc)
    assert text.index("Signature") < text.index("\nParameters\n----------\n") < text.index("\nReturns\n-------\n")


def test_types_and_defaults():
    text = mt.nn.functional.conv2d.__doc__
    assert "\npadding : int, sequence of int or str, default 0\n    " in text
    assert "\nbias : Tensor, optional\n    " in text and "padding: str = 'valid'" in text
    assert "\nU : Tensor\n    Left singular vectors" in mt.linalg.svd.__doc__
    assert "matrix1: Tensor, ..., matrix32" in mt.chain_matmul.__doc__ and "\nmatrix1, matrix2, ... : Tensor\n" in mt.chain_matmul.__doc__


def test_results_that_share_memory():
    assert mt.select.__doc__.endswith("Tensor\n    View of `input`.")
    assert mt.Tensor.select.__doc__.endswith("Tensor\n    View of `self`.")
    assert mt.Tensor.add_.__doc__.endswith("Tensor\n    `self`, modified in place.")
    assert mt.sum.__doc__.endswith("Returns\n-------\nTensor")


def test_a_method_does_not_list_its_tensor():
    text = mt.Tensor.add.__doc__
    assert "Tensor.add(other: " in text and "\ninput : " not in text and "The tensor itself is `input`." in text
    assert mt.Tensor.add_.__doc__.startswith("In-place version of `add`.")


def test_a_property_has_no_parameters():
    assert mt.Tensor.mT.__doc__ == "View with the last two dimensions exchanged.\n\nReturns\n-------\nTensor\n    View of `self`."


def test_custom_operators():
    made = mt.library.define("acme_text::axpy(Tensor x, Tensor y, float a=1.0) -> Tensor", doc="a * x + y.")
    assert made.__doc__ == (
        "a * x + y.\n\nSignature::\n\n    acme_text::axpy(x: Tensor, y: Tensor, a: float = 1.0) -> Tensor\n\n"
        "Parameters\n----------\nx : Tensor\ny : Tensor\na : float, default 1.0\n\nReturns\n-------\nTensor"
    )
    full = "Scale.\n\nParameters\n----------\nx : Tensor\n    Factor."
    assert mt.library.define("acme_text::scale(Tensor x) -> Tensor", doc=full).__doc__.count("Parameters\n") == 1


def test_importing_the_package_builds_no_docstrings():
    code = "import sys, metatensor; print(*[m for m in sys.modules if m.endswith(('docstrings', 'glossary'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
