"""Infer the schema of a custom operator from the type hints of a function."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any

from metatensor._core.tensor import Tensor

__all__ = ["infer_arguments", "infer_schema"]

_SCALARS = {int: "int", float: "float", bool: "bool", str: "str", complex: "Scalar", Any: "any", object: "any"}
# Names of classes of the core. The classes are not imported here, because most processes define no operators.
_BY_NAME = {"DType": "dtype", "Device": "device", "Generator": "generator", "LayoutTag": "layout", "MemoryFormatTag": "memory_format"}


def infer_schema(function: Callable[..., Any], name: str, mutates_args: Iterable[str] = ()) -> str:
    """Return the schema text of a function with type hints.

    Parameters
    ----------
    function : callable
        The function. Its parameters and result must be annotated.
    name : str
        The qualified name of the operator, ``"acme::scale"``.
    mutates_args : iterable of str
        Names of the tensor parameters that the operator writes to. Default: none.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If an annotation is missing or no schema type corresponds to it.
    ValueError
        If a default is not a literal, or if `mutates_args` names something that is not a tensor parameter.

    Examples
    --------
    >>> import metatensor as mt
    >>> def scale(x: mt.Tensor, factor: float = 2.0) -> mt.Tensor: ...
    >>> mt.library.infer_schema(scale, "acme::scale")
    'acme::scale(Tensor x, float factor=2.0) -> Tensor'
    """
    arguments = infer_arguments(function, name, mutates_args)
    return f"{name}({arguments}) -> {_results(_hints(function, name), name)}"


def infer_arguments(function: Callable[..., Any], name: str, mutates_args: Iterable[str] = ()) -> str:
    """Return the argument list of the schema, without its parentheses. See `infer_schema`."""
    if isinstance(mutates_args, str):
        raise TypeError(f"{name}: mutates_args must be a tuple of names, not the str {mutates_args!r}")
    hints, mutated = _hints(function, name), dict(zip(mutates_args, "abcdefghijklmnopqrstuvwxyz", strict=False))
    parts: list[str] = []
    keyword_only = False
    parameters = inspect.signature(function).parameters
    for p in parameters.values():
        where = f"{name}: parameter {p.name!r}"
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"{where}: a schema cannot contain *args or **kwargs")
        if p.name not in hints:
            raise TypeError(f"{where}: a type annotation is missing")
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        kind = _schema_type(hints[p.name], where)
        if p.name in mutated:
            if "Tensor" not in kind:
                raise ValueError(f"{where}: mutates_args names this argument, but it is not a tensor: {kind}")
            kind = kind.replace("Tensor", f"Tensor({mutated[p.name]}!)", 1)
        text = f"{kind} {p.name}"
        if p.default is not p.empty:
            text += f"={_literal(p.default, where)}"
        parts.append(text)
    unknown = [given for given in mutated if given not in parameters]
    if unknown:
        raise ValueError(f"{name}: mutates_args names {unknown[0]!r}, but the parameters are {', '.join(parameters) or 'none'}")
    return ", ".join(parts)


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise TypeError(f"{name}: an annotation cannot be read: {error}") from error


def _literal(value: Any, where: str) -> str:
    """Return a default value in schema notation. Raise ValueError if it is not a literal."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    for item in items:
        if not isinstance(item, (int, float, bool, str, complex, type(None))) or (isinstance(item, float) and not isfinite(item)):
            raise ValueError(f"{where}: the default {value!r} is not a literal")
    return repr(value)


def _schema_type(annotation: Any, where: str) -> str:
    """Return the schema type for a Python annotation. Raise TypeError if no schema type corresponds to it."""
    if isinstance(annotation, type) and issubclass(annotation, Tensor):
        return "Tensor"
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _schema_type(args[0], where)
    if origin is not None and type(None) in args:
        rest = tuple(a for a in args if a is not type(None))
        return _schema_type(rest[0] if len(rest) == 1 else typing.Union[rest], where) + "?"  # noqa: UP007
    if origin is not None and set(args) in ({int, float}, {int, float, bool}, {int, float, complex}, {int, float, bool, complex}):
        return "Scalar"
    if origin is not None and len(args) > 1 and Tensor in args and set(args) - {Tensor} <= {int, float, bool, complex}:
        return "Tensor|Scalar"
    if origin in (list, tuple, Sequence):
        inner = [a for a in args if a is not Ellipsis]
        if len(set(inner)) == 1:
            kind = _schema_type(inner[0], where)
            if kind in ("Tensor", "int", "float", "bool"):
                return kind + "[]"
    name = getattr(annotation, "__name__", str(annotation))
    if name == "Size":
        return "int[]"
    if name in _BY_NAME:
        return _BY_NAME[name]
    if getattr(annotation, "__module__", "").startswith("metatensor") and name in _BY_NAME.values():
        return name
    raise TypeError(f"{where}: cannot express the type {annotation!r} in a schema; annotate with Tensor, int, float, bool, str, "
                    "dtype, device, a list or tuple of them, or `| None`")


def _results(hints: dict[str, Any], name: str) -> str:
    """Return the part of the schema after the arrow. A `Spec` becomes a Tensor."""
    if "return" not in hints:
        raise TypeError(f"{name}: a return annotation is missing: Spec or Tensor, a tuple or list of them, or None")
    annotation = hints["return"]
    if annotation in (None, type(None)):
        return "()"
    args = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple and Ellipsis not in args:
        return f"({', '.join(_result(a, name) for a in args)})"
    if typing.get_origin(annotation) in (list, tuple, Sequence) and args:
        return _result(args[0], name) + "[]"
    return _result(annotation, name)


def _result(annotation: Any, name: str) -> str:
    from metatensor._core.spec import Spec

    kinds = [a for a in typing.get_args(annotation) or (annotation,) if a is not type(None)]
    if all(isinstance(a, type) and (a is Spec or issubclass(a, Tensor)) for a in kinds):
        return "Tensor" + "?" * (type(None) in typing.get_args(annotation))
    raise TypeError(f"{name}: cannot express the result type {annotation!r} in a schema; annotate with Spec or Tensor, a tuple or "
                    "list of them, or None")
