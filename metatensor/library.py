"""Operators of your own: their schema, meta function, kernels, FLOPs and decomposition.

    @mt.op("acme::rope")
    def rope(x: mt.Tensor, cos: mt.Tensor, sin: mt.Tensor) -> mt.Spec:
        return mt.Spec(x.shape, x.dtype)

    @rope.kernel("cpu")
    def rope_cpu(out, x, cos, sin): ...

The result is an `Op` like any built-in one, found again as ``mt.ops.acme.rope``.
"""

import inspect
import threading
import typing
from collections.abc import Callable
from typing import Any

from metatensor._core.execute import forget_kernels
from metatensor._core.op import define_op, op_by_name, registry
from metatensor._core.tensor import Tensor

__all__ = ["decomposition", "define", "flops", "get_op", "infer_schema", "kernel", "meta", "op"]

_COMPOSITE = 8
_lock = threading.Lock()
_kernels: dict[tuple[str, str], Callable[..., Any]] = {}  # (qualified name, device type) -> callable
_metas: dict[str, Callable[..., Any]] = {}  # name of an op defined as text -> its meta function

_SCALARS = {int: "int", float: "float", bool: "bool", str: "str", complex: "Scalar"}


def _schema_type(annotation, where):
    """The schema type of a Python annotation."""
    if annotation is Tensor:
        return "Tensor"
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is not None and type(None) in args:
        rest = [a for a in args if a is not type(None)]
        if len(rest) == 1:
            return _schema_type(rest[0], where) + "?"
    if origin is not None and set(args) in ({int, float}, {int, float, bool}):
        return "Scalar"
    if origin in (list, tuple, typing.get_origin(typing.Sequence[int])):
        inner = [a for a in args if a is not Ellipsis]
        if len(set(inner)) == 1:
            kind = _schema_type(inner[0], where)
            if kind in ("Tensor", "int", "float", "bool"):
                return kind + "[]"
    name = getattr(annotation, "__name__", str(annotation))
    by_name = {"DType": "dtype", "Device": "device", "Generator": "generator"}
    if name in by_name:
        return by_name[name]
    raise TypeError(f"{where}: cannot express the type {annotation!r} in a schema; annotate with Tensor, int, "
                    "float, bool, str, dtype, device, a list or tuple of them, or `| None`")


def infer_schema(function, name, mutates_args=()):
    """The schema text of a function with annotated parameters.

    Raises TypeError for a parameter without an annotation or with one that no
    schema type stands for, and ValueError for a default that is no literal.
    """
    hints = typing.get_type_hints(function)
    parts, keyword_only = [], False
    for p in inspect.signature(function).parameters.values():
        where = f"{name}: parameter {p.name!r}"
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"{where}: *args and **kwargs have no place in a schema")
        if p.name not in hints:
            raise TypeError(f"{where}: a type annotation is missing")
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        kind = _schema_type(hints[p.name], where)
        if p.name in mutates_args:
            kind = kind.replace("Tensor", "Tensor(a!)", 1)
        text = f"{kind} {p.name}"
        if p.default is not p.empty:
            if not isinstance(p.default, (int, float, bool, str, tuple, list, type(None))):
                raise ValueError(f"{where}: the default {p.default!r} is no literal")
            text += f"={p.default!r}"
        parts.append(text)
    return f"{name}({', '.join(parts)}) -> {_result_type(hints.get('return'))}"


def _result_type(annotation):
    if annotation is None or annotation is type(None):
        return "()"
    args = [a for a in typing.get_args(annotation) if a is not Ellipsis]
    if typing.get_origin(annotation) is tuple and Ellipsis not in typing.get_args(annotation):
        return f"({', '.join('Tensor' for _ in args)})"
    if typing.get_origin(annotation) in (list, tuple):
        return "Tensor[]"
    return "Tensor"


def _check_name(name):
    _check_str(name)
    space, sep, rest = name.partition("::")
    if not sep or not space.isidentifier() or not rest.isidentifier():
        raise ValueError(f"the name of a custom op is NAMESPACE::NAME, got {name!r}")


def _check_str(name):
    if not isinstance(name, str):
        raise TypeError(f"the name of an op is a str, got {type(name).__name__}")


def op(name, *, mutates_args=(), composite=False):
    """Decorator: make an op of a typed function, whose body is the meta function.

    The body gets the arguments and returns a `Spec`, a tensor made with
    `new_empty` and the like, or a tuple of them. With ``composite=True`` the
    body is instead made of other ops and computes the result itself.
    `mutates_args` names the arguments that the kernels write to.
    """
    if callable(name):
        raise TypeError(f"op: a name is missing; write @metatensor.op(\"namespace::{getattr(name, '__name__', 'name')}\")")
    _check_name(name)

    def decorate(function):
        schema = infer_schema(function, name, mutates_args)
        made = define_op(schema, function, _COMPOSITE if composite else 0, _first_line(function.__doc__))
        return _equip(made)

    return decorate


def define(schema, *, doc=""):
    """Define an op from schema text, ``"acme::scale(Tensor input, float factor) -> Tensor"``.

    Its meta function is given with `meta`. Returns the Op.
    """
    name = schema.partition("(")[0].strip()
    _check_name(name)

    def body(*args, **kwargs):
        function = _metas.get(name)
        if function is None:
            raise NotImplementedError(f"{name}: no meta function was registered; "
                                      f"use @metatensor.library.meta({name!r})")
        return function(*args, **kwargs)

    return _equip(define_op(schema, body, 0, doc))


def meta(name):
    """Decorator: the meta function of an op that `define` made. A second one raises RuntimeError."""

    def decorate(function):
        op_by_name(name)
        with _lock:
            if name in _metas:
                raise RuntimeError(f"{name}: a meta function is registered already")
            _metas[name] = function
        return function

    return decorate


def kernel(name, device):
    """Decorator: the kernel of an op for one device type.

    It is called as ``kernel(out, *args)`` with tensors whose storages hold data:
    `out` (a tuple for several results) is allocated as the meta function says, and
    the kernel only fills it in, or returns a result of that shape and dtype. A
    second kernel for the same op and device raises RuntimeError.
    """
    target = get_op(name)

    def decorate(function):
        with _lock:
            if (name, device) in _kernels:
                raise RuntimeError(f"{name}: a kernel for {device!r} is registered already")
            _kernels[name, device] = function
        forget_kernels(target)
        return function

    return decorate


def find_kernel(name, device):
    """The kernel that `kernel` registered for an op and a device type, or None."""
    return _kernels.get((name, device))


def decomposition(name):
    """Decorator: how to compute an op by other ops on devices without a kernel for it."""
    from metatensor.rules import decompositions

    target = get_op(name)

    def decorate(function):
        with _lock:
            if name in decompositions.TABLE:
                raise RuntimeError(f"{name}: a decomposition is registered already")
            decompositions.TABLE[name] = function
        forget_kernels(target)
        return function

    return decorate


def flops(name):
    """Decorator: the FLOP rule of an op, ``rule(out, *args) -> int``."""
    from metatensor.rules import flops as rules

    get_op(name)

    def decorate(function):
        with _lock:
            if name in rules.FLOPS:
                raise RuntimeError(f"{name}: a FLOP rule is registered already")
            rules.FLOPS[name] = function
        return function

    return decorate


def get_op(name):
    """The Op called `name` ("acme::rope", "nn.functional.relu").

    Overloads ("max.dim") are found by their op. Raises AttributeError for an unknown name, TypeError for no str.
    """
    _check_str(name)
    if name in registry:
        return registry[name]
    stem = name.rpartition(".")[0]
    if stem in registry and any(ov.qualname == name for ov in registry[stem].overloads):
        return registry[stem]
    return op_by_name(name)


def _first_line(doc):
    return (doc or "").strip().partition("\n")[0]


def _equip(made):
    """Give a custom op its decorators."""
    made.kernel = lambda device: kernel(made.name, device)
    made.decomposition = lambda function: decomposition(made.name)(function)
    made.flops = lambda function: flops(made.name)(function)
    return made


class Namespace:
    """The ops of one namespace, as attributes."""

    def __init__(self, name):
        self.__name__ = name

    def __getattr__(self, name):
        found = registry.get(f"{self.__name__}::{name}")
        if found is None:
            from metatensor import plugins

            plugins.load_ops()
            found = registry.get(f"{self.__name__}::{name}")
        if found is None:
            raise AttributeError(f"there is no op {self.__name__}::{name}")
        return found

    def __dir__(self):
        start = self.__name__ + "::"
        return sorted(n[len(start):] for n in registry if n.startswith(start))

    def __repr__(self):
        return f"<ops of {self.__name__}>"
