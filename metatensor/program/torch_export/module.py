"""`ExportedModule`: a module that runs the graph of an exported program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import metatensor as mt
from metatensor._core.nested import tensors_in
from metatensor._core.tensor import Tensor
from metatensor.program.aten.placing import common_device, default_device, same_grad_mode
from metatensor.program.torch_export.graph import Graph
from metatensor.program.torch_export.sizes import evaluated
from metatensor.program.torch_export.structure import Structure

__all__ = ["Argument", "ExportedModule", "Result"]


class Argument(NamedTuple):
    """One value that a graph takes."""

    kind: str
    """"parameter", "buffer", "constant", "user" or "token"."""
    name: str
    """Name of the value in the graph, or of a tensor in the module."""
    sizes: tuple[int | str, ...] | None = None
    """Sizes of a tensor that the user gives: numbers, and expressions of names."""
    dtype: Any = None
    """Its dtype."""
    value: Any = None
    """The required value if it is not a tensor. ``...`` allows any value."""


class Result(NamedTuple):
    """The purpose of one value that a graph returns."""

    kind: str
    """"user" for a result of the call, "token", or "buffer", "parameter" or "argument" for a tensor that the value is written to."""
    name: str = ""
    """Name of the tensor of the module, or of the argument, that gets the value."""


class _Part(mt.nn.Module):
    """A submodule, which holds parameters and buffers."""


class ExportedModule(mt.nn.Module):
    """A module that runs the graph of a ``.pt2`` file. Created by `load`.

    Its parameters and buffers have the names that they had before the export. It runs for all sizes that the file allows. A device
    named in the graph is replaced by the common device of the module and its arguments, if there is one.
    """

    mismatch: ClassVar[type[Exception]] = ValueError
    """The error for arguments of other sizes, dtypes or values."""

    def __init__(
        self, graph: Graph, arguments: list[Argument], results: list[Result], structures: tuple[Structure, Structure],
        ranges: dict[str, tuple[int | None, int | None]],
    ) -> None:  # fmt: skip
        super().__init__()
        for name, value in (("_graph", graph), ("_arguments", arguments), ("_results", results), ("_structures", structures)):
            self.__dict__[name] = value
        self.__dict__["_constants"] = {}
        self.__dict__["range_constraints"] = ranges
        self.training = False

    def _part(self, path: str) -> mt.nn.Module:
        module: Any = self
        for part in path.split(".") if path else ():
            if part not in module._modules:
                module.add_module(part, _Part())
            module = module._modules[part]
        return module  # type: ignore[no-any-return]

    def _place(self, name: str) -> tuple[dict[str, Any], str]:
        above, _, last = name.rpartition(".")
        module = self.get_submodule(above)
        return (module._parameters if last in module._parameters else module._buffers), last

    @property
    def operators(self) -> dict[str, bool]:
        """The functions that the graph calls by name, with whether metatensor has them."""
        return self._graph.targets()

    @property
    def missing_operators(self) -> list[str]:
        """The functions that the graph calls but metatensor does not have. If there are any, a call raises NotImplementedError."""
        return [name for name, known in self.operators.items() if not known]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph.

        Raises
        ------
        TypeError
            If the structure of the arguments differs from that of the export.
        ValueError
            If the program was not exported for the sizes or dtype of a tensor, or for the value of another argument.
        NotImplementedError
            If the graph calls operators that metatensor does not have.
        """
        missing = self.missing_operators
        if missing:
            raise NotImplementedError(f"metatensor does not have all operators of the exported program: {', '.join(missing)[:2000]}")
        leaves = self._structures[0].flat((args, kwargs), "the arguments")
        given = self._checked(leaves)
        device = common_device([*self.parameters(), *self.buffers(), *tensors_in(leaves)])
        values = []
        for one in self._arguments:
            if one.kind == "user":
                values.append(given.pop(0))
            elif one.kind == "constant":
                values.append(self._constant(one.name, device))
            elif one.kind == "token":
                values.append(None)
            else:
                place, last = self._place(one.name)
                values.append(place[last])
        with default_device(device), same_grad_mode():
            found = self._graph.run(values, device)
        results = []
        for result, value in zip(self._results, found):
            if result.kind == "user":
                results.append(value)
            elif result.kind in ("buffer", "parameter"):
                place, last = self._place(result.name)
                with mt.no_grad():
                    place[last].copy_(value)
            elif result.kind == "argument":
                names = [one.name for one in self._arguments if one.kind == "user"]
                with mt.no_grad():
                    leaves[names.index(result.name)].copy_(value)
        return self._structures[1].nested(results)

    def _constant(self, name: str, device: Any) -> Any:
        value = self._constants[name]
        number_on_meta = device is not None and device.type == "meta" and value.dim() == 0  # it keeps its value
        if device is not None and value.device != device and not number_on_meta:
            value = self._constants[name] = value.to(device)
        return value

    def _checked(self, leaves: list[Any]) -> list[Any]:
        """Return the arguments. Raise if the program was not exported for them."""
        wanted = [one for one in self._arguments if one.kind == "user"]
        if len(leaves) != len(wanted):
            raise TypeError(f"the arguments must have {len(wanted)} values, got {len(leaves)}")
        names: dict[str, int] = {}
        later = []
        for one, value in zip(wanted, leaves):
            if one.sizes is None:
                if isinstance(value, Tensor) or one.value is not ... and not _same(one.value, value):
                    raise self.mismatch(f"argument {one.name!r} was {one.value!r} in the export, but is {value!r:.80} now")
                continue
            if not isinstance(value, Tensor):
                raise TypeError(f"argument {one.name!r} must be a Tensor, got {type(value).__name__}")
            if value.dim() != len(one.sizes) or value.dtype is not one.dtype:
                sizes = ", ".join(map(str, one.sizes))
                raise self.mismatch(f"argument {one.name!r}: expected {one.dtype}[{sizes}], got {value.dtype}{list(value.shape)}")
            for dim, (size, found) in enumerate(zip(one.sizes, value.shape)):
                if isinstance(size, str) and size.isidentifier():
                    first = names.setdefault(size, found)
                    low, high = self.range_constraints.get(size, (None, None))
                    if first != found:
                        raise self.mismatch(f"argument {one.name!r}: size {dim} is {found}, but {size} is {first} elsewhere")
                    if low is not None and found < low or high is not None and found > high:
                        raise self.mismatch(f"argument {one.name!r}: size {dim} must be between {low} and {high}, and is {found}")
                else:
                    later.append((one.name, dim, size, found))
        for name, dim, size, found in later:
            value = size if isinstance(size, int) else evaluated(size, names)
            if value is not None and value != found:
                raise self.mismatch(f"argument {name!r}: size {dim} must be {size}, and is {found}")
        return list(leaves)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        with mt.no_grad():
            self._constants.update({name: fn(value) for name, value in self._constants.items()})
        return self

    def __deepcopy__(self, memo: Any) -> ExportedModule:
        made = type(self)(self._graph, self._arguments, self._results, self._structures, self.range_constraints)
        memo[id(self)] = made
        same: dict[int, Any] = {}

        def copied(t: Any) -> Any:
            if id(t) not in same:
                data = t.detach().clone()
                same[id(t)] = mt.nn.Parameter(data, t.requires_grad) if isinstance(t, mt.nn.Parameter) else data
            return same[id(t)]

        for path, module in self.named_modules():
            part = made._part(path)
            for name, value in module._parameters.items():
                part.register_parameter(name, None if value is None else copied(value))
            for name, buffer in module._buffers.items():
                persistent = name not in module._non_persistent_buffers_set
                part.register_buffer(name, None if buffer is None else copied(buffer), persistent=persistent)
        made._constants.update({name: copied(value) for name, value in self._constants.items()})
        return made


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)
