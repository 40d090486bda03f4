"""Docstrings of the public modules: every public name has one, and the examples run and print what they show."""

import doctest
import importlib
import pkgutil
import re
import types
import warnings
from pathlib import Path

import pytest

import metatensor as mt
from metatensor._core.op import Op, registry

ROOT = Path(mt.__file__).parent
# Modules with additional requirements, and modules whose names PyTorch documents.
OPTIONAL = {"metatensor.interop.einops", "metatensor.utils.tensorboard"}
ELSEWHERE = ("metatensor.torch_api.", "metatensor.__main__")
PACKAGES = sorted(path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())
PACKAGES = [name for name in PACKAGES if not name.startswith("__")]
RUN = set()  # examples that have run; they are not repeated, because an operator can be defined only once


def modules(package):
    """Yield a package and the modules in it."""
    found = [f"metatensor.{package}"]
    if (ROOT / package).is_dir():
        found += [info.name for info in pkgutil.walk_packages([str(ROOT / package)], f"metatensor.{package}.")]
    for name in found:
        if not name.startswith(ELSEWHERE) and name not in OPTIONAL:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield importlib.import_module(name)


def is_public(module):
    return not any(part.startswith("_") for part in module.__name__.split(".")[1:])


def is_documentable(value):
    """Return True for classes, modules and functions, and False for constants and type aliases."""
    return isinstance(value, (type, types.ModuleType)) or (callable(value) and not hasattr(value, "__origin__"))


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_docstrings(package):
    missing = []
    for module in filter(is_public, modules(package)):
        missing += [module.__name__] * (not module.__doc__)
        names = [name for name in getattr(module, "__all__", ()) if not name.startswith("_")]
        missing += [f"{module.__name__}.{name}" for name in names
                    if is_documentable(value := getattr(module, name)) and not value.__doc__]  # fmt: skip
    assert not missing


@pytest.mark.slow
def test_names_of_the_package_have_docstrings():
    names = [name for name in dir(mt) if not name.startswith("_")]
    assert len(names) > 700
    assert not [name for name in names if is_documentable(value := getattr(mt, name)) and not value.__doc__]
    assert not [name for name, op in registry.items() if not op.__doc__]


def examples(module):
    """Yield (name, docstring) of what a module defines and whose docstring has examples. Operators have other tests."""
    seen = set()
    for name, value in [("", module), *vars(module).items()]:
        if isinstance(value, Op) or (isinstance(value, types.ModuleType) and value is not module):
            continue
        if not str(getattr(value, "__module__", "metatensor")).startswith("metatensor"):
            continue
        members = [("", value)]
        if isinstance(value, type):
            members += [(key, getattr(member, "__func__", member)) for key, member in vars(value).items()
                        if type(member).__name__ not in ("OpMethod", "OpProperty")]  # fmt: skip
        for key, member in members:
            text = member.__doc__ if callable(member) or isinstance(member, (types.ModuleType, property)) else None
            if isinstance(text, str) and ">>> " in text and text not in seen:
                seen.add(text)
                yield ".".join(filter(None, [module.__name__, name, key])), text


def failures(text, name):
    found = []
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, None, 0)
    doctest.DocTestRunner(verbose=False).run(test, out=found.append)
    return "".join(found)


@pytest.mark.parametrize("package", ["_core", *(name for name in PACKAGES if name not in ("_core", "plan")),
                                     pytest.param("plan", marks=pytest.mark.slow)])  # fmt: skip
def test_examples(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    problems = []
    for module in [*modules(package), *([mt] if package == "_core" else [])]:
        for name, text in examples(module):
            if text not in RUN:
                RUN.add(text)
                problems.append(failures(text, name))
    assert not any(problems), "".join(problems)


def test_a_wrong_example_is_noticed():
    assert failures(">>> 1 + 1\n3\n", "wrong") and not failures(">>> 1 + 1\n2\n", "right")


# The reference ------------------------------------------------------------------------------

REFERENCE = ROOT.parent / "docs/reference"
# Packages without a reference page: internal ones, and namespaces of operators, which are on the operator pages.
UNLISTED = {"_core", "_version", "ops", "rules", "overloads", "cli", "interop", "program", "fft", "linalg", "masked", "signal", "special"}


@pytest.mark.skipif(not REFERENCE.exists(), reason="the pages are in the source tree")
def test_the_reference_covers_the_public_modules():
    text = "".join(page.read_text() for page in REFERENCE.glob("*.md"))
    listed = re.findall(r"^\.\. automodule:: metatensor\.([\w.]+)$", text, re.M)
    assert len(listed) == len(set(listed))
    assert {name.partition(".")[0] for name in listed} == {*PACKAGES, "program"} - (UNLISTED - {"program"})
    for name in listed:
        assert importlib.import_module(f"metatensor.{name}").__doc__
    pages = re.findall(r"^reference/([\w.]+)$", (REFERENCE.parent / "index.md").read_text(), re.M)
    assert sorted(pages) == sorted(p.stem for p in REFERENCE.glob("*.md"))


@pytest.mark.skipif(not REFERENCE.exists(), reason="the pages are in the source tree")
def test_the_reference_covers_the_names_of_the_package():
    text = "".join((REFERENCE / page).read_text() for page in ("metatensor.md", "tensor.md"))
    found = {name: getattr(mt, name) for name in dir(mt) if not name.startswith("_")}
    names = {name for name, value in found.items() if callable(value) and not isinstance(value, Op)}
    listed = {*re.findall(r":: metatensor\.(\w+)$", text, re.M), *re.findall(r"`(\w+)`", text)}
    assert names <= listed and not {name for name in listed if not hasattr(mt, name)}
