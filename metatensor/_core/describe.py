"""Signatures of ops, built from their schemas on each request."""

import inspect
import keyword

from metatensor._core.schema import parse

_ANNOTATION = {
    "Tensor": "Tensor", "Tensor|Scalar": "Tensor | Number", "Tensor[]": "Sequence[Tensor]",
    "Scalar": "Number", "int": "int", "int[]": "Sequence[int]", "float": "float",
    "float[]": "Sequence[float]", "bool": "bool", "bool[]": "Sequence[bool]", "str": "str",
    "dtype": "dtype", "device": "device | str | int", "layout": "layout",
    "memory_format": "memory_format", "generator": "Generator", "any": "Any",
}


def annotation(argument):
    """Return the type annotation of a schema argument as source text."""
    base = argument.type.rstrip("?").partition("(")[0]
    if "[" in argument.type:
        base = argument.type[: argument.type.index("[")].partition("(")[0] + "[]"
    text = _ANNOTATION[base]
    if base == "int[]" and argument.repeat:
        text = "int | " + text
    if argument.optional or argument.type.endswith("?"):
        text += " | None"
    return text


def returns(schema):
    """Return the type annotation of a schema's result as source text."""
    names = {"Tensor": "Tensor", "Tensor[]": "tuple[Tensor, ...]", "()": "None", "Scalar": "Number",
             "any": "Any", "int[]": "tuple[int, ...]"}
    parts = []
    for kind, _ in schema.returns:
        base = kind if kind == "()" else kind.partition("(")[0]
        if kind.endswith("[]") and not base.endswith("[]"):
            base += "[]"
        parts.append(names.get(base, base))
    if not parts:
        return "None"
    return parts[0] if len(parts) == 1 else f"tuple[{', '.join(parts)}]"


def parameters(schema, out=False):
    """Return the `inspect.Parameter` objects of a schema. With `out`, append an ``out`` parameter."""
    found = []
    for a in schema.arguments:
        found.append(inspect.Parameter(
            a.name + "_" if keyword.iskeyword(a.name) else a.name,
            inspect.Parameter.KEYWORD_ONLY if a.kwonly else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if a.required else a.default,
            annotation=annotation(a),
        ))
    if out:
        found.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None,
                                       annotation="Tensor | tuple[Tensor, ...] | None"))
    return found


def takes_out(op):
    """Return True if an op's function takes ``out``."""
    return bool(op.flags & 2) and not op.variant


def op_signature(op):
    """Return the `inspect.Signature` of an op's first overload."""
    schema = parse(op.schemas[0])
    return inspect.Signature(parameters(schema, takes_out(op)), return_annotation=returns(schema))


def keyword_defaults(op):
    """Return the defaults of an op's keyword-only arguments, or None. This is its ``__kwdefaults__``."""
    found = {p.name: p.default for p in op_signature(op).parameters.values()
             if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}  # fmt: skip
    return found or None
