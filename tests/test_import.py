"""Imports caused by importing the package."""

import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import metatensor as mt

HEAVY = ["numpy", "scipy", "pluggy", "ml_dtypes", "cupy", "torch", "click", "rich"]


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_loads_no_heavy_module():
    loaded = run(f"import sys, metatensor; print(*[m for m in {HEAVY} if m in sys.modules])")
    # Modules that Python loaded at start-up (hooks of editable installs) do not count.
    bare = run(f"import sys; print(*[m for m in {HEAVY} if m in sys.modules])")
    assert set(loaded) <= set(bare)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["numpy", "pluggy"])
def test_meta_work_loads_neither_numpy_nor_pluggy(module):
    code = """
import sys
import metatensor as mt
from metatensor import nn
with mt.device("meta"):
    y = nn.Linear(3, 4)(mt.ones(2, 3)).relu().sum()
    mt.device("cuda:1")
    repr(y)
"""
    assert run(f"{code}\nprint({module!r} in sys.modules)") == ["False"]


def test_version_is_that_of_the_distribution():
    import metatensor as mt

    assert mt.__version__ == version("metatensor-device")


def test_the_command_is_an_entry_point():
    (script,) = [e for e in entry_points(group="console_scripts") if e.name == "metatensor"]
    assert script.value == "metatensor.cli:main"


def test_what_is_loaded_on_first_use_is_listed():
    names = run("import metatensor as mt; print(*dir(mt))")
    assert {"nn", "analysis", "load", "Generator", "manual_seed"} <= set(names)


@pytest.mark.parametrize("setting", ["enable", "disable"])
def test_the_import_leaves_garbage_collection_as_it_was(setting):
    assert run(f"import gc; gc.{setting}(); import metatensor; print(gc.isenabled())") == [str(setting == "enable")]


def test_collections_do_not_visit_the_built_in_operators():
    code = """
import gc
import metatensor as mt
rope = mt.library.define("acme::rope(Tensor x) -> Tensor")
visited = {id(o) for o in gc.get_objects()}
print(*(id(op) in visited for op in (mt.add, mt.Tensor.add_, rope)))
"""
    assert run(code) == ["False", "False", "True"]


def test_unknown_name():
    import metatensor as mt

    with pytest.raises(AttributeError, match="no_such_name"):
        mt.no_such_name


def test_sources_that_are_not_compiled_say_so(tmp_path):
    package = Path(mt.__file__).parent
    copy = tmp_path / "metatensor"
    for path in ("__init__.py", "_core/__init__.py"):
        (copy / path).parent.mkdir(exist_ok=True)
        (copy / path).write_text((package / path).read_text())
    done = subprocess.run([sys.executable, "-c", "import metatensor"], capture_output=True, text=True, cwd=tmp_path)
    assert f"ImportError: the compiled modules of metatensor are not in {copy}. If that folder is part of the source tree" in done.stderr


@pytest.mark.parametrize("name", ["optim.AdamW", "vmap", "autocast", "utils.data.DataLoader", "distributions.Normal"])
def test_names_of_pytorch_that_a_newcomer_tries(name):
    assert run(f"import metatensor as mt; print(callable(mt.{name}))") == ["True"]
