"""Graphs of exported programs, read from JSON, and their execution."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.program.aten import find
from metatensor.program.aten.codes import dtype_code
from metatensor.program.encoding import Malformed

__all__ = ["Graph", "Name", "decoded", "dtype_of", "field", "kind_of"]

_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32", 10: "complex64",
    11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
_DEPTH = 32
MAX_ITERATIONS = 1_000_000
"""Maximum iterations of a loop in a graph."""


def field(made: Any, key: str, kind: type, where: str) -> Any:
    """Return a field of an object. Raise `Malformed` unless it is of class `kind`."""
    found = made.get(key) if isinstance(made, dict) else None
    if not isinstance(found, kind):
        raise Malformed(f"{where} has no {key!r} of class {kind.__name__}")
    return found


def kind_of(made: Any, where: str) -> tuple[str, Any]:
    """Return the kind and the content of an object with exactly one key whose value is not null."""
    if not isinstance(made, dict):
        raise Malformed(f"{where} is not an object")
    found = [(key, value) for key, value in made.items() if value is not None]
    if len(found) != 1:
        raise Malformed(f"{where} has {len(found)} kinds")
    return found[0]


def dtype_of(code: Any) -> DType:
    """Return the dtype that a number stands for. Raise NotImplementedError if there is none."""
    found = getattr(mt, _DTYPES.get(code, ""), None) if type(code) is int else None
    if not isinstance(found, DType):
        raise NotImplementedError(f"there is no dtype {code!r:.40} in metatensor")
    return found


class Name(str):
    """The name of a value."""

    __slots__ = ()


class Device(str):
    """A device that a graph names."""

    __slots__ = ()


class Operator:
    """An operator that a graph passes as an argument."""

    def __init__(self, made: Any, where: str) -> None:
        self.target = str(_plain(str)(made, where))
        self.function = _function(self.target)


def _named(made: Any, where: str) -> Any:
    return Name(field(made, "name", str, where))


def _or_number(made: Any, where: str, kinds: tuple[type, ...]) -> Any:
    key, value = kind_of(made, where)
    if key == "as_name" and isinstance(value, str):
        return Name(value)
    if key not in ("as_int", "as_float", "as_bool") or not isinstance(value, kinds):
        raise Malformed(f"{where} is neither a name nor a number")
    return value


def _optional(made: Any, where: str) -> Any:
    key, value = kind_of(made, where)
    return None if key == "as_none" else _named(value, where)


def _each(one: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def each(made: Any, where: str) -> Any:
        if not isinstance(made, list):
            raise Malformed(f"{where} is not a list")
        return [one(part, where) for part in made]

    return each


def _plain(*kinds: type) -> Callable[[Any, str], Any]:
    def plain(made: Any, where: str) -> Any:
        if type(made) not in kinds:
            raise Malformed(f"{where} is of class {type(made).__name__}")
        return made

    return plain


def _float(made: Any, where: str) -> float:
    if isinstance(made, str) and made in ("Infinity", "-Infinity", "NaN"):
        return float(made)
    return float(_plain(int, float)(made, where))


def _device(made: Any, where: str) -> Any:
    kind, index = field(made, "type", str, where), made.get("index")
    return Device(kind if type(index) is not int else f"{kind}:{index}")


def _format(made: Any, where: str) -> Any:
    if type(made) is not int or made not in _FORMATS:
        raise Malformed(f"{where}: there is no memory format {made!r:.20}")
    return getattr(mt, _FORMATS[made])


def _layout(made: Any, where: str) -> Any:
    if made != 7:
        raise NotImplementedError(f"{where}: metatensor has strided tensors only")
    return mt.strided


def _complex(made: Any, where: str) -> complex:
    if isinstance(made, dict):
        return complex(_float(made.get("real"), where), _float(made.get("imag"), where))
    return complex(_float(made, where))


def _dict(made: Any, where: str) -> Any:
    if not isinstance(made, dict):
        raise Malformed(f"{where} is not an object")
    return {key: decoded(value, where) for key, value in made.items()}


_int_or_name: Callable[[Any, str], Any] = lambda made, where: _or_number(made, where, (int,))
_float_or_name: Callable[[Any, str], Any] = lambda made, where: _or_number(made, where, (int, float))
_FORMS: dict[str, Callable[[Any, str], Any]] = {
    "as_none": lambda made, where: None, "as_tensor": _named, "as_tensors": _each(_named), "as_int": _plain(int),
    "as_ints": _each(_plain(int)), "as_float": _float, "as_floats": _each(_float), "as_string": _plain(str),
    "as_strings": _each(_plain(str)), "as_sym_int": _int_or_name, "as_sym_ints": _each(_int_or_name),
    "as_scalar_type": lambda made, where: dtype_of(made), "as_memory_format": _format, "as_layout": _layout, "as_device": _device,
    "as_bool": _plain(bool), "as_bools": _each(_plain(bool)), "as_sym_bool": _int_or_name, "as_sym_bools": _each(_int_or_name),
    "as_optional_tensors": _each(_optional), "as_sym_float": _float_or_name, "as_sym_floats": _each(_float_or_name),
    "as_optional_tensor": _optional, "as_complex": _complex, "as_nested_tensors": _each(_each(_named)),
    "as_int_lists": _each(_each(_plain(int))), "as_float_lists": _each(_each(_float)), "as_string_to_argument": _dict,
    "as_operator": Operator,
}  # fmt: skip


def decoded(made: Any, where: str, depth: int = 0) -> Any:
    """Decode an argument to Python values, with a `Name` for a value of the graph and a `Graph` for a graph."""
    key, value = kind_of(made, where)
    if key == "as_graph":
        if depth > _DEPTH:
            raise Malformed(f"{where}: graphs are nested too deeply")
        return Graph(field(value, "graph", dict, where), depth + 1)
    if key not in _FORMS:
        raise NotImplementedError(f"{where}: an argument of kind {key[:40]!r}")
    return _FORMS[key](value, where)


class Node:
    """A call of a graph."""

    __slots__ = ("args", "function", "kwargs", "release", "results", "target")

    def __init__(self, made: Any, depth: int) -> None:
        self.target: str = field(made, "target", str, "a node")
        where = f"a call of {self.target[:80]}"
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}
        self.function = _function(self.target)
        # Earlier versions do not say which arguments are passed by name.
        by_name = self.target.startswith("torch.ops.") and not self.target.startswith("torch.ops.higher_order.")
        for one in field(made, "inputs", list, where):
            name, value = field(one, "name", str, where), decoded(one.get("arg"), where, depth)
            kind = one.get("kind")
            if kind == 2 or kind != 1 and name and by_name:
                self.kwargs[name] = value
            else:
                self.args.append(value)
        self.results = [decoded(one, where) for one in field(made, "outputs", list, where)]
        self.release: list[str] = []


class Graph:
    """Calls on named values.

    Parameters
    ----------
    made : dict
        The graph in JSON.

    Raises
    ------
    Malformed
        If it is not a graph, or uses a value before it is defined.
    """

    def __init__(self, made: Any, depth: int = 0) -> None:
        self.inputs = [decoded(one, "an input") for one in field(made, "inputs", list, "the graph")]
        self.nodes = [Node(one, depth) for one in field(made, "nodes", list, "the graph")]
        self.outputs = [decoded(one, "an output") for one in field(made, "outputs", list, "the graph")]
        self.single = bool(made.get("is_single_tensor_return"))
        known = {one for one in self.inputs if isinstance(one, Name)}
        last: dict[str, Node] = {}
        for node in self.nodes:
            for name in _names((node.args, node.kwargs)):
                if name not in known:
                    raise Malformed(f"a call of {node.target[:80]} uses {name[:60]!r} before it is defined")
                last[name] = node
            made_now = set(_names(node.results))
            known |= made_now
            last.update(dict.fromkeys(made_now, node))
        for name in _names(self.outputs):
            if name not in known:
                raise Malformed(f"the graph returns {name[:60]!r}, which it does not define")
            last.pop(name, None)
        for name, node in last.items():
            node.release.append(name)

    def targets(self) -> dict[str, bool]:
        """Return the names of the functions that are called, with whether metatensor has them."""
        found: dict[str, bool] = {}
        for node in self.nodes:
            found[node.target] = node.function is not None
            for part in [*node.args, *node.kwargs.values()]:
                if isinstance(part, Graph):
                    found.update(part.targets())
                elif isinstance(part, Operator):
                    found[part.target] = part.function is not None
        return found

    def run(self, values: list[Any], device: Any) -> list[Any]:
        """Run the calls on the values of the inputs, and return those of the outputs. Devices in calls are replaced by `device`
        unless it is None."""
        scope: dict[str, Any] = {name: value for name, value in zip(self.inputs, values) if isinstance(name, Name)}
        del values

        def given(value: Any) -> Any:
            kind = type(value)
            if kind is Name:
                return scope[value]
            if kind is list:
                return [given(one) for one in value]
            if kind is Device:
                return mt.device(str(value)) if device is None else device
            if kind is Graph:
                return lambda *args: value.called(args, device)
            if kind is Operator:
                return value.function
            return {key: given(one) for key, one in value.items()} if kind is dict else value

        for node in self.nodes:
            if node.function is None:
                raise NotImplementedError(f"metatensor has no operator {node.target[:80]}, which the exported program calls")
            result = node.function(*[given(one) for one in node.args], **{key: given(one) for key, one in node.kwargs.items()})
            _keep(node, result, scope)
            del result
            for name in node.release:
                scope.pop(name, None)
        return [given(one) for one in self.outputs]

    def called(self, args: tuple[Any, ...], device: Any) -> Any:
        """Run the graph as a function."""
        if len(args) != len(self.inputs):
            raise RuntimeError(f"a graph in the exported program takes {len(self.inputs)} arguments, got {len(args)}")
        found = self.run(list(args), device)
        return found[0] if self.single and len(found) == 1 else tuple(found)


def _names(value: Any) -> Any:
    if isinstance(value, Name):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _names(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _names(one)


def _keep(node: Node, result: Any, scope: dict[str, Any]) -> None:
    """Store the results of a call under their names."""
    results = node.results
    if not results:
        return
    if len(results) == 1:
        names = results[0]
        if isinstance(names, Name):
            while isinstance(result, (tuple, list)) and len(result) == 1 and node.target.startswith("torch.ops.higher_order."):
                result = result[0]
            scope[names] = _plain_value(result)
            return
        if not isinstance(names, list):
            return
        results = names
    if not isinstance(result, (tuple, list)) or len(result) != len(results):
        found = len(result) if isinstance(result, (tuple, list)) else type(result).__name__
        raise RuntimeError(f"{node.target[:80]} returned {found}, but the exported program expects {len(results)} values")
    for name, value in zip(results, result):
        if isinstance(name, Name):
            scope[name] = _plain_value(value)
        elif isinstance(name, list):
            scope.update(zip(name, value))


def _plain_value(value: Any) -> Any:
    return dtype_code(value) if isinstance(value, DType) else value


# Functions that are not operators -----------------------------------------------------------------------------


def _limited(function: Callable[..., Any]) -> Callable[..., Any]:
    def limited(*args: Any) -> Any:
        result = function(*args)
        if type(result) is int and not -(1 << 63) <= result < 1 << 63:
            raise OverflowError("a number of the exported program has more than 64 bits")
        return result

    return limited


def _power(a: Any, b: Any) -> Any:
    if type(a) is int and type(b) is int and not 0 <= b <= 64:
        return float(a) ** b
    return a**b


def _cond(predicate: Any, true: Callable[..., Any], false: Callable[..., Any], operands: Any = ()) -> Any:
    return (true if bool(predicate) else false)(*operands)


def _while(condition: Callable[..., Any], body: Callable[..., Any], carried: Any, extra: Any = ()) -> Any:
    carried = tuple(carried)
    for _ in range(MAX_ITERATIONS):
        go = condition(*carried, *extra)
        if not bool(go[0] if isinstance(go, tuple) else go):
            return carried
        made = body(*carried, *extra)
        carried = made if isinstance(made, tuple) else (made,)
    raise RuntimeError(f"a loop of the exported program takes more than {MAX_ITERATIONS:,} iterations")


def _with_grad(enabled: bool, function: Callable[..., Any], *args: Any) -> Any:
    with mt.set_grad_enabled(enabled):
        return function(*args)


def _with_autocast(device: str, dtype: Any, enabled: bool, cache: Any, function: Callable[..., Any], *args: Any) -> Any:
    with mt.amp.autocast(device, dtype=dtype, enabled=enabled):
        return function(*args)


def _with_effects(token: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    result = function(*args, **kwargs)
    return (token, *result) if isinstance(result, tuple) else (token, result)


_PYTHON: dict[str, Callable[..., Any]] = {
    **{f"_operator.{name}": _limited(getattr(operator, name)) for name in (
        "add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor",
        "not_", "getitem")},
    "_operator.pow": _limited(_power), "math.ceil": math.ceil, "math.floor": math.floor, "math.trunc": math.trunc, "builtins.round": round,
    "builtins.max": max, "builtins.min": min, "builtins.abs": abs, "math.sqrt": math.sqrt, "torch.sym_int": int, "torch.sym_float": float,
    "torch.sym_not": operator.not_, "torch.sym_max": max, "torch.sym_min": min, "torch.sym_sum": lambda args: sum(args),
    "torch.sym_ite": lambda test, a, b: a if test else b, "torch._sym_sqrt": math.sqrt, "torch.sym_sqrt": math.sqrt,
    "torch.ops.higher_order.cond": _cond, "torch.ops.higher_order.while_loop": _while,
    "torch.ops.higher_order.with_effects": _with_effects,
    "torch.ops.higher_order.wrap_with_set_grad_enabled": _with_grad, "torch.ops.higher_order.wrap_with_autocast": _with_autocast,
}  # fmt: skip


def _function(target: str) -> Callable[..., Any] | None:
    """Return the function for a target, or None if there is none."""
    if target in _PYTHON:
        return _PYTHON[target]
    parts = target.split(".")
    if parts[:2] != ["torch", "ops"] or len(parts) not in (4, 5) or parts[2] == "higher_order":
        return None
    return find(parts[2], parts[3], parts[4] if len(parts) == 5 else None)
