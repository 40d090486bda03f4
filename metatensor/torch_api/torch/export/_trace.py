"""Capture of modules as exported programs."""

from __future__ import annotations

import inspect
from typing import Any

import metatensor as mt
from metatensor._core.capture import Value
from metatensor.program import Program, trace
from metatensor.program.reads import dependent_reads, describe
from metatensor.program.restoring import restoring
from metatensor.torch_api.torch.compiler import compiling
from metatensor.torch_api.torch.export._dims import named_dims, trace_dims
from metatensor.torch_api.torch.export.exported_program import ExportedProgram, _opened
from metatensor.utils import _pytree as pytree

__all__ = ["export"]


def export(
    mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, dynamic_shapes: Any = None, strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (), prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """Run a module once, and return its calls of operators as an `ExportedProgram`.

    The module is run in its current mode, on its device. Its buffers, gradients and the random state are unchanged afterwards.

    Parameters
    ----------
    mod : Module
        The module.
    args, kwargs : tuple and dict
        Its arguments. Sizes, and values that are not tensors, are fixed.
    dynamic_shapes : dict, tuple or list, optional
        For each argument the sizes that vary: a dict or a sequence with a `Dim`, ``Dim.AUTO`` or ``Dim.DYNAMIC`` for each such
        dimension. The module then runs several times, at different sizes. Default: all sizes are fixed.
    strict, preserve_module_call_signature, prefer_deferred_runtime_asserts_over_guards
        Ignored.

    Raises
    ------
    ValueError
        If `mod` is not a module.
    RuntimeError
        If the module reads a number from a tensor that depends on its arguments, parameters or buffers, if a size that should
        vary is restricted to one value, or if numbers in the graph cannot be expressed in terms of the sizes.
    """
    if not isinstance(mod, mt.nn.Module):
        raise ValueError(f"torch.export.export: expected a torch.nn.Module, got {type(mod).__name__}")
    if not isinstance(args, tuple):
        raise RuntimeError(f"torch.export.export: the arguments must be a tuple, got {type(args).__name__}")
    kwargs = dict(kwargs or {})
    with restoring(mod), compiling("export"):
        found = named_dims(mod, args, kwargs, dynamic_shapes) if dynamic_shapes else None
        if found is None:
            program = trace(mod, *args, **kwargs)
        else:
            program = trace_dims(mod, args, kwargs, found, lambda one: _complete(one, mod))
    if found is None:
        program = _complete(program, mod)
    reads = dependent_reads(program)
    if reads:
        raise RuntimeError(
            f"torch.export.export: {program.name} reads a number that depends on its arguments or parameters, and a graph has no branches: "
            f"{describe(program, reads[0])}"
        )
    skipped = {f"{path}.{name}".lstrip(".") for path, module in mod.named_modules() for name in module._non_persistent_buffers_set}
    return ExportedProgram(program, _names(mod, program), skipped, (args, kwargs))


def _complete(program: Program, mod: Any) -> Program:
    """Return the program with all parameters and buffers, in the order of the module, and with the module's names of constants."""
    attributes = {id(value): f"{path}.{name}".lstrip(".") for path, module in mod.named_modules() for name, value in vars(module).items()
                  if isinstance(value, mt.Tensor)}  # fmt: skip
    constants: dict[str, str] = {}
    for name, kind in program.kinds.items():
        if kind == "constant":
            own = attributes.get(id(program.tensors[name]))
            constants[name] = own or f"lifted_tensor_{sum(1 for one in constants.values() if one.startswith('lifted_tensor_'))}"
    known = dict(program.held)
    held, kinds, tensors = {}, {}, {}
    number = 1 + max(program.values, default=-1)
    storage = 1 + max((value.storage for value in program.values.values()), default=-1)
    for kind, members in (("parameter", mod.named_parameters()), ("buffer", mod.named_buffers())):
        for name, tensor in members:
            own = program.tied.get(name, name)
            if own not in known:
                known[own] = Value(number, storage, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype,
                                   tensor.device, requires_grad=tensor.requires_grad)  # fmt: skip
                number, storage = number + 1, storage + 1
            held[own], kinds[own], tensors[own] = known[own], kind, tensor
    for name, new in constants.items():
        held[new], kinds[new], tensors[new] = program.held[name], "constant", program.tensors[name]
    return program.replace(held=held, kinds=kinds, tensors=tensors)


def _names(mod: Any, program: Program) -> list[str]:
    """Return a name for each argument, flattened: that of the parameter of ``forward``, with keys and indices."""
    args, kwargs = program.arguments
    places: list[tuple[str, Any]] = []
    try:
        parameters = list(inspect.signature(mod.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    rest = next((i for i, one in enumerate(parameters) if one.kind is one.VAR_POSITIONAL), len(args))
    for i, argument in enumerate(args):
        if i >= rest:
            places.append((f"{parameters[rest].name}_{i - rest}", argument))
        else:
            places.append((parameters[i].name if i < len(parameters) else f"x{i}", argument))
    found: list[str] = []
    for name, argument in [*places, *((str(key), a) for key, a in kwargs.items())]:
        flat = pytree.tree_leaves_with_path(_opened(argument))
        found += ["_".join([name, *map(_step, path)]) for path, _ in flat]
    return found


def _step(key: Any) -> str:
    """Return a key, an index or an attribute of a path as text."""
    return str(next((getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)), key))
