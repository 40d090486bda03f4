"""`Graph` collects the nodes and initializers of an ONNX model; `Var` is the name of one of its values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from onnx import TensorProto, defs, helper, numpy_helper

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.program.onnx.dtypes import element_type
from metatensor.program.sizes.expressions import ROUNDING, Expression, Real, RealSize, Size, linear
from metatensor.program.sizes.expressions import name as named

__all__ = ["Declined", "Graph", "Size", "Unknown", "Var"]

_BY_NUMPY = {getattr(mt, name): np.dtype(name) for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
                                                            "uint16", "uint32", "uint64", "bool")}  # fmt: skip


_TYPES = {dtype: {"float32": "float", "float64": "double"}.get(name, name) for name, dtype in
          ((n, getattr(mt, n)) for n in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                         "uint32", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz",
                                         "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"))}  # fmt: skip
"""The names of dtypes in ONNX's schemas."""


_INTEGER = {"//": "Div", "%": "Mod", "min": "Min", "max": "Max"}
_REAL = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow", "sqrt": "Sqrt", "log": "Log", "exp": "Exp", "sin": "Sin",
         "cos": "Cos", "tanh": "Tanh", "float": "Cast"}  # fmt: skip


class Declined(Exception):
    """Raised by a conversion that does not support the arguments of a call. The operator is decomposed if that is possible."""


class Unknown(Exception):
    """Raised where a number is needed that depends on named sizes in a way that ONNX cannot compute."""


class Var(str):
    """The name of a value of the graph, with its dtype and, where it is known, its shape."""

    dtype: DType
    shape: tuple[int, ...] | None

    def __new__(cls, name: str, dtype: DType, shape: Sequence[int] | None = None) -> Var:
        made = super().__new__(cls, name)
        made.dtype, made.shape = dtype, None if shape is None else tuple(shape)
        return made


@cache
def _takes(kind: str, opset: int) -> tuple[tuple[str, frozenset[str] | None], ...]:
    """Return, for each input of an ONNX operator, the kind of type and the element types that it takes. Empty if unknown."""
    try:
        schema = defs.get_schema(kind, opset)
    except defs.SchemaError:
        return ()
    return tuple((i.option.name, frozenset(i.types)) for i in schema.inputs)


def _check_types(kind: str, opset: int, inputs: Sequence[str | None]) -> None:
    """Raise `Declined` if an operator of ONNX does not take tensors of a dtype."""
    known = _takes(kind, opset)
    for i, name in enumerate(inputs if known else ()):
        types = known[min(i, len(known) - 1)][1]
        if isinstance(name, Var) and types and f"tensor({_TYPES[name.dtype]})" not in types:
            raise Declined(f"{kind} of ONNX takes no {name.dtype.name}")


class Graph:
    """The nodes and initializers of a model, to which conversions add.

    Attributes
    ----------
    opset : int
        The version of the operator set.
    nodes, initializers : list
        What the model has so far.
    notes : dict of str
        Metadata of the nodes being added. Their names begin with `prefix`.
    """

    def __init__(self, opset: int, taken: Iterable[str] = ()) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.sizes: dict[str, tuple[str, int, int, int]] = {}
        """For each named size: the input and dimension that determine it, and the factor and constant of that relation."""
        self.notes: dict[str, str] = {}
        self.prefix = ""
        self._taken = set(taken)
        self._counts: dict[str, int] = {}
        self._constants: dict[Any, Var] = {}
        self._named: dict[Any, Var] = {}

    def fresh(self, wish: str) -> str:
        """Return a name that no value of the graph has."""
        n = self._counts.get(wish, 0)
        name = wish if not n else f"{wish}_{n}"
        while name in self._taken:
            n += 1
            name = f"{wish}_{n}"
        self._counts[wish] = n + 1
        self._taken.add(name)
        return name

    # Nodes ----------------------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str | None, dtype: DType | None = None, shape: Sequence[int] | None = None, **attributes: Any) -> Var:
        """Add a node with one output, and return that. Its dtype is that of the first input, unless `dtype` is given."""
        return self.ops(kind, *inputs, dtypes=[dtype], shape=shape, **attributes)[0]

    def ops(self, kind: str, *inputs: str | None, dtypes: Sequence[DType | None], shape: Sequence[int] | None = None,
            **attributes: Any) -> list[Var]:  # fmt: skip
        """Add a node with an output for each of `dtypes`, and return these."""
        if "domain" not in attributes:
            _check_types(kind, self.opset, inputs)
        known = next((name.dtype for name in inputs if isinstance(name, Var)), None)
        name = self.fresh(f"{self.prefix}{kind}")
        made = []
        for i, dtype in enumerate(dtypes):
            found = dtype if dtype is not None else known
            assert found is not None
            made.append(Var(self.fresh(f"{name}.out{i if i else ''}"), found, shape))
        node = helper.make_node(kind, ["" if i is None else str(i) for i in inputs], [str(v) for v in made], name=name, **attributes)
        if self.opset >= 21:  # earlier versions have no metadata of nodes
            for key, value in self.notes.items():
                entry = node.metadata_props.add()
                entry.key, entry.value = key, value
        elif self.notes:
            node.doc_string = "; ".join(f"{key}: {value}" for key, value in self.notes.items())
        self.nodes.append(node)
        return made

    def cast(self, value: Var, dtype: DType) -> Var:
        """Return a value in a dtype."""
        if value.dtype is dtype:
            return value
        return self.op("Cast", value, dtype=dtype, shape=value.shape, to=element_type(dtype))

    # Constants ------------------------------------------------------------------------------------------

    def constant(self, values: Any, dtype: DType) -> Var:
        """Return a constant: numbers, nested lists of these, or an array. Equal ones are made once."""
        own = dtype if dtype in _BY_NUMPY else mt.float32
        element_type(dtype)
        array = np.ascontiguousarray(np.asarray(values).astype(_BY_NUMPY[own])).reshape(np.shape(values))
        key = own, array.shape, array.tobytes()
        found = self._constants.get(key)
        if found is None:
            found = Var(self.fresh("constant"), own, array.shape)
            self.initializers.append(numpy_helper.from_array(array, str(found)))
            self._constants[key] = found
        return self.cast(found, dtype)

    def raw(self, data: bytes, dtype: DType, shape: Sequence[int]) -> Var:
        """Return a constant with the bytes of a tensor, little-endian and in order."""
        key = dtype, tuple(shape), data
        found = self._constants.get(key)
        if found is None:
            found = Var(self.fresh("constant"), dtype, shape)
            self.initializers.append(TensorProto(name=str(found), data_type=element_type(dtype), dims=list(shape), raw_data=data))
            self._constants[key] = found
        return found

    # Sizes ----------------------------------------------------------------------------------------------

    def ints(self, values: Iterable[int]) -> Var:
        """Return a tensor of one dimension with integers, computed from the sizes of inputs where they have names."""
        values = list(values)
        if not any(isinstance(v, Size) for v in values):
            return self.constant(np.array(values, dtype=np.int64), mt.int64)
        parts: list[str] = []
        plain: list[int] = []
        for value in values:
            if not isinstance(value, Size):
                plain.append(value)
                continue
            if plain:
                parts.append(self.ints(plain))
                plain = []
            parts.append(self._computed(value.expression))
        if plain:
            parts.append(self.ints(plain))
        return Var(parts[0], mt.int64, (1,)) if len(parts) == 1 else self.op("Concat", *parts, dtype=mt.int64, shape=(len(values),), axis=0)

    def number(self, value: Any, dtype: DType) -> Var:
        """Return a tensor without dimensions with a number."""
        if isinstance(value, (Size, RealSize)):
            found = self.op("Squeeze", self._computed(value.expression), self.ints([0]), shape=())
            return self.cast(found, dtype)
        return self.constant(value, dtype)

    def source(self, name: str, value: Any) -> None:
        """Note that an input has sizes from which named sizes follow."""
        for axis, n in enumerate(value.shape):
            found = linear(n.expression) if isinstance(n, Size) else None
            if found is not None:
                self.sizes.setdefault(found[0], (name, axis, *found[1:]))

    def _computed(self, value: Any) -> Var:
        """Return a tensor with one element: the value of an expression, int64 or float64."""
        if value not in self._named:
            self._named[value] = self._polynomial(value) if isinstance(value, Expression) else (
                self._applied(value.op, value.args, mt.float64) if isinstance(value, Real)
                else self.constant([value], mt.float64 if isinstance(value, float) else mt.int64))  # fmt: skip
        return self._named[value]

    def _polynomial(self, value: Expression) -> Var:
        total: Var | None = None
        for product, factor in value.terms.items():
            term: Var | None = None
            for atom in product:
                own = named(atom) if isinstance(atom, str) else Expression({(atom,): 1})
                if own not in self._named:
                    self._named[own] = self._size(atom) if isinstance(atom, str) else self._applied(atom[0], atom[1:], mt.int64)
                term = self._named[own] if term is None else self.op("Mul", term, self._named[own], shape=(1,))
            if term is None or factor != 1:
                constant = self.constant([factor], mt.int64)
                term = constant if term is None else self.op("Mul", term, constant, shape=(1,))
            total = term if total is None else self.op("Add", total, term, shape=(1,))
        assert total is not None
        return total

    def _applied(self, op: str, args: Sequence[Any], dtype: DType) -> Var:
        """Return the value of an operation on expressions."""
        if op in ROUNDING and len(args) == 1:
            found = self._computed(args[0])
            kind = {"ceil": "Ceil", "floor": "Floor", "round": "Round"}.get(op)
            return self.cast(found if kind is None else self.op(kind, found, shape=(1,)), mt.int64)
        kinds = _INTEGER if dtype is mt.int64 else _REAL
        if op not in kinds:
            raise Unknown(f"{op} of named sizes has no form in ONNX")
        given = [self.cast(self._computed(a), dtype) for a in args]
        if op == "//":  # Div rounds toward zero
            rest = self.op("Mod", *given, shape=(1,))
            return self.op("Div", self.op("Sub", given[0], rest, shape=(1,)), given[1], shape=(1,))
        return given[0] if op == "float" else self.op(kinds[op], *given, shape=(1,))

    def _size(self, name: str) -> Var:
        if name not in self.sizes:
            raise Unknown(f"the size {name} does not follow from a size of an input, alone or in a sum or product with numbers")
        source, axis, factor, rest = self.sizes[name]
        found = self.op("Shape", source, dtype=mt.int64, shape=(1,), start=axis, end=axis + 1)
        found = self.op("Sub", found, self.constant([rest], mt.int64), shape=(1,)) if rest else found
        return self.op("Div", found, self.constant([factor], mt.int64), shape=(1,)) if factor != 1 else found

    def reshaped(self, value: Var, shape: Sequence[int]) -> Var:
        """Return a value in another shape."""
        wanted = list(shape)
        named = [i for i, n in enumerate(wanted) if isinstance(n, Size)]
        if named and 0 not in wanted:
            same = [i for i in named if value.shape is not None and i < len(value.shape) and isinstance(value.shape[i], Size)
                    and value.shape[i].expression == wanted[i].expression]  # type: ignore[attr-defined]  # fmt: skip
            if len(named) == 1 and not same:
                wanted[named[0]] = -1
            else:
                left = [i for i in named if i not in same]
                if len(left) <= 1:
                    wanted = [0 if i in same else -1 if i in left else n for i, n in enumerate(wanted)]
        if 0 in shape:
            return self.op("Reshape", value, self.ints(wanted), shape=shape, allowzero=1)
        return self.op("Reshape", value, self.ints(wanted), shape=shape)
