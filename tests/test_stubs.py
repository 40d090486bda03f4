"""The .pyi files match the declarations, are complete, and are understood by mypy."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STUBS = sorted(ROOT.glob("metatensor/**/*.pyi"))
# Names that Python adds to every class or module, or that only Cython uses.
COMMON = {"__init__", "__new__", "__dict__", "__weakref__", "__doc__", "__module__", "__getattr__", "__pyx_vtable__", "__buffer__"}


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def runtime_module(path):
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return importlib.import_module(name.removesuffix(".__init__"))


def declared(nodes):
    """Return the names that a stub declares at its top level or in a class body."""
    names = set()
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets)
        elif isinstance(node, ast.ImportFrom):
            names.update(a.asname for a in node.names if a.asname == a.name)
    return names


def test_generated_stubs_are_those_of_the_declarations():
    stale = [str(path) for path, text in load_tool("stubs").stubs().items() if (ROOT / path).read_text() != text]
    assert not stale, f"run `make stubs`: {stale}"


@pytest.mark.slow
def test_operator_pages_are_those_of_the_declarations():
    done = subprocess.run([sys.executable, ROOT / "tools/opdocs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run `make stubs`: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("path", STUBS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_stub_names_only_what_exists(path):
    module = runtime_module(path)
    names = {n for n in declared(ast.parse(path.read_text()).body) if not n.startswith("_")}
    absent = sorted(n for n in names if not hasattr(module, n))
    assert not absent


@pytest.mark.parametrize("path", STUBS, ids=lambda p: str(p.relative_to(ROOT)))
def test_classes_are_described_in_full(path):
    module = runtime_module(path)
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.ClassDef) or not hasattr(module, node.name):
            continue
        actual = getattr(module, node.name)
        names = declared(node.body)
        methods = declared(n for n in node.body if isinstance(n, ast.FunctionDef))
        absent = sorted(n for n in methods if not hasattr(actual, n) and n not in COMMON)
        assert not absent, f"{node.name} has no {absent}"
        missing = sorted(n for n in vars(actual) if not n.startswith("_") and n not in names)
        assert not missing, f"the stub of {node.name} lacks {missing}"


def test_the_package_is_described_in_full():
    import metatensor as mt

    names = declared(ast.parse((ROOT / "metatensor/__init__.pyi").read_text()).body)
    offered = {n for n in dir(mt) if not n.startswith(("_", "@"))}  # pytest gives "@" names to modules whose assertions it rewrites
    # Submodules that were imported are attributes, too.
    offered -= {n for n in offered if f"metatensor.{n}" in sys.modules or n == "metatensor"}
    assert not sorted(offered - names)


@pytest.mark.slow
def test_mypy_understands_user_code():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "tests/typing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
