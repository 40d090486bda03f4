"""`export`: a module, or a program of it, as an ONNX model."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.capture import Value
from metatensor._core.tensor import Tensor
from metatensor.program import Program
from metatensor.program.onnx.dtypes import onnx_package
from metatensor.program.onnx.exporting import DEFAULT_OPSET, ExportError, model_of
from metatensor.program.onnx.exporting import export as write
from metatensor.program.restoring import restoring
from metatensor.program.sizes.expressions import Expression, ExpressionError, names_in, parse
from metatensor.program.sizes.pieces import SizesError
from metatensor.program.structure import leaves
from metatensor.torch_api.torch import onnx
from metatensor.torch_api.torch.export import Dim
from metatensor.torch_api.torch.export._dims import LARGEST, Dims, trace_dims, tried_ranges

__all__ = ["ONNXProgram", "export"]


class ONNXProgram:
    """An ONNX model made by `export`. A call with the arguments of the module runs it in onnxruntime.

    Parameters
    ----------
    program : Program
        The program that was converted.
    options : dict
        Arguments of `Program.to_onnx`.
    as_inputs : bool
        Whether initializers are also inputs with a default.

    Attributes
    ----------
    program : Program
        The program that was converted.
    """

    def __init__(self, program: Program, options: dict[str, Any], as_inputs: bool = False) -> None:
        self.program, self._options, self._as_inputs = program, options, as_inputs
        self._session: Any = None
        self.model_proto = self._model()

    def _model(self, **changes: Any) -> Any:
        model = model_of(self.program, **{**self._options, **changes})
        if self._as_inputs:
            from onnx import helper

            for initializer in model.graph.initializer:
                model.graph.input.append(helper.make_tensor_value_info(initializer.name, initializer.data_type, initializer.dims))
        return model

    def save(self, destination: Any, *, include_initializers: bool = True, keep_initializers_as_inputs: bool = False,
             external_data: bool | None = None) -> None:  # fmt: skip
        """Write the model to a path or a binary file.

        Parameters
        ----------
        destination : str, path or binary file
            Where to write.
        include_initializers : bool
            Whether parameters, buffers and constants are in the model. If False, they are inputs. Default True.
        keep_initializers_as_inputs : bool
            Whether initializers are also inputs with a default. Default False.
        external_data : bool, optional
            Whether the data of tensors is in a separate file beside the model. Default: True above 2 GiB.
        """
        if keep_initializers_as_inputs or self._as_inputs:
            if external_data:
                raise NotImplementedError("ONNXProgram.save: external data of initializers that are also inputs")
            data = ONNXProgram(self.program, self._options, True).model_proto.SerializeToString()
            if isinstance(destination, (str, os.PathLike)):
                with open(destination, "wb") as file:
                    file.write(data)
            else:
                destination.write(data)
            return
        options = dict(self._options)
        if not include_initializers:
            options["parameters"] = False
        write(self.program, destination, external_data=external_data, **options)

    def apply_weights(self, state_dict: Mapping[str, Any]) -> None:
        """Replace the parameters and buffers of the model."""
        self.program = self.program.bind(state_dict)
        self.model_proto, self._session = self._model(), None

    def optimize(self) -> None:
        """Do nothing: the model has no unused nodes, and runtimes fold constants."""

    def initialize_inference_session(self) -> None:
        """Create the session in which calls run. This needs the onnxruntime package."""
        import onnxruntime

        self._session = onnxruntime.InferenceSession(self.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])

    def release(self) -> None:
        """Release the session."""
        self._session = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Run the model in onnxruntime, and return the outputs."""
        if self._session is None:
            self.initialize_inference_session()
        tensors = list(leaves(Tensor, (args, kwargs)))
        values = list(leaves(Value, self.program.arguments))
        if len(tensors) != len(values):
            raise TypeError(f"ONNXProgram: expected {len(values)} tensors, got {len(tensors)}")
        given = {value.number: t for value, t in zip(values, tensors)}
        names = [value.name for value in self.model_proto.graph.input]
        feed = {name: t.detach().to("cpu").contiguous().numpy() for name, t in zip(names, given.values())}
        used = {value.name for value in self._session.get_inputs()}
        return tuple(mt.from_numpy(a) for a in self._session.run(None, {name: a for name, a in feed.items() if name in used}))

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        return f"ONNXProgram({graph.name!r}, inputs={len(graph.input)}, initializers={len(graph.initializer)}, nodes={len(graph.node)})"


def export(
    model: Any, args: tuple[Any, ...] = (), f: Any = None, *, kwargs: dict[str, Any] | None = None, verbose: bool | None = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None, opset_version: int | None = None,
    dynamo: bool = True, external_data: bool = True, dynamic_shapes: Any = None, custom_translation_table: Any = None,
    report: bool = False, optimize: bool = True, verify: bool = False, profile: bool = False, dump_exported_program: bool = False,
    artifacts_dir: Any = ".", export_params: bool = True, keep_initializers_as_inputs: bool = False, dynamic_axes: Any = None,
    training: Any = None, operator_export_type: Any = None, do_constant_folding: bool = True, custom_opsets: Any = None,
    export_modules_as_functions: Any = False, autograd_inlining: bool = True,
) -> ONNXProgram:  # fmt: skip
    """Export a module to ONNX. It runs once with the arguments, and at several sizes if some are dynamic.

    A model has no state: what a run leaves in buffers, parameters and arguments is not in the model, as in PyTorch.

    Parameters
    ----------
    model : Module, callable, ExportedProgram or Program
        What to export.
    args : tuple
        Positional arguments of the example.
    f : str, path or binary file, optional
        Where to write the model.
    kwargs : dict, optional
        Keyword arguments of the example.
    input_names, output_names : sequence of str, optional
        Names of the first inputs and outputs. Default: those of the arguments, and keys, fields or places in the result.
    opset_version : int, optional
        Version of the operator set, at least 18. Default 21.
    dynamo : bool
        If False, the module is in the mode that `training` says while it runs. Default True.
    external_data : bool
        Whether the data of tensors is in a file beside `f`, if `f` is a path. Default True.
    dynamic_shapes : dict or tuple, optional
        For arguments, by name or in order, the dimensions whose size varies: a dict by dimension, or a list, of names, `Dim`,
        ``Dim.DYNAMIC`` or ``Dim.AUTO``; None for a fixed size. Names may be expressions, such as ``2*n``.
    verify : bool
        Whether to run the model in onnxruntime, and compare. Default False.
    export_params : bool
        Whether parameters, buffers and constants are in the model. If False, they are inputs, and may be on meta. Default True.
    keep_initializers_as_inputs : bool
        Whether initializers are inputs with a default too. Default False.
    dynamic_axes : dict, optional
        For inputs, by name, the dimensions whose size varies: a dict of names, or a list. Outputs are accepted: their sizes follow.
    training : TrainingMode, optional
        The mode of the module, with ``dynamo=False``. Default: evaluation.
    verbose, report, optimize, profile, dump_exported_program, artifacts_dir, operator_export_type, do_constant_folding, custom_opsets, \
autograd_inlining
        Accepted, without effect.
    export_modules_as_functions : bool
        Whether each run of a module is a call of a function of the model. Classes of modules are not supported. Default False.
    custom_translation_table
        Not supported. Functions that `register_custom_op_symbolic` has registered are used; ``Program.to_onnx`` takes `conversions`.

    Returns
    -------
    ONNXProgram
        The model.

    Raises
    ------
    UnsupportedOperatorError
        If calls cannot be converted to ONNX. The message lists them with their source lines.
    """
    onnx_package()
    if custom_translation_table or not isinstance(export_modules_as_functions, bool):
        raise NotImplementedError("onnx.export: custom_translation_table (Program.to_onnx has conversions), and a choice of "
                                  "export_modules_as_functions by class")  # fmt: skip
    args = args if isinstance(args, tuple) else (args,)
    kwargs = dict(kwargs or {})
    traced, names = _traced(model, args, kwargs, dynamo, training)
    if input_names:
        names[: len(input_names)] = list(input_names)
    axes, ranges = _axes(model, args, kwargs, names, dynamic_axes, dynamic_shapes, output_names)
    options: dict[str, Any] = {"opset": opset_version or DEFAULT_OPSET, "input_names": names, "output_names": output_names,
                               "parameters": export_params, "conversions": _registered(),
                               "functions": export_modules_as_functions, "ignore_writes": True}  # fmt: skip
    try:
        if axes:
            traced = _varying(model, args, kwargs, names, axes, ranges, dynamo, training)
        made = ONNXProgram(traced, options, keep_initializers_as_inputs)
    except (ExportError, SizesError) as error:
        from metatensor.torch_api.torch.onnx.errors import UnsupportedOperatorError

        raise UnsupportedOperatorError(str(error)) from error
    if verify:
        _verify(made, args, kwargs)
    if f is not None:
        path = isinstance(f, (str, os.PathLike))
        made.save(f, external_data=external_data and path and not keep_initializers_as_inputs)
    return made


def _traced(model: Any, args: tuple, kwargs: dict[str, Any], dynamo: bool, training: Any) -> tuple[Program, list[str]]:
    """Return the program of a module, and the names of its inputs."""
    program = model if isinstance(model, Program) else getattr(model, "program", None)
    if isinstance(program, Program):
        args, kwargs = program.arguments
    else:
        with restoring(model if isinstance(model, mt.nn.Module) else None), onnx._exporting_now(), mt.no_grad(), \
                _mode(model, dynamo, training):  # fmt: skip
            program = mt.program.trace(model, *args, **kwargs)
        if isinstance(model, mt.nn.Module):  # buffers that the run has replaced are restored now
            program.tensors.update({name: t for name, t in model.named_buffers() if name in program.tensors})
        args, kwargs = program.arguments
    names: list[str] = []
    seen: set[int] = set()
    for name, argument in _arguments(model, args, kwargs):
        found = list(leaves(Value, argument))
        for i, value in enumerate(found):
            if value.number not in seen:
                seen.add(value.number)
                names.append(_free(name if len(found) == 1 else f"{name}_{i}", {*names, *program.held}))
    return program, names


def _free(wish: str, taken: set[str]) -> str:
    name, n = wish, 1
    while name in taken:
        name, n = f"{wish}_{n}", n + 1
    return name


def _arguments(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments with the names that the callable has for them."""
    names: list[str] = []
    try:
        for parameter in inspect.signature(getattr(model, "forward", model)).parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names.append(parameter.name)
    except (TypeError, ValueError):
        pass
    for i, argument in enumerate(args):
        yield names[i] if i < len(names) else f"input_{i}", argument
    yield from kwargs.items()


class _mode:
    """The mode of a module while it runs, as PyTorch's older exporter sets it."""

    def __init__(self, model: Any, dynamo: bool, training: Any) -> None:
        chosen = onnx.TrainingMode.EVAL if training is None else training
        self.to = None if dynamo or chosen == onnx.TrainingMode.PRESERVE else chosen == onnx.TrainingMode.TRAINING
        self.modules = list(model.modules()) if isinstance(model, mt.nn.Module) else []

    def __enter__(self) -> None:
        self.before = [module.training for module in self.modules]
        if self.to is not None:
            for module in self.modules:
                module.training = self.to

    def __exit__(self, *error: Any) -> None:
        for module, training in zip(self.modules, self.before):
            module.training = training


# Sizes that vary ------------------------------------------------------------------------------------------


def _axes(
    model: Any, args: tuple, kwargs: dict[str, Any], names: list[str], axes: Any, shapes: Any, outputs: Any
) -> tuple[dict[str, dict[int, str]], Ranges]:
    """Return for inputs, by name, the names of dimensions, and the ranges of names that have one."""
    found: dict[str, dict[int, str]] = {}
    ranges = Ranges()
    for name, wanted in (axes or {}).items():
        if name in names:
            if not isinstance(wanted, Mapping):
                wanted = {axis: f"{name}_dynamic_axes_{i + 1}" for i, axis in enumerate(wanted)}
            found[name] = {int(axis): str(size) for axis, size in wanted.items()}
        elif name not in (outputs or ()):
            raise ValueError(f"onnx.export: dynamic_axes names {name!r}, which is no input or output; the inputs are {names}")
    for sizes in found.values():
        for axis, text in sizes.items():
            sizes[axis] = _identifier(text)
    if shapes is None:
        return found, ranges
    given = list(_arguments(model, args, kwargs))
    specs = [shapes.get(name) for name, _ in given] if isinstance(shapes, Mapping) else list(shapes) + [None] * (len(given) - len(shapes))
    unknown = {name for name, spec in shapes.items() if spec} - {name for name, _ in given} if isinstance(shapes, Mapping) else ()
    if unknown:
        raise ValueError(f"onnx.export: dynamic_shapes names {sorted(unknown)}, which are no arguments of the example")
    seen: list[int] = []
    for (_, argument), spec in zip(given, specs):
        for t, dims in _pairs(argument, spec):
            if id(t) in seen:
                continue
            seen.append(id(t))
            name = names[len(seen) - 1]
            rows = dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
            for axis, dim in rows:
                size = _dim_name(dim, name, axis, ranges)
                if size is not None:
                    found.setdefault(name, {})[int(axis)] = size
    return found, ranges


def _pairs(argument: Any, spec: Any) -> Iterator[tuple[Tensor, Any]]:
    """Yield the tensors of an argument, each with its specification of dimensions."""
    if isinstance(argument, Tensor):
        yield argument, spec
    elif isinstance(argument, Mapping):
        for key, item in argument.items():
            yield from _pairs(item, None if spec is None else spec.get(key))
    elif isinstance(argument, (list, tuple)):
        for i, item in enumerate(argument):
            yield from _pairs(item, None if spec is None else spec[i])
    else:
        for t in leaves(Tensor, argument):
            yield t, None


def _dim_name(dim: Any, name: str, axis: Any, ranges: Ranges) -> str | None:
    if dim is None or isinstance(dim, int) and not isinstance(dim, bool):
        return None
    if isinstance(dim, str):
        return _identifier(dim)
    kind = getattr(dim, "name", None)
    if kind == "STATIC":
        return None
    if kind in ("DYNAMIC", "AUTO"):
        made = f"{_identifier(name)}_dim_{axis}"
        ranges.hints.update([made] if kind == "AUTO" else [])
        return made
    if not isinstance(dim, Dim):
        raise NotImplementedError(f"onnx.export: dynamic_shapes has {dim!r}; there are names, Dim, Dim.AUTO, Dim.DYNAMIC and Dim.STATIC")
    root = dim._root
    ranges[root.__name__] = range(root.min, LARGEST if root.max is None else root.max + 1)
    return str(dim.__name__)


def _identifier(text: str) -> str:
    """Return a name that expressions may have: another one for a text that is no expression."""
    try:
        if isinstance(parse(text), Expression):
            return text
    except ExpressionError:
        pass
    made = re.sub(r"\W", "_", text)
    return made if made[:1].isalpha() else f"dim_{made}"


class Ranges(dict[str, range]):
    """The ranges of named sizes, and the names of those that may be fixed."""

    def __init__(self) -> None:
        super().__init__()
        self.hints: set[str] = set()


def _varying(model: Any, args: tuple, kwargs: dict[str, Any], names: list[str], axes: dict[str, dict[int, str]], ranges: Ranges,
             dynamo: bool, training: Any) -> Program:  # fmt: skip
    """Return the program of a callable with names for the sizes that vary."""
    if isinstance(model, Program) or isinstance(getattr(model, "program", None), Program):
        raise NotImplementedError("onnx.export: dynamic sizes of a program that was traced before; pass the module, or trace with sizes")
    places = {id(t): axes.get(name) for t, name in zip({id(t): t for t in leaves(Tensor, (args, kwargs))}.values(), names)}
    samples: dict[str, int] = {}

    def of(value: Any) -> Any:
        if isinstance(value, Tensor):
            for axis, text in (places.get(id(value)) or {}).items():
                if not -value.dim() <= axis < value.dim():
                    raise ValueError(f"onnx.export: an argument has {value.dim()} dimensions, and no dimension {axis}")
                for name in names_in(parse(text)):
                    samples[name] = max(samples.get(name, 1), value.shape[axis])
            return places.get(id(value))
        items = dict(value) if isinstance(value, Mapping) else dict(enumerate(value)) if isinstance(value, (list, tuple)) else {}
        return {key: spec for key, item in items.items() if (spec := of(item)) is not None} or None

    dims = {key: spec for key, value in (*enumerate(args), *kwargs.items()) if (spec := of(value)) is not None}
    whole = {name: ranges.get(name, range(1, LARGEST)) for name in samples}
    hints = {text for dims_of in axes.values() for text in dims_of.values() if text in ranges.hints}
    found = Dims(whole, dims, tried_ranges(whole, samples), [name for name in whole if name not in hints])
    with onnx._exporting_now(), mt.no_grad(), _mode(model, dynamo, training):
        program: Program = trace_dims(model, args, kwargs, found, caller="onnx.export")
    return program


# Operators of the user's own, and checks -------------------------------------------------------------------


class _SymbolicGraph:
    """The graph that functions of `register_custom_op_symbolic` get: ``g.op("domain::Type", *inputs, name_i=..., name_f=...)``."""

    def __init__(self, graph: Any, dtype: Any) -> None:
        self._graph, self._dtype = graph, dtype

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node. Attributes end in ``_i``, ``_f``, ``_s`` or ``_t``, as in PyTorch."""
        domain, _, name = kind.rpartition("::")
        named = {key.rpartition("_")[0] if key[-2:] in ("_i", "_f", "_s", "_t") else key: value for key, value in attributes.items()}
        if domain not in ("", "onnx"):
            named["domain"] = domain
        made = self._graph.ops(name, *inputs, dtypes=[self._dtype] * outputs, **named)
        return made[0] if outputs == 1 else made


def _registered() -> dict[str, Callable[..., Any]]:
    """Return conversions that call the registered symbolic functions."""
    def conversion(function: Callable[..., Any]) -> Callable[..., Any]:
        def convert(graph: Any, arguments: Any, result: Any) -> Any:
            given = [value for name, value in vars(arguments).items() if name != "overload"]
            return function(_SymbolicGraph(graph, next(leaves(Value, result)).dtype), *given)

        return convert

    return {name: conversion(function) for (name, _), function in onnx._symbolics.items()}


def _verify(made: ONNXProgram, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise if the outputs of onnxruntime differ from those of the program."""
    program = made.program.replace(tensors={name: t.detach().clone() for name, t in made.program.tensors.items()})
    with restoring(), mt.no_grad():
        wanted = list(leaves(Tensor, program(*args, **kwargs)))
    for i, (got, own) in enumerate(zip(made(*args, **kwargs), wanted)):
        if not mt.allclose(got.to(mt.float64), own.detach().to("cpu", mt.float64), rtol=1e-3, atol=1e-4):
            raise onnx.OnnxExporterError(f"onnx.export: output {i} differs between onnxruntime and the model")
