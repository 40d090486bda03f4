"""Keep the exported program in the model's metadata, so that importing an exported model gives the same program.

ONNX has no in-place calls, strides, modules or structured arguments, and other operators. The entry ``metatensor.program``
of the metadata of a model is therefore a program file without tensors, in base64. The importer runs this program on meta and
exports it again. Only if the run makes the calls that it lists, and the export gives the nodes, constants, inputs and
outputs that the model has, it is the program of this model; a model that was changed afterwards is read node by node.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.capture import Capture, ProgramCall, Value
from metatensor._core.constants import keep_constants
from metatensor._core.memory import MemoryLog
from metatensor._core.tensor import Tensor
from metatensor.checkpoint import CheckpointError
from metatensor.program.comparing import alike
from metatensor.program.passes import dead_code
from metatensor.program.passes.rewriting import Rewriter
from metatensor.program.program import Program
from metatensor.program.saving import end_of, load_with
from metatensor.program.sizes.program import SizedProgram
from metatensor.program.sizes.refitting import points_of
from metatensor.program.structure import leaves, mapped

__all__ = ["KEY", "original", "record"]

KEY = "metatensor.program"
_POINTS = 3
"""Sizes at which each piece of a program with named sizes is run."""
MOST_STEPS = 10_000
"""Most steps of a recurrent layer in a program that is exported again."""
_MAKE_CONSTANTS = ("arange", "range", "linspace", "tril_indices", "triu_indices", "eye", "as_strided", "diagonal", "unfold", "fold",
                   "interpolate", "upsample", "affine_grid", "adaptive_", "avg_pool")  # fmt: skip
"""Operators, by the beginning of their names, for which the exporter computes constants as large as their results."""
_MORE_ELEMENTS = 1 << 22
"""Constants that the exporter makes may have as many elements as the file has bytes, and these."""


def record(program: Program, initializers: Collection[str], ignore_writes: bool) -> str | None:
    """Return the entry of the metadata for a program, or None if it has no file or some of its tensors are not in the model."""
    if isinstance(program, SizedProgram):
        if ignore_writes and any(_writes(part) for part in program.parts):
            return None
    else:
        if ignore_writes and _writes(program):
            program = _without_writes(program)
        if any(name not in initializers for name in program.held):
            program = dead_code(program)
        used = {v.storage for call in program.calls for v in leaves(Value, (call.args, call.kwargs))} | {v.storage for v in program.outputs}
        held = {name: value for name, value in program.held.items() if name in initializers or value.storage in used}
        kinds, tensors = ({name: of[name] for name in held if name in of} for of in (program.kinds, program.tensors))
        tied = {name: own for name, own in program.tied.items() if own in held}
        program = program.replace(held=held, kinds=kinds, tensors=tensors, tied=tied)
    if any(name not in initializers for name in program.held):
        return None
    file = io.BytesIO()
    try:
        program.save(file, parameters=False)
    except TypeError:  # an argument of a class for which files have no form
        return None
    return base64.b64encode(file.getvalue()).decode()


def _writes(program: Program) -> bool:
    """Return whether a program changes tensors that existed before the run."""
    outer = {value.storage for value in [*program.inputs, *program.held.values()]}
    return bool(program.effects) or any(v.storage in outer for call in program.calls for v in call.writes)


def _without_writes(program: Program) -> Program:
    """Return the program without these writes, which the model lacks too."""
    from metatensor.program.onnx.exporting.lowering import prepared

    plain = prepared(program, ignore_writes=True)
    outer = {value.storage for value in [*plain.inputs, *plain.held.values()]}
    made = Rewriter(plain)
    for i, call in enumerate(plain.calls):
        made.at(i)
        if not any(v.storage in outer for v in call.writes):
            made.keep(call)
    return dead_code(made.finish())


def original(
    proto: Any, data: Mapping[str, Any], inputs: Sequence[Tensor], sizes: Mapping[str, int] | None, device: Any
) -> Program | None:
    """Return the program of which a model was made, or None if it was not made of one, was changed, or has other inputs.

    Parameters
    ----------
    proto : onnx.ModelProto
        The model.
    data : mapping of callable
        For each initializer a function that returns its tensor on a device.
    inputs : sequence of Tensor
        The inputs for which a program is wanted. If there are none, it may be for any inputs.
    sizes : mapping of int, optional
        Sizes that the model names.
    device : device
        Where to put parameters, buffers and constants.
    """
    text = next((entry.value for entry in proto.metadata_props if entry.key == KEY), None)
    if text is None:
        return None
    try:
        file = io.BytesIO(base64.b64decode(text, validate=True))
        program = load_with(file, KEY, {}, "meta")
        if not _gives(program, proto):
            return None
        if isinstance(program, SizedProgram) and sizes:
            program = program.at(**sizes)
        elif sizes or inputs and not _fit(program, inputs):
            return None
    except MemoryError:
        raise
    except Exception:  # whatever a damaged entry leads to: the model itself says what it computes
        return None
    tensors = {name: data[name](device) for part in program.parts for name in part.held}
    if isinstance(program, SizedProgram) or not sizes:
        file.seek(0)
        program = load_with(file, KEY, tensors, device)
        return program if all(_kept(program.tensors[name], tensor) for name, tensor in tensors.items()) else None
    return program.bind(tensors)


def _kept(own: Tensor, tensor: Tensor) -> bool:
    """Return whether a tensor still has its data in the layout that a program gives it; several may share memory."""
    alone = own.is_contiguous() and own.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()
    return own.is_meta or alone or mt.equal(own, tensor)


def _fit(program: Program, inputs: Sequence[Tensor]) -> bool:
    wanted = program.inputs
    return not isinstance(program, SizedProgram) and len(wanted) == len(inputs) and all(
        tuple(t.shape) == v.shape and t.dtype is v.dtype for t, v in zip(inputs, wanted)
    )


def _gives(program: Program, proto: Any) -> bool:
    """Return whether a program has exactly this model."""
    from metatensor.program.onnx.exporting.model import build

    if not all(_runs_as_it_says(one) for one in _at_some_sizes(program)):
        return False
    opset = next(one.version for one in proto.opset_import if not one.domain)
    room = proto.ByteSize() + _MORE_ELEMENTS
    names = [one.name for one in proto.graph.input]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = build(program, opset=opset, input_names=names, output_names=[one.name for one in proto.graph.output], metadata=False,
                     functions=bool(proto.functions), data=False, check=lambda call: _affordable(call, room)).model  # fmt: skip
    held = {name for part in program.parts for name in part.held}
    return _content(made, held) == _content(proto, held)


def _at_some_sizes(program: Program) -> Iterator[Program]:
    """Yield a program, or if it has named sizes, the programs at some sizes of each piece."""
    if not isinstance(program, SizedProgram):
        yield program
        return
    for i in range(len(program.pieces)):
        for sizes, _ in zip(points_of(program, i), range(_POINTS)):
            yield program.at(**sizes)


def _runs_as_it_says(program: Program) -> bool:
    """Return whether a run on meta makes the calls and values that a program lists. An export takes them from the list."""
    with keep_constants(), MemoryLog(plain=True), mt.enable_grad():
        bases: dict[int, Tensor] = {}
        for value in program.inputs:
            need = max(end_of(one) for one in program.inputs if one.storage == value.storage)
            if value.storage not in bases:
                bases[value.storage] = mt.empty(-(-need // 16) * 16, dtype=mt.uint8, device="meta")
        inputs = {v.number: bases[v.storage].view(v.dtype).as_strided(v.shape, v.stride, v.offset) for v in program.inputs}
        rest = [call for call in program.calls if call.op.name != "as_strided" or call.result.number not in inputs]
        args, kwargs = mapped(lambda v: inputs[v.number], Value, program.arguments)
        capture = Capture()
        with capture:
            given = mapped(capture.input, Tensor, (args, kwargs))  # with the calls that make an input a view of another
            held = {name: capture.value(program.tensors[name]) for name in program.held}
            result = program.replace(calls=rest)(*args, **kwargs)
        output = mapped(capture.value, Tensor, result)
    again = program.replace(arguments=given, output=output, calls=capture.calls, held=held)
    return alike(program, again, anywhere=True)


def _affordable(call: ProgramCall, room: int) -> None:
    """Raise if sizes in a file, which can be arbitrary, would make the export of a call compute large constants or take long."""
    values = list(leaves(Value, (call.args, call.kwargs, call.result)))
    kind = call.op.name.rpartition(".")[2].rstrip("_")
    most = room if kind.startswith(_MAKE_CONSTANTS) or kind.endswith("_scatter") else 64 * room if "norm" in kind else None
    if most is not None and any(prod(v.shape) > most for v in values):
        raise CheckpointError(KEY, f"{call.op.name} has constants larger than the model")
    if kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") and any(n > MOST_STEPS for v in values for n in v.shape[:2]):
        raise CheckpointError(KEY, f"{call.op.name} has too many steps")


def _content(proto: Any, held: Collection[str]) -> list[bytes]:
    """Return what a model computes, without what only describes it."""
    graph = proto.graph
    found = [b"%s %d" % (one.domain.encode(), one.version) for one in sorted(proto.opset_import, key=lambda one: one.domain)]
    for node in [*graph.node, *(node for one in proto.functions for node in one.node)]:
        found.append(_plain(node, "name", "doc_string", "metadata_props"))
    for function in proto.functions:
        found.append(_plain(function, "node", "doc_string", "metadata_props", "value_info"))
    for tensor in sorted(graph.initializer, key=lambda one: one.name):
        of_file = ("raw_data", "external_data", "data_location") if tensor.name in held else ()
        found.append(_plain(tensor, "doc_string", *of_file))
    for value in [*graph.input, *graph.output]:
        found.append(_plain(value, "doc_string", "metadata_props"))
    return found


def _plain(message: Any, *without: str) -> bytes:
    copy = type(message)()
    copy.CopyFrom(message)
    for field in without:
        if field in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(field)
    return bytes(copy.SerializeToString(deterministic=True))
