"""A `Program`: calls of operators on values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.capture import ProgramCall, Value
from metatensor._core.tensor import Tensor
from metatensor.program.structure import leaves

__all__ = ["Effect", "Program", "check"]


class Effect(NamedTuple):
    """What a run changes besides the bytes of tensors."""

    kind: str
    """``"grad"``: the gradient of a parameter is set; ``"replaced"``: a buffer or parameter is another tensor."""
    name: str
    value: Value


class Program:
    """A list of operator calls that can be run, printed, saved, compared and transformed. Created by `trace`.

    Attributes
    ----------
    name : str
        Name of the callable that was traced.
    arguments : tuple
        Positional arguments and the dict of keyword arguments, with a `Value` in place of each tensor.
    names : tuple of str
        Names of the first positional parameters of the callable. Calls may pass these arguments by name.
    output
        What a run returns, with a `Value` in place of each tensor.
    calls : tuple of ProgramCall
        The calls in order.
    held : dict of Value
        Parameters, buffers and constants by name.
    kinds : dict of str
        For each of them ``"parameter"``, ``"buffer"`` or ``"constant"``.
    tied : dict of str
        Further names of these tensors, each with its name in `held`.
    tensors : dict of Tensor
        The tensors of `held`. A run reads and changes them.
    effects : tuple of Effect
        What a run changes besides bytes of tensors.
    releases : dict of tuple of int
        The storages that are released after each call, by the index of the call.
    modules : list of str
        Paths of modules. ``call.module`` is an index.
    reads : list
        What read numbers from tensors: index of the next call, name of the operator or the function, value. Such numbers are fixed.
    default_dtype : dtype or None
        The default dtype of the trace, under which a run computes. None: that of the caller.
    """

    def __init__(
        self, name: str, *, arguments: tuple, output: Any, calls: Iterable[ProgramCall], held: dict[str, Value], kinds: dict[str, str],
        tied: dict[str, str] | None = None, tensors: Mapping[str, Tensor] | None = None, effects: Iterable[Effect] = (),
        releases: Mapping[int, tuple[int, ...]] | None = None, modules: list[str] | None = None, reads: Iterable[Any] = (),
        default_dtype: Any = None, names: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.name, self.arguments, self.output = name, arguments, output
        self.calls, self.held, self.kinds, self.tied = tuple(calls), dict(held), dict(kinds), dict(tied or {})
        self.tensors: dict[str, Tensor] = dict(tensors or {})
        self.effects, self.releases = tuple(effects), dict(releases or {})
        self.modules, self.reads, self.names = modules or [""], list(reads), tuple(names)
        self.default_dtype = default_dtype
        self._placed: dict[tuple[str, Any], tuple[Tensor, Tensor]] = {}
        self._plan: dict[int, list[int]] | None = None
        self._uncounted: frozenset[int] | None = None

    # Contents -------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Value]:
        """The tensors among the arguments, from left to right."""
        return list(leaves(Value, self.arguments))

    @property
    def outputs(self) -> list[Value]:
        """The tensors in the result, from left to right."""
        return list(leaves(Value, self.output))

    @property
    def parameters(self) -> dict[str, Value]:
        """The parameters by name."""
        return {name: value for name, value in self.held.items() if self.kinds[name] == "parameter"}

    @property
    def values(self) -> dict[int, Value]:
        """All values by number: arguments, parameters, buffers, constants and results."""
        found = [*self.inputs, *self.held.values(), *(v for call in self.calls for v in leaves(Value, call.result))]
        return {value.number: value for value in found}

    @property
    def parts(self) -> list[Program]:
        """The program itself. With named sizes, the programs for different ranges of sizes."""
        return [self]

    def operators(self) -> Counter[str]:
        """Return the number of calls of each operator."""
        return Counter(call.op.name for call in self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    # Running --------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program and return what the callable would return.

        Parameters
        ----------
        *args, **kwargs
            Arguments with the same structure as in the trace, and tensors of the same shapes and dtypes. Positional ones may be
            passed by `names`. They may be on another device: calls then create their tensors there.

        Raises
        ------
        TypeError
            If the structure of the arguments differs.
        ValueError
            If a tensor has another shape or dtype, or an argument other than a tensor has another value.
        RuntimeError
            If a parameter has no tensor.
        """
        from metatensor.program.running import run

        return run(self, args, kwargs)

    def bind(self, tensors: Mapping[str, Any]) -> Program:
        """Return the same program with other parameters, buffers and constants.

        Parameters
        ----------
        tensors : mapping of Tensor
            New tensors by name, such as a ``state_dict()``. Names that are not in it keep their tensors.

        Raises
        ------
        KeyError
            If there is no parameter, buffer or constant with a name.
        ValueError
            If a tensor has another shape or dtype.
        """
        made = self.replace()
        for name, tensor in tensors.items():
            own = self.tied.get(name, name)
            if own not in self.held:
                raise KeyError(f"{self.name}: there is no parameter, buffer or constant named {name!r}")
            check(self.held[own], tensor, name)
            made.tensors[own] = tensor
        return made

    def to(self, device: Any) -> Program:
        """Return the same program with its parameters, buffers and constants on another device.

        Those on meta whose values follow from constants get these values. The others become empty there.
        """
        from metatensor.program.running import with_values

        def moved(t: Tensor) -> Tensor:
            if not t.is_meta or mt.device(device).type == "meta":
                return t.to(device)
            known = with_values(t, device)
            if known is not None:
                return known
            made = mt.empty_like(t, device=device)
            return mt.nn.Parameter(made, requires_grad=t.requires_grad) if isinstance(t, mt.nn.Parameter) else made

        return self.replace(tensors={name: moved(t) for name, t in self.tensors.items()})

    def replace(self, **changes: Any) -> Program:
        """Return a copy with other attributes."""
        made = {name: getattr(self, name) for name in ("arguments", "output", "calls", "held", "kinds", "tied", "tensors", "effects",
                                                       "releases", "modules", "reads", "default_dtype", "names")}  # fmt: skip
        made.update(changes)
        return Program(made.pop("name", self.name), **made)

    def save(self, f: Any, *, parameters: bool = True) -> None:
        """Save the program to a file, which `metatensor.program.load` reads without the source of the model.

        The file is a zip archive: text for the calls, and the tensors in safetensors format. docs/programs.md describes it.

        Parameters
        ----------
        f : str, path or binary file
            Where to write. A path usually ends with ``.mtp``.
        parameters : bool
            Whether to save the data of parameters, buffers and constants that have some. The others are saved by name and
            layout. Default True.

        Raises
        ------
        TypeError
            If an argument of a call has no form in the file, such as an object of the user's.
        """
        from metatensor.program.saving import save

        save(self, f, parameters=parameters)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that draws the program: a graph of its calls, grouped by module, with shapes, memory and FLOPs.

        The page is one self-contained file. The program is run once on meta to obtain the figures.

        Parameters
        ----------
        path : str or path
            Where to write.
        """
        import_module("metatensor.analysis.graph").write(path, self)

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        page = escape(import_module("metatensor.analysis.graph").document(self))
        style = "width: 100%; height: 640px; border: 0"
        return f'<iframe title="{escape(self.name)}" sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'

    def to_onnx(
        self, f: Any, *, opset: int = 21, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
        parameters: bool = True,
        external_data: bool | None = None, metadata: bool = True, conversions: Mapping[str, Callable[..., Any]] | None = None,
        functions: bool = False, ignore_writes: bool = False,
    ) -> None:  # fmt: skip
        """Write the program as an ONNX model. Needs the ``onnx`` package.

        Operators without a counterpart in ONNX are decomposed, and writes become new values. Parameters, buffers and constants become
        initializers with their names, tied ones once. Sizes that have names in the program (docs/sizes.md) are dynamic dimensions with
        these names, and numbers that are expressions of them are computed in the model.

        Parameters
        ----------
        f : str, path or binary file
            Where to write.
        opset : int
            Version of the operator set, at least 18. Default 21.
        input_names, output_names : sequence of str, optional
            Names of the first inputs and outputs. Default: names from `code` for inputs; keys, fields or positions in the
            result for outputs.
        parameters : bool
            Whether parameters, buffers and constants are initializers, which need data. If False, they are inputs of the model, after the
            others; tensors on meta are enough. Default True.
        external_data : bool, optional
            Whether the data of tensors is in a file beside the model, ``PATH.data``. Default: if there is more than 2 GiB.
        metadata : bool
            Whether each node has the operator, the module and the source line that it comes from in ``metadata_props``
            (in ``doc_string`` before opset 21). Default True.
        conversions : mapping of callable, optional
            Conversions of further operators, such as custom ones, by name: functions ``(graph, arguments, result)`` that add nodes with
            ``graph.op(type, *inputs, domain=..., **attributes)`` and return what that returned.
        functions : bool
            Whether each call of a module becomes a function call in the model. Equal modules share a function. Default False.
        ignore_writes : bool
            Whether the model may omit writes to arguments, parameters and buffers. Its outputs are those of one run, and nothing
            is kept for the next one. Default False: such writes raise an error.

        Raises
        ------
        ExportError
            A ValueError. Raised if calls cannot be expressed in ONNX (it lists the operators and the lines that called them), if the
            program changes parameters, buffers or arguments, if a parameter has no data, or if no expression was found for a number.
        ImportError
            If the ``onnx`` package is missing.
        """
        from metatensor.program.onnx.exporting import export

        export(self, f, opset=opset, input_names=input_names, output_names=output_names, parameters=parameters,
               external_data=external_data, metadata=metadata, conversions=conversions, functions=functions,
               ignore_writes=ignore_writes)  # fmt: skip

    # Text -----------------------------------------------------------------------------------------------

    @property
    def code(self) -> str:
        """Python source of a function ``forward(tensors, ...)`` that is equivalent to the program. ``exec`` runs it.

        Its first argument is a dict of the parameters, buffers and constants by name, such as `tensors`. The others are the
        arguments that are tensors, from left to right.
        """
        from metatensor.program.printing import code

        return code(self)

    def __str__(self) -> str:
        from metatensor.program.printing import text

        return text(self)

    def __repr__(self) -> str:
        return f"Program({self.name!r}, inputs={len(self.inputs)}, held={len(self.held)}, calls={len(self.calls)})"


def check(value: Value, tensor: Any, name: str) -> None:
    """Raise if a tensor does not have the shape and the dtype of a value."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(tensor).__name__}")
    if tuple(tensor.shape) != value.shape or tensor.dtype is not value.dtype:
        raise ValueError(f"{name}: expected {value.dtype}{list(value.shape)}, got {tensor.dtype}{list(tensor.shape)}; "
                         "trace again for other shapes and dtypes")  # fmt: skip
