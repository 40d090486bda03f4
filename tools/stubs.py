"""Write the .pyi files for everything that is generated from operators: functions, methods, ``nn.functional``, ...

    python tools/stubs.py            # write the files that changed
    python tools/stubs.py --check    # exit 1 if a file does not match the declarations

The stub of an operator is generated from its schemas. Other declarations are in ``tools/stub_heads/*.in``; each of
these files is inserted at the top of the generated file that it names. Stubs of the core's other modules are written by
hand. ``tests/test_stubs.py`` compares all stubs with the contents of the modules.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import keyword
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HEADS = ROOT / "tools" / "stub_heads"
NOTICE = "# Written by tools/stubs.py from the operators' declarations; edit those, or tools/stub_heads.\n"
# Overloads of one operator overlap on purpose, as in PyTorch.
LENIENT = '# mypy: disable-error-code="overload-overlap, overload-cannot-match, misc, override, assignment"\n'

TENSOR = Path("metatensor/_core/tensor.pyi")
TOP = Path("metatensor/__init__.pyi")

# Python types of schema types. Builtins have aliases such as `_float`, because `float` is a method inside class Tensor.
TYPES = {
    "Tensor": "Tensor",
    "Tensor|Scalar": "Tensor | _Number",
    "Tensor[]": "Sequence[Tensor]",
    "Scalar": "_Number",
    "int": "_int",
    "int[]": "Sequence[_int]",
    "float": "_float",
    "float[]": "Sequence[_float]",
    "bool": "_bool",
    "bool[]": "Sequence[_bool]",
    "str": "_str",
    "dtype": "_dtype",
    "device": "_device | _str | _int",
    "layout": "_layout",
    "memory_format": "_memory_format",
    "generator": "_Generator",
    "any": "Any",
}
RESULTS = {
    "Tensor": "Tensor",
    "Tensor[]": "tuple[Tensor, ...]",
    "()": "None",
    "Scalar": "_Number",
    "int[]": "tuple[_int, ...]",
}
ALIASES = """\
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

"""


def core() -> Any:
    """Return the modules of the core with the registry and the schema parser."""
    return importlib.import_module("metatensor._core.op"), importlib.import_module("metatensor._core.schema")


class Signature:
    """The signature of one overload of an operator, as source text."""

    def __init__(self, parameters: list[str], result: str) -> None:
        self.parameters = parameters
        self.result = result

    def define(self, name: str, receiver: str | None, doc: str, overloaded: bool) -> str:
        shown = list(self.parameters)
        if receiver is not None:
            del shown[0]
            shown.insert(0, receiver)
        body = f'\n    """{doc}"""\n' if doc else " ...\n"
        mark = "@overload\n" if overloaded else ""
        return f"{mark}def {name}({', '.join(shown)}) -> {self.result}:{body}"


def base_type(text: str) -> str:
    """Return a schema type without its marks: ``Tensor[]`` for ``Tensor(a!)[]?``."""
    plain = text.rstrip("?")
    if plain == "()":
        return plain
    listed = "[" in plain
    plain = plain.partition("[")[0].partition("(")[0]
    return plain + ("[]" if listed else "")


def annotation(argument: Any) -> str:
    base = base_type(argument.type)
    text = TYPES[base]
    if argument.repeat and base.endswith("[]"):
        text = f"{TYPES[base[:-2]]} | {text}"
    if argument.optional or (not argument.required and argument.default is None):
        text += " | None"
    return text


def parameter(argument: Any) -> str:
    name = argument.name + ("_" if keyword.iskeyword(argument.name) else "")
    text = f"{name}: {annotation(argument)}"
    return text if argument.required else f"{text} = {argument.default!r}"


def results(op: Any, schema: Any, named: dict[str, str]) -> str:
    """Return the annotation of a schema's result. Add the class of a named tuple to ``named`` if the results have names."""
    types = [RESULTS.get(kind, TYPES.get(kind, "Any")) for kind in (base_type(k) for k, _ in schema.returns)]
    if not types or types == ["None"]:
        return "None"
    if len(types) == 1:
        return types[0]
    names = [name for _, name in schema.returns]
    if None in names:
        return f"tuple[{', '.join(types)}]"
    title = "_".join(("_return", *schema.name.split("."))).replace("::", "_")
    fields = "".join(f"    {name}: {kind}\n" for name, kind in zip(names, types, strict=True))
    named[title] = f"class {title}(NamedTuple):\n{fields}"
    return title


def signatures(op: Any, named: dict[str, str]) -> Iterator[Signature]:
    """Yield a signature for each way of calling an operator."""
    _, schemas = core()
    takes_out = bool(op.flags & 2) and not op.variant
    for text in op.schemas:
        schema = schemas.parse(text)
        positional = [a for a in schema.arguments if not a.kwonly]
        keyword_only = [parameter(a) for a in schema.arguments if a.kwonly]
        result = results(op, schema, named)
        if takes_out:
            many = len(schema.returns) > 1 or schema.returns_list
            keyword_only.append(f"out: {'Sequence[Tensor]' if many else 'Tensor'} | None = None")
        tail = ["*", *keyword_only] if keyword_only else []
        yield Signature([parameter(a) for a in positional] + tail, result)
        if positional and base_type(positional[-1].type) == "int[]" and not positional[-1].repeat:
            # The last list of ints may be given as separate arguments.
            *first, last = positional
            yield Signature([parameter(a) for a in first] + [f"*{last.name}: _int", *keyword_only], result)


def definitions(name: str, op: Any, named: dict[str, str], method: bool = False) -> str:
    """Return the stub of a function or method, or an empty string if its name is not valid in Python."""
    if keyword.iskeyword(name) or not name.isidentifier():
        return ""
    found = list(signatures(op, named))
    doc = (op.short_doc or "").replace("\\", "\\\\").replace('"""', "'''")
    receiver = "self" if method else None
    parts = [s.define(name, receiver, doc if not i else "", len(found) > 1) for i, s in enumerate(found)]
    return "".join(parts)


def indented(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))


def head(path: Path) -> str:
    """Return the hand-written beginning of a generated file, or an empty string."""
    name = path.relative_to("metatensor").as_posix().replace("/", ".").replace("__init__", "init")
    source = HEADS / f"{name}.in"
    return source.read_text() if source.exists() else ""


def written_by_hand(opening: str) -> set[str]:
    """Return the names that a head declares at its top level or in its last class. They are not generated."""
    body = ast.parse(opening).body
    if body and isinstance(body[-1], ast.ClassDef):
        body = body + body[-1].body
    names = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return names | {n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}


def ops_of(owner: Any) -> list[tuple[str, Any]]:
    """Return the operators among the attributes of a module, sorted by name."""
    records, _ = core()
    return sorted((name, value) for name, value in vars(owner).items() if isinstance(value, records.Op))


def tensor_stub() -> str:
    """Return the stub of the class Tensor: hand-written members, and operators that are methods or properties."""
    records, _ = core()
    tensor = importlib.import_module("metatensor._core.tensor").Tensor
    named: dict[str, str] = {}
    body = []
    by_hand = written_by_hand(head(TENSOR))
    for name, value in sorted(vars(tensor).items()):
        if name in by_hand:
            continue
        if isinstance(value, records.OpMethod):
            body.append(indented(definitions(name, value.op, named, method=True)))
        elif isinstance(value, records.OpProperty):
            result = next(signatures(value.op, named)).result
            body.append(indented(f"@property\ndef {name}(self) -> {result}: ...\n"))
    return NOTICE + LENIENT + ALIASES + head(TENSOR) + "".join(body) + "\n" + "\n".join(named.values())


def module_stub(path: Path, module: Any) -> str:
    """Return the stub of a module of functions."""
    named: dict[str, str] = {}
    by_hand = written_by_hand(head(path))
    body = "".join(definitions(name, op, named) for name, op in ops_of(module) if name not in by_hand)
    return NOTICE + LENIENT + ALIASES + (head(path) or COMMON) + "\n" + "\n".join([*named.values(), ""]) + body


COMMON = """\
from metatensor._core.device import Device as _device
from metatensor._core.dtype import DType as _dtype
from metatensor._core.formats import LayoutTag as _layout, MemoryFormatTag as _memory_format
from metatensor._core.random import Generator as _Generator
from metatensor._core.tensor import Tensor, _Number
"""


def top_stub() -> str:
    """Return the stub of the package itself: the head, the dtypes and the functions."""
    mt = importlib.import_module("metatensor")
    dtypes = importlib.import_module("metatensor._core.dtype").names()
    listed = "".join(f"{name}: _dtype\n" for name in sorted(dtypes))
    return module_stub(TOP, mt).replace("# DTYPES\n", listed)


def namespaces() -> Iterable[str]:
    """Yield the modules that hold the operators of a namespace: ``nn.functional``, ``linalg``, ..."""
    records, _ = core()
    prefixes = {name.rpartition(".")[0] for name in records.registry if "." in name and "::" not in name}
    for prefix in sorted(prefixes):
        source = ROOT / "metatensor" / prefix.replace(".", "/")
        if source.with_suffix(".py").exists() or (source / "__init__.py").exists():
            yield prefix


def stubs() -> dict[Path, str]:
    """Return the contents of every generated file, by path relative to the root."""
    made = {TENSOR: tensor_stub(), TOP: top_stub()}
    for name in namespaces():
        module = importlib.import_module(f"metatensor.{name}")
        path = Path("metatensor") / name.replace(".", "/")
        path = path / "__init__.pyi" if (ROOT / path).is_dir() else path.with_suffix(".pyi")
        made[path] = module_stub(path, module)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    args = parser.parse_args()
    stale = []
    for path, text in stubs().items():
        full = ROOT / path
        if not full.exists() or full.read_text() != text:
            stale.append(path)
            if not args.check:
                full.write_text(text)
    for path in stale:
        print(f"{'differs from the declarations: ' if args.check else 'wrote '}{path}")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
