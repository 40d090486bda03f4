"""Compiled modules that share one file, and which of two files of a module is imported."""

import gc
import importlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace

import pytest

from metatensor import _core, ops
from metatensor._core import bundles
from metatensor._core.bundles import BundleFinder, compiled_modules, import_all

SUFFIX = EXTENSION_SUFFIXES[0]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose bundle has the modules `one` and `two`."""
    monkeypatch.setattr(bundles, "_files", {})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setitem(sys.modules, "pack._bundle", SimpleNamespace(names="one two", __file__=str(tmp_path / f"_bundle{SUFFIX}")))
    (tmp_path / f"_bundle{SUFFIX}").touch()
    (tmp_path / "text.py").touch()
    return tmp_path


def test_modules_of_a_bundle_are_found(package):
    assert compiled_modules("pack", package) == {"one", "two"}
    spec = BundleFinder.find_spec("pack.one")
    assert (spec.name, spec.origin, spec.has_location) == ("pack.one", str(package / f"_bundle{SUFFIX}"), True)
    assert BundleFinder.find_spec("pack.three") is BundleFinder.find_spec("one") is BundleFinder.find_spec("pack.text") is None
    assert sys.meta_path.count(BundleFinder) == 1


def test_a_file_of_its_own_takes_precedence(package):
    (package / f"two{SUFFIX}").touch()
    (package / f"three{SUFFIX}").touch()
    (package / "one.cpython-20-other.so").touch()  # of another interpreter
    assert compiled_modules("pack", package) == {"one", "two", "three"}
    assert BundleFinder.find_spec("pack.one") is not None
    assert BundleFinder.find_spec("pack.two") is BundleFinder.find_spec("pack.three") is None


def test_a_package_without_a_bundle(package):
    (package / f"_bundle{SUFFIX}").unlink()
    (package / f"two{SUFFIX}").touch()
    assert compiled_modules("pack", package) == {"two"}
    assert BundleFinder.find_spec("pack.one") is None


@pytest.mark.parametrize("package", [_core, ops], ids=lambda package: package.__name__)
def test_every_compiled_module_is_imported_from_an_existing_file(package):
    names = compiled_modules(package.__name__, package.__path__[0])
    assert len(names) > 40 and "_bundle" not in names
    for name in sorted(names):
        module = importlib.import_module(f"{package.__name__}.{name}")
        assert module.__name__ == f"{package.__name__}.{name}" and module.__spec__.name == module.__name__
        assert Path(module.__file__).parent == Path(package.__path__[0]) and Path(module.__file__).exists()
        assert getattr(package, name) is module


def test_garbage_collection_goes_on_after_a_failure():
    with pytest.raises(ModuleNotFoundError, match=r"no_such_family"):
        import_all(["metatensor.ops", "metatensor.ops.no_such_family"])
    assert gc.isenabled()


def test_an_unknown_module_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"metatensor\.ops\.no_such_family"):
        importlib.import_module("metatensor.ops.no_such_family")
