"""Reduce a failing program: remove lines, then simplify expressions."""

import ast
import time


def shrink(lines, fails, budget=200, seconds=60):
    """Return the fewest of `lines` for which ``fails(lines)`` still holds, within `budget` attempts and `seconds`."""
    tries, end = 0, time.monotonic() + seconds

    def still(candidate):
        nonlocal tries
        tries += 1
        return tries <= budget and time.monotonic() < end and fails(candidate)

    changed = True
    while changed and tries < budget:
        changed = False
        for i in reversed(range(len(lines))):
            candidate = lines[:i] + lines[i + 1 :]
            if candidate and still(candidate):
                lines, changed = candidate, True
        for i in range(len(lines)):
            for text in simpler(lines[i]):
                if still([*lines[:i], text, *lines[i + 1 :]]):
                    lines, changed = [*lines[:i], text, *lines[i + 1 :]], True
                    break
    return lines


def simpler(line):
    """Yield variants of a line with a part removed or simplified, largest changes first."""
    try:
        tree = ast.parse(line)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        for field, value in list(ast.iter_fields(node)):
            if isinstance(value, list) and field in ("args", "keywords", "elts"):
                for i in range(len(value)):
                    item = value.pop(i)
                    yield ast.unparse(tree)
                    value.insert(i, item)
                    if field != "keywords":
                        for simple in _instead(item):
                            value[i] = simple
                            yield ast.unparse(tree)
                        value[i] = item
            elif isinstance(value, ast.expr) and field in ("value", "body") and not isinstance(node, (ast.Attribute, ast.Subscript)):
                for simple in _instead(value):
                    setattr(node, field, simple)
                    yield ast.unparse(tree)
                setattr(node, field, value)


def _instead(node):
    if isinstance(node, ast.Constant):
        for simple in (0, 1):
            if type(node.value) in (int, float) and node.value not in (0, 1):
                yield ast.Constant(simple)
        return
    yield ast.Constant(None)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and not isinstance(node, ast.Lambda):
            yield child
