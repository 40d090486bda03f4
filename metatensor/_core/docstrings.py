"""Docstrings of operators in NumPy style, built from the schemas and the glossary on each request."""

import inspect
import re

from metatensor._core.describe import parameters, returns, takes_out
from metatensor._core.glossary import describe, describe_result
from metatensor._core.op import operator_flags
from metatensor._core.schema import parse

__all__ = ["arguments", "describe_argument", "operator_doc", "signatures"]

_TYPES = {
    "Tensor|Scalar": ["Tensor", "number"], "Tensor[]": ["sequence of Tensor"], "Scalar": ["number"], "int[]": ["sequence of int"],
    "float[]": ["sequence of float"], "bool[]": ["sequence of bool"], "device": ["device", "str", "int"],
    "generator": ["Generator"], "any": ["object"],
}  # fmt: skip
_RESULT_TYPES = {"Tensor[]": "tuple of Tensor", "int[]": "tuple of int", "Scalar": "number", "any": "object"}
_SERIES = 4  # a series of this many arguments or more, such as tensor0, tensor1, ..., gets one entry


class _Entry:
    """An argument as a docstring lists it: its name, its types and defaults in all overloads, and its meaning."""

    def __init__(self, name, meaning):
        self.name, self.meaning = name, meaning
        self.types, self.default, self.optional = [], None, False

    @property
    def type(self):
        text = _alternatives(self.types)
        if self.default is not None:
            return f"{text}, default {self.default!r}"
        return f"{text}, optional" if self.optional else text


def describe_argument(op, argument):
    """Return the sentence about an argument of an operator, or "" if there is none."""
    return describe(op.functional.name, argument)


def _alternatives(words):
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _types(argument):
    base = argument.type.rstrip("?").partition("(")[0]
    if "[" in argument.type:
        base = argument.type[: argument.type.index("[")] + "[]"
    types = _TYPES.get(base, [base])
    return ["int", *types] if base == "int[]" and argument.repeat else types


def _runs(names):
    """Return a dict from each name of a series such as tensor0, tensor1, tensor2, tensor3 to its stem ("tensor")."""
    stems = {}
    for name in names:
        if (match := re.fullmatch(r"(\w*[A-Za-z])(\d+)", name)) is not None:
            stems.setdefault(match[1], []).append(name)
    return {name: stem for stem, series in stems.items() if len(series) >= _SERIES for name in series}


def arguments(op, method=False):
    """Return an entry for each argument in any overload of an operator. For a method, leave out the tensor itself."""
    found, schemas = {}, [parse(text) for text in op.schemas]
    for schema in schemas:
        series = _runs([a.name for a in schema.arguments])
        for a in schema.arguments[1 if method else 0:]:
            stem = series.get(a.name)
            key = a.name if stem is None else stem + "..."
            entry = found.get(key)
            if entry is None:
                shown = a.name if stem is None else f"{a.name}, {stem}{int(a.name[len(stem):]) + 1}, ..."
                entry = found[key] = _Entry(shown, describe_argument(op, stem or a.name))
            entry.types += [kind for kind in _types(a) if kind not in entry.types]
            if not a.required and stem is None:
                entry.optional = True
                entry.default = a.default if entry.default is None else entry.default
    for name, entry in found.items():
        if any(name not in {a.name for a in schema.arguments} for schema in schemas) and not name.endswith("..."):
            entry.optional = True
    if takes_out(op) and "out" not in found:
        entry = found["out"] = _Entry("out", describe_argument(op, "out"))
        entry.types, entry.optional = ["Tensor", "tuple of Tensor"], True
    return list(found.values())


def signatures(op, method=False):
    """Return the signatures of an operator's overloads as lines of text."""
    name = f"Tensor.{op.__name__}" if method else op.name
    lines = []
    for text in op.schemas:
        schema = parse(text)
        found = [p.replace(annotation=_Text(p.annotation)) for p in parameters(schema, takes_out(op))[1 if method else 0:]]
        signature = str(inspect.Signature(found, return_annotation=_Text(returns(schema))))
        if series := [p for p in found if p.name in _runs([p.name for p in found])]:
            signature = signature.replace(", ".join(map(str, series)), f"{series[0]}, ..., {series[-1]}")
        lines.append(name + signature)
    return lines


class _Text(str):
    """An annotation that signatures show without quotation marks."""

    __repr__ = str.__str__


def _section(title, lines):
    return "\n".join([title, "-" * len(title), *lines])


def _results(op, method):
    """Return the lines of the section Returns."""
    schemas = [parse(text) for text in op.schemas]
    kinds = []
    for schema in schemas:
        if (kind := [(_result_type(k), name) for k, name in schema.returns]) not in kinds:
            kinds.append(kind)
    if not any(kinds):
        return []
    if len(kinds) == 1 and len(kinds[0]) > 1 and all(name for _, name in kinds[0]):
        lines = []
        for kind, name in kinds[0]:
            meaning = describe_result(op.functional.name, name)
            lines += [f"{name} : {kind}"] + ([f"    {meaning}"] if meaning else [])
        return lines
    fields = next((kind for kind in kinds if len(kind) > 1 and all(name for _, name in kind)), None)
    shown = []
    for kind in kinds:
        text = kind[0][0] if len(kind) == 1 else "named tuple" if kind is fields else f"tuple ({', '.join(k for k, _ in kind)})"
        if text not in shown:
            shown.append(text)
    lines = [_alternatives(shown)]
    if fields is not None:
        lines.append(f"    The fields of the tuple are {' and '.join(f'`{name}`' for _, name in fields)}.")
    elif (note := _relation(op, schemas[0], "self" if method else None)) is not None:
        lines.append(f"    {note}")
    return lines


def _result_type(kind):
    return _RESULT_TYPES.get(kind, kind)


def _relation(op, schema, tensor):
    """Return a sentence about the memory of the result, or None if the result has new memory."""
    first = schema.arguments[0].name if schema.arguments else ""
    if op.variant or any(a.mutated for a in schema.arguments):
        mutated = [a.name for a in schema.arguments if a.mutated] or [first]
        return f"`{tensor or mutated[0]}`, modified in place." if mutated == [first] else None
    if op.overloads[0].is_view:
        views = "Views" if schema.returns[0][0] == "Tensor[]" else "View"
        return f"{views} of `{tensor or first}`."
    if schema.arguments and schema.arguments[0].aliased:
        return f"`{tensor or first}` itself or a view of it where possible, else a new tensor."
    return None


def operator_doc(op, method=False, is_property=False):
    """Return the docstring of an operator, or of its method or property of Tensor.

    It begins with the text of the declaration. The signatures of all overloads follow, then the sections.
    """
    text = (op.functional.short_doc or "").strip()
    if op.variant:
        text = f"In-place version of `{op.functional.name}`. {text}".strip()
    parts = [text] if text else []
    if is_property:
        method = True
    else:
        lines = signatures(op, method)
        parts.append(f"Signature{'s' * (len(lines) > 1)}::\n\n" + "\n".join(f"    {line}" for line in lines))
        first = parse(op.schemas[0]).arguments[:1]
        if method and text and first and re.search(rf"\b{first[0].name}\b", text):
            parts.insert(1, f"The tensor itself is `{first[0].name}`.")
        lines = []
        for entry in arguments(op, method):
            lines += [f"{entry.name} : {entry.type}"] + ([f"    {entry.meaning}"] if entry.meaning else [])
        if lines and not _has(text, "Parameters"):
            parts.append(_section("Parameters", lines))
    lines = _results(op, method)
    if lines and not _has(text, "Returns"):
        parts.append(_section("Returns", lines))
    if op.flags & operator_flags.DATA and not _has(text, "Raises"):
        why = "If the result depends on values that a tensor does not have, as on the meta device."
        parts.append(_section("Raises", ["DataDependentError", f"    {why}"]))
    return "\n\n".join(parts)


def _has(text, title):
    return f"\n{title}\n-" in text
