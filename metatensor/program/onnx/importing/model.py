"""`OnnxModel`, a module that runs an ONNX model, and `from_onnx`, which makes a program of one."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterable, Mapping
from functools import partial
from keyword import iskeyword
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.tensor import Tensor
from metatensor.checkpoint.budget import Budget
from metatensor.checkpoint.errors import CheckpointError, printable
from metatensor.checkpoint.reading import shown
from metatensor.nn import Module, Parameter
from metatensor.program.onnx.dtypes import SMALL, STRING, held_dtype, type_name
from metatensor.program.onnx.importing import families
from metatensor.program.onnx.importing.expressions import MOST_NAMES
from metatensor.program.onnx.importing.graph import DOMAINS, Builder, Graph
from metatensor.program.onnx.importing.reading import Declared, declared, read_model, size_names_of
from metatensor.program.onnx.importing.running import Run
from metatensor.program.onnx.importing.shapes import ValueShape, infer, named
from metatensor.program.onnx.importing.tensors import shape_of, tensor_from, texts_from
from metatensor.program.onnx.importing.values import LIMIT, Known, Small, Texts, beside_the_run, lifts
from metatensor.program.onnx.original import original
from metatensor.program.program import Program
from metatensor.program.tracing import trace

__all__ = ["OnnxModel", "from_onnx"]

STEPS = 250_000
"""Default of the largest number of nodes that a run computes."""


class OnnxModel(Module):
    """A module that computes an ONNX model with operators of metatensor.

    Floating-point initializers are parameters and other initializers are buffers, under their names in the file. Small integer
    tensors are constants. What depends only on constants and sizes, such as the arguments of ``Reshape``, is computed on the
    host, even if everything else is on meta.

    Parameters
    ----------
    model : path, binary file or onnx.ModelProto
        The model. External data must be in files of the same folder.
    device : str or device, optional
        Where to put parameters and buffers. On meta their data is not read. Default: the default device.
    limit : int
        Largest number of nodes that a run may compute, those of loops counted each time.

    Attributes
    ----------
    inputs, outputs : list of Declared
        Names, element types and shapes that the model declares.
    missing : tuple of str
        Operators in the model that are not supported.

    Raises
    ------
    ImportError
        If the ``onnx`` package is not installed.
    CheckpointError
        If the file is damaged, or its external data is missing or elsewhere.

    Examples
    --------
    >>> from onnx import TensorProto, helper
    >>> import metatensor as mt
    >>> graph = helper.make_graph(
    ...     [helper.make_node("Relu", ["x"], ["y"])], "small",
    ...     [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
    ...     [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])])
    >>> model = mt.program.OnnxModel(helper.make_model(graph), device="meta")
    >>> model(mt.empty(2, 3, device="meta")).shape
    metatensor.Size([2, 3])
    """

    def __init__(self, model: Any, *, device: Any = None, limit: int = STEPS) -> None:
        super().__init__()
        families.load()
        proto, file = read_model(model)
        self._file = file or "<model>"
        self._path = file
        self._given = mt.device(mt.get_default_device() if device is None else device)
        self._limit = limit
        self._held: dict[str, Any] = {}
        self._budget = Budget()
        self._again: dict[str, int] = {}
        opsets = {DOMAINS.get(one.domain, one.domain): one.version for one in proto.opset_import}
        opsets.setdefault("", 1)
        functions = {(DOMAINS.get(one.domain, one.domain), one.name): one for one in proto.functions}
        self._builder = Builder(self._file, opsets, functions, self._initializer, self._constant)
        self._graph: Graph = self._builder.graph(proto.graph)
        known = set(self._graph.constants)
        everything = [declared(one, self._file) for one in proto.graph.input]
        self._all_inputs: list[Declared] = everything
        self.inputs: list[Declared] = [one for one in everything if one.name not in known]
        self.outputs: list[Declared] = [declared(one, self._file) for one in proto.graph.output]
        self.missing: tuple[str, ...] = tuple(sorted(self._builder.missing))
        self.__signature__ = _signature(self.inputs)
        self.graph_name: str = proto.graph.name or "OnnxModel"

    # Running ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> mt.device:
        """The device of the parameters, or the device that was given if there are none."""
        for one in (*self.parameters(), *self.buffers()):
            return one.device
        return self._given

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs.

        Parameters
        ----------
        *args, **kwargs
            The inputs in order, or by name. If an input or the model is on meta, everything is computed on meta; inputs on
            the cpu keep their values then, so that shapes may depend on them.

        Returns
        -------
        Tensor, list or tuple
            The output, or a tuple if there are several. Sequences are lists. Types smaller than a byte have one element per byte.

        Raises
        ------
        TypeError
            If inputs are missing, unknown, or not tensors.
        ValueError
            If an input does not have the declared dtype or shape, or a node cannot be computed (`OnnxError`).
        DataDependentError
            If a shape depends on the values of a tensor on meta.
        NotImplementedError
            If the model has operators that are not supported; the message lists them.
        """
        if self.missing:
            raise NotImplementedError(printable(f"{self._file}: operators that are not supported: {', '.join(self.missing)}; "
                                                "replace these nodes, or give the model functions that define them (ModelProto.functions)"))
        given = self._bound(args, kwargs)
        device = self._device_of(given.values())
        run = Run(self._builder, device, self._limit)
        results = run.graph(self._graph, {}, self._values(given, device))
        found = tuple(_plain(value, device) for value in results)
        return found[0] if len(found) == 1 else found

    def _values(self, given: dict[str, Any], device: mt.device) -> list[Any]:
        """Return the values of the graph's inputs. Initializers are inputs as well in old models."""
        constants = self._graph.constants
        return [_entered(given[one.name], one, device) if one.name in given else constants.get(one.name) for one in self._all_inputs]

    def _device_of(self, values: Iterable[Any]) -> mt.device:
        tensors = [one for value in values for one in (value if isinstance(value, list) else [value]) if isinstance(one, Tensor)]
        own = self.device
        if own.type == "meta" and tensors and self._held_nothing():
            own = tensors[0].device
        return next((one.device for one in tensors if one.is_meta), own)

    def _held_nothing(self) -> bool:
        return not self._held and self._given.type != "meta"

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.inputs):
            raise TypeError(f"{self._file}: it takes {len(self.inputs)} inputs, got {len(args)}")
        given = {one.name: value for one, value in zip(self.inputs, args, strict=False)}
        names = {one.name: one for one in self._all_inputs}
        for name, value in kwargs.items():
            if name not in names:
                known = ", ".join(map(str, self.inputs))
                raise TypeError(printable(f"{self._file}: there is no input {shown(name)}; its inputs are {known}"))
            if name in given:
                raise TypeError(printable(f"{self._file}: the input {shown(name)} is given twice"))
            given[name] = value
        for one in self.inputs:
            if one.name not in given and one.form != "optional":
                raise TypeError(printable(f"{self._file}: the input {one} is missing"))
            given.setdefault(one.name, None)
        for name, value in given.items():
            _check(names[name], value, self._file)
        return given

    # Shapes -----------------------------------------------------------------------------------------------

    def empty_inputs(self, sizes: Mapping[str, int] | None = None) -> dict[str, Tensor]:
        """Return empty inputs on meta with the declared shapes.

        Parameters
        ----------
        sizes : mapping of int, optional
            The sizes that the model names (`size_names`).

        Raises
        ------
        ValueError
            If a size is not known. The message tells which.
        """
        return self._empty(self.inputs, dict(sizes or {}))

    def _empty(self, inputs: list[Declared], sizes: dict[str, int]) -> dict[str, Tensor]:
        found = {}
        for one in inputs:
            if one.form == "optional":
                continue
            if one.form != "tensor" or one.shape is None or one.kind in (0, STRING):
                raise ValueError(printable(f"{self._file}: the shape and dtype of the input {one} are not declared; give tensors"))
            own = size_names_of(one)
            if any(isinstance(n, str) and n not in sizes for n in own):
                names = ", ".join(dict.fromkeys(repr(n) for n in own if isinstance(n, str) and n not in sizes))
                raise ValueError(printable(f"{self._file}: the input {one} has sizes that vary; give sizes for {names}"))
            shape = [sizes[n] if isinstance(n, str) else n for n in own]
            try:
                found[one.name] = mt.empty(shape, dtype=held_dtype(one.kind), device="meta")
            except RuntimeError as error:  # the number of bytes overflows
                raise ValueError(printable(f"{self._file}: the input {one}: {error}")) from None
        extra = set(sizes) - self.size_names()
        if extra:
            raise ValueError(printable(f"{self._file}: no input has a size named {', '.join(sorted(map(shown, extra)))}"))
        return found

    def size_names(self) -> set[str]:
        """Return the names of sizes in the declared shapes of the inputs. A size without a name is called ``input[dimension]``."""
        return {n for one in self.inputs for n in size_names_of(one) if isinstance(n, str)}

    def shapes(self, *args: Any, sizes: Mapping[str, int] | None = None, **kwargs: Any) -> list[ValueShape]:
        """Return dtype and shape of every value of the graph, without computing data.

        Parameters
        ----------
        *args, **kwargs
            Inputs, as for a call. Those that are not given are made on meta with the declared shapes.
        sizes : mapping of int, optional
            Sizes that the model names (`size_names`). Shapes are expressions of the remaining names, such as
            ``4*seq``, found by evaluating at several sizes.

        Returns
        -------
        list of ValueShape
            The inputs and the outputs of each node, in order. Where a shape is not known, `ValueShape.reason` says why.
        """
        given = {one.name: value for one, value in zip(self.inputs, args, strict=False)} | kwargs
        others = [one for one in self.inputs if one.name not in given]
        sizes = dict(sizes or {})

        def run(more: Mapping[str, int]) -> list[ValueShape]:
            inputs = {**given, **self._empty(others, {**sizes, **more})}
            values = self._values(self._bound((), inputs), mt.device("meta"))
            return infer(self._builder, self._graph, self._all_inputs, values, self._limit)

        left = sorted({n for one in others for n in size_names_of(one) if isinstance(n, str)} - set(sizes))
        if not left:
            return run({})
        if len(left) > MOST_NAMES:
            raise ValueError(printable(f"{self._file}: {len(left)} sizes vary; give sizes for some of {', '.join(map(repr, left))}"))
        return named(run, left)

    # Contents ---------------------------------------------------------------------------------------------

    def _initializer(self, message: Any, name: str) -> Any:
        """Return the value of an initializer. Parameters and buffers are registered under its name."""
        if message.data_type == STRING:
            return Texts(texts_from(message), tuple(message.dims))
        shape = shape_of(message, self._file)
        dtype = held_dtype(message.data_type)
        if dtype.is_floating_point or dtype.is_complex or dtype.itemsize == 1 and dtype is not mt.bool or prod(shape) > LIMIT:
            if name in self._held and name == message.name:
                raise CheckpointError(self._file, f"the initializer {shown(name)} occurs twice")
            own = name
            while name in self._held:  # in a graph of a node whose name another node has as well
                self._again[own] = self._again.get(own, 0) + 1
                name = f"{own}_{self._again[own]}"
            made = tensor_from(message, self._path, self._given)
            self._held[name] = message
            return _Initializer(self, message, *_register(self, name, made))
        return self._constant(message)

    def _constant(self, message: Any) -> Any:
        """Return the value of an attribute or of a small initializer."""
        if hasattr(message, "values"):
            return Known(self._dense(message))
        if message.data_type == STRING:
            return Texts(texts_from(message), tuple(message.dims))
        shape_of(message, self._file)
        with beside_the_run():
            made = tensor_from(message, self._path)
            return Known(made, folds=prod(message.dims) <= LIMIT)

    def _dense(self, message: Any) -> Tensor:
        """Return the dense tensor of a sparse one."""
        dims = list(message.dims)
        if len(dims) > 64 or any(not 0 <= n < 1 << 40 for n in dims):
            raise CheckpointError(self._file, f"a sparse constant of shape {shown(dims)} is not possible")
        self._budget.charge(self._file, 8 * prod(dims), "its sparse constants are large")
        with beside_the_run():
            values, indices = tensor_from(message.values, self._path), tensor_from(message.indices, self._path)
            if not isinstance(values, Tensor) or not isinstance(indices, Tensor) or indices.ndim not in (1, 2):
                raise CheckpointError(self._file, "a sparse constant is not a tensor of numbers with indices")
            where = indices.to(mt.int64)
            if where.ndim == 2:
                steps = [prod(dims[i + 1 :]) for i in range(len(dims))]
                where = (where * mt.tensor(steps, device="cpu")).sum(1)
            if where.numel() and not 0 <= int(where.min()) <= int(where.max()) < prod(dims):
                raise CheckpointError(self._file, "an index of a sparse constant is out of range")
            flat = mt.zeros(prod(dims), dtype=values.dtype, device="cpu")
            return flat.scatter(0, where, values).reshape(dims)

    def held_tensor(self, name: str, device: Any) -> Tensor:
        """Return the tensor of a parameter or buffer, with its data in the file."""
        found = tensor_from(self._held[name], self._path, device)
        return found.tensor if isinstance(found, Small) else found


class _Initializer(Known):
    """The value of a parameter or buffer of the module."""

    __slots__ = ("_home", "_kind", "_key", "_message", "_model")

    def __init__(self, model: OnnxModel, message: Any, home: dict[str, Any], key: str) -> None:  # not super().__init__: host is lazy
        self._model, self._message, self._home, self._key = model, message, home, key
        self._kind = message.data_type
        self.folds = False
        self._lifted = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Initializer:
        return _Initializer(copy.deepcopy(self._model, memo), self._message, copy.deepcopy(self._home, memo), self._key)

    @property
    def host(self) -> Any:  # type: ignore[override]
        """The tensor with its values, on any device. It is read from the file if the module is on meta."""
        own = self._home[self._key]
        if own.is_meta:
            if prod(self._message.dims) > LIMIT:
                return self._wrapped(own)
            return tensor_from(self._message, self._model._path)
        return self._wrapped(own.detach())

    def on(self, device: mt.device) -> Tensor | Small:
        own = self._home[self._key]
        if own.device == device:
            return self._wrapped(own)
        found = self._lifted.get(str(device))
        if found is None:
            with beside_the_run():
                found = own.detach().to(device)
            if device.type == "meta":
                self._lifted[str(device)] = found
        return self._wrapped(found)

    def _wrapped(self, tensor: Tensor) -> Any:
        return Small(tensor, self._kind) if self._kind in SMALL else tensor


def _register(module: Any, name: str, made: Tensor | Small) -> tuple[dict[str, Any], str]:
    """Put a tensor into a module, or into the submodule given by the dots in its name. Return the dict and the key."""
    tensor = made.tensor if isinstance(made, Small) else made
    *path, key = name.split(".")
    for part in path[:MAX_PARTS]:
        module = module._modules.setdefault(part, Module())
    key = ".".join([*path[MAX_PARTS:], key])
    if isinstance(made, Tensor) and (tensor.is_floating_point() or tensor.is_complex()):
        module._parameters[key] = Parameter(tensor, requires_grad=False)
        return module._parameters, key
    module._buffers[key] = tensor
    return module._buffers, key


def _signature(inputs: list[Declared]) -> inspect.Signature:
    """Return a signature with a parameter for each input."""
    names: list[str] = []
    for one in inputs:
        name = re.sub(r"\W", "_", one.name)
        name = name if name.isidentifier() and not iskeyword(name) else f"x_{name}"
        while name in names:
            name += "_"
        names.append(name)
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])


MAX_PARTS = 16
"""Largest depth of submodules that dots in names may create."""


def _check(one: Declared, value: Any, file: str) -> None:
    """Raise if an input does not fit what the model declares."""
    if value is None and one.form == "optional":
        return
    if isinstance(value, list):
        if one.form == "tensor":
            raise TypeError(printable(f"{file}: the input {one} must be a tensor, got a list"))
        for item in value:
            _check(one._replace(form="item", shape=None), item, file)
        return
    if not isinstance(value, Tensor):
        raise TypeError(printable(f"{file}: the input {one} must be a Tensor, got {type(value).__name__}"))
    if one.kind == STRING or one.kind and value.dtype is not held_dtype(one.kind):
        raise ValueError(printable(f"{file}: the input {one} must be of type {type_name(one.kind)}, got {value.dtype}"))
    if one.shape is not None:
        fits = len(one.shape) == value.ndim and all(not isinstance(n, int) or n == m for n, m in zip(one.shape, value.shape, strict=True))
        if not fits:
            raise ValueError(printable(f"{file}: the input {one} got a tensor of shape {list(value.shape)}"))


def _entered(value: Any, one: Declared, device: mt.device) -> Any:
    """Return the value of an input in the graph."""
    if isinstance(value, list):
        return [_entered(item, one, device) for item in value]
    if not isinstance(value, Tensor):
        return value
    entered = Small(value, one.kind) if one.kind in SMALL else value
    if device.type == "meta" and not value.is_meta:
        if value.numel() > LIMIT:
            value = value.to("meta")
            return Small(value, one.kind) if one.kind in SMALL else value
        if one.kind not in SMALL:
            value.tolist()  # so that a capture notes that the values are fixed
        return Known(entered)
    return entered


def _plain(value: Any, device: mt.device) -> Any:
    """Return the result that a user gets for a value of the graph."""
    if isinstance(value, Known):
        value = value.on(device)
    if isinstance(value, Small):
        return value.tensor
    if isinstance(value, list):
        return [_plain(item, device) for item in value]
    if isinstance(value, Texts):
        return value.texts
    return value


def from_onnx(
    model: Any, *inputs: Tensor, sizes: Mapping[str, int] | None = None, device: Any = None, limit: int = STEPS, exported: bool = True,
) -> Program:  # fmt: skip
    """Return an ONNX model as a `Program`: a list of operator calls for inputs of given shapes.

    Branches and loops are fixed as in this run, and what depends only on constants and sizes is precomputed.
    `OnnxModel` runs models for any inputs. A model that `to_onnx` wrote gives the program that was exported, with the same operators,
    writes, names and arguments, if an export of that program still gives this graph.

    Parameters
    ----------
    model : path, binary file or onnx.ModelProto
        The model.
    *inputs : Tensor
        Inputs. If there are none, the shapes that the model declares are used, on meta. Inputs with data are needed if shapes,
        branches or loops depend on values.
    sizes : mapping of int, optional
        The sizes that the model names, such as ``{"batch": 4}``.
    device : str or device, optional
        Where to put parameters and constants. On meta, no data is read. Default: that of the inputs, or else the cpu.
    limit : int
        Largest number of nodes that may be computed, those of loops counted each time.
    exported : bool
        Whether to return the program that was exported, where that is possible. If False, the nodes are always traced. Default True.

    Raises
    ------
    ValueError
        If a size is not known, or the model does not fit the inputs.
    DataDependentError
        If a shape or a branch depends on values and no inputs with data are given.
    ImportError, CheckpointError, NotImplementedError
        As for `OnnxModel`.
    """
    if inputs:
        places = {one.device for one in inputs if isinstance(one, Tensor)}
        if len(places) != 1:
            raise ValueError(f"from_onnx: the inputs must be tensors on one device, got {', '.join(sorted(map(str, places))) or 'none'}")
        (where,) = places
        device = where if device is None else mt.device(device)
    else:
        device, where = mt.device("cpu" if device is None else device), mt.device("meta")
    read = read_model(model)
    if exported:
        held = {one.name: partial(tensor_from, one, read.file) for one in read.proto.graph.initializer}
        program = original(read.proto, held, inputs, sizes, device)
        if program is not None:
            return program
    net = OnnxModel(read, device=where, limit=limit)
    given = inputs or tuple(net.empty_inputs(sizes).values())
    with lifts() as log:
        try:
            program = trace(net, *given)
        except DataDependentError as error:
            if error.args and not inputs:
                raise type(error)(f"{error}; give inputs with data") from None
            raise
    tensors = dict(program.tensors)
    if where.type == "meta" and device.type != "meta":
        values = {id(lifted): host for lifted, host in log}
        for name, tensor in tensors.items():
            if name in net._held:
                made = net.held_tensor(name, device)
                tensors[name] = Parameter(made, requires_grad=False) if isinstance(tensor, Parameter) else made
            elif id(tensor) in values:
                tensors[name] = values[id(tensor)].to(device)
    program = program.replace(name=net.graph_name, tensors=tensors)
    return program.to(device) if where.type != "meta" and device != where else program


