"""Listing the calls in an archive's code without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from metatensor.program.aten import find
from metatensor.program.torchscript.interpreter import dotted
from metatensor.program.torchscript.primitives import PRIM, SCALARS
from metatensor.program.torchscript.source import Class, Code, Function

__all__ = ["listing", "operators"]

_TYPED = ("annotate", "unchecked_cast", "uninitialized")
"""Functions whose first argument is a type."""
_OTHER = frozenset(("torch.device", "torch.wait"))


def operators(code: Code, classes: Iterable[str]) -> dict[str, bool]:
    """Return the operators that the methods of classes call, directly or indirectly, and whether metatensor has each."""
    found: dict[str, bool] = {}
    waiting: list[Any] = [code.find(name) for name in classes]
    seen: set[str] = set()
    while waiting:
        one = waiting.pop()
        if one is None or one.name in seen:
            continue
        seen.add(one.name)
        for function in one.methods.values() if isinstance(one, Class) else (one,):
            for name in _names(function):
                root, _, rest = name.partition(".")
                if root == "__torch__":
                    waiting.append(code.find(name))
                elif name not in _OTHER:
                    namespace, _, last = rest.partition(".") if root == "ops" else ("aten", "", rest)
                    found.setdefault(f"{namespace}::{last}", _known(namespace, last))
    return dict(sorted(found.items()))


def _known(namespace: str, name: str) -> bool:
    if namespace in ("aten", "prim") and (name in SCALARS or name in PRIM):
        return True
    return find("aten" if namespace == "prim" else namespace, name) is not None


def _names(function: Function) -> Iterator[str]:
    """Yield the dotted names of the library and of the archive in a function. Types are left out."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.AnnAssign):
            waiting += [node.value] if node.value is not None else []
            continue
        if isinstance(node, ast.Call):
            special = isinstance(node.func, ast.Name) and node.func.id in _TYPED
            name = dotted(node.func)
            if name is not None and name.startswith(("torch.", "ops.", "__torch__.")):
                yield name
            elif not special:
                waiting.append(node.func)
            waiting += [*node.args[1 if special else 0 :], *(key.value for key in node.keywords)]
            continue
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if name is not None and name.startswith("__torch__."):
                yield name
                continue
        waiting += ast.iter_child_nodes(node)


def listing(function: Function) -> str:
    """Return the statements of a function with one call in each line: ``%3 = torch.add(%1, %2)``."""
    lines = [f"graph({', '.join(f'%{name}' for name in function.names)}):"]
    counter = iter(range(1 << 30))

    def text(node: ast.expr, depth: str) -> str:
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            types = isinstance(node.func, ast.Name) and node.func.id in _TYPED
            if name is None:
                owner = node.func
                name = f"{text(owner.value, depth)}.{owner.attr}" if isinstance(owner, ast.Attribute) else ast.unparse(owner)
            elif not name.startswith(("torch.", "ops.", "__torch__.")) and not isinstance(node.func, ast.Name):
                name = f"%{name}"
            args = [ast.unparse(a) if types and i == 0 else text(a, depth) for i, a in enumerate(node.args)]
            args += [f"{key.arg}={text(key.value, depth)}" for key in node.keywords]
            number = next(counter)
            lines.append(f"{depth}%{number} = {name}({', '.join(args)})")
            return f"%{number}"
        if isinstance(node, (ast.List, ast.Tuple)):
            inner = ", ".join(text(one, depth) for one in node.elts)
            return f"[{inner}]" if isinstance(node, ast.List) else f"({inner})"
        if isinstance(node, ast.Dict):
            return "{" + ", ".join(f"{text(k, depth)}: {text(v, depth)}" for k, v in zip(node.keys, node.values) if k is not None) + "}"
        if isinstance(node, ast.Subscript):
            return f"{text(node.value, depth)}[{text(node.slice, depth)}]"
        if isinstance(node, ast.Name):
            return f"%{node.id}"
        return ast.unparse(node)

    def block(statements: list[ast.stmt], depth: str) -> None:
        for one in statements:
            if isinstance(one, ast.Assign):
                made = text(one.value, depth)
                lines.append(f"{depth}{', '.join(_target(t) for t in one.targets)} = {made}")
            elif isinstance(one, ast.AnnAssign) and one.value is not None:
                lines.append(f"{depth}{_target(one.target)} = {text(one.value, depth)}")
            elif isinstance(one, ast.Return):
                lines.append(f"{depth}return {'None' if one.value is None else text(one.value, depth)}")
            elif isinstance(one, ast.Expr):
                text(one.value, depth)
            elif isinstance(one, (ast.If, ast.While)):
                lines.append(f"{depth}{'if' if isinstance(one, ast.If) else 'while'} {text(one.test, depth)}:")
                block(one.body, depth + "  ")
                if one.orelse and not all(isinstance(s, ast.Pass) for s in one.orelse):
                    lines.append(f"{depth}else:")
                    block(one.orelse, depth + "  ")
            elif isinstance(one, ast.For):
                lines.append(f"{depth}for {_target(one.target)} in {text(one.iter, depth)}:")
                block(one.body, depth + "  ")
            elif not isinstance(one, ast.Pass):
                lines.append(f"{depth}{ast.unparse(one).splitlines()[0]}")

    block(function.body, "  ")
    return "\n".join(lines) + "\n"


def _target(node: ast.expr) -> str:
    if isinstance(node, (ast.Tuple, ast.List)):
        return ", ".join(map(_target, node.elts))
    return f"%{node.id}" if isinstance(node, ast.Name) else ast.unparse(node)
