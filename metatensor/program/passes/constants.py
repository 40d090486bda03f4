"""Passes that precompute what does not depend on the arguments: `constant_folding` and `fuse_batch_norm`."""

from __future__ import annotations

from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Value
from metatensor._core.device import Device
from metatensor._core.op import operator_flags
from metatensor._core.tensor import Tensor
from metatensor.program.passes.cleaning import dead_code
from metatensor.program.passes.rewriting import Rewriter, random, used, written
from metatensor.program.program import Program
from metatensor.program.structure import leaves, mapped

__all__ = ["constant_folding", "fuse_batch_norm"]


def constant_folding(program: Program, *, limit: int = 1 << 20) -> Program:
    """Return the program with calls that depend only on constants replaced by their results.

    Calls stay if they draw random numbers, if their results are written to or returned, or if a constant among their arguments
    is on meta or requires grad. On meta nothing is folded. Parameters and buffers are not constants, because they can be
    bound to others.

    Parameters
    ----------
    program : Program
        A program.
    limit : int
        Maximum size in bytes of a result that is kept as a constant. Default 1 MiB.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(lambda x: x * mt.arange(3, device="cpu").exp(), mt.ones(3, device="cpu"))  # doctest: +SKIP
    >>> [call.op.name for call in mt.program.constant_folding(program).calls]  # doctest: +SKIP
    ['mul']
    """
    apart = written(program) | {value.storage for value in [*program.outputs, *(effect.value for effect in program.effects)]}
    shared = _shared(program)
    known: dict[int, Tensor] = {}
    for name, value in program.held.items():
        tensor = program.tensors.get(name)
        usable = program.kinds[name] == "constant" and tensor is not None and not tensor.is_meta and not tensor.requires_grad
        if usable and value.storage not in apart and value.storage not in shared:
            assert tensor is not None
            known[value.number] = tensor
    folded: list[int] = []
    for i, call in enumerate(program.calls):
        results = list(leaves(Value, call.result))
        if not _foldable(call, results, known, apart) or sum(_nbytes(value) for value in results) > limit:
            continue
        with mt.no_grad():
            args, kwargs = mapped(lambda value: known[value.number], Value, (call.args, call.kwargs))
            computed = call.op(*args, **kwargs)
        found = list(leaves(Tensor, computed))
        if len(found) == len(results) and all(_matches(t, value) for t, value in zip(found, results)):
            known.update({value.number: t for value, t in zip(results, found)})
            folded.append(i)
    if not folded:
        return program
    made, left = Rewriter(program), set(folded)
    needed = {value.number for i, call in enumerate(program.calls) if i not in left for value in used(call)}
    for i, call in enumerate(program.calls):
        made.at(i)
        if i not in left:
            made.keep(call)
            continue
        for value in leaves(Value, call.result):
            if value.number in needed:
                tensor = known[value.number]
                made.replace(value, made.hold("folded", tensor if _whole(tensor) else tensor.clone()))
    return _without_unused(made.finish())


def _shared(program: Program) -> set[int]:
    """Return the storages shared by several of the program's tensors."""
    seen: set[int] = set()
    twice: set[int] = set()
    for value in [*program.inputs, *program.held.values()]:
        (twice if value.storage in seen else seen).add(value.storage)
    return twice


def _foldable(call: ProgramCall, results: list[Value], known: dict[int, Tensor], apart: set[int]) -> bool:
    given = used(call)
    if not results or call.writes or random(call) or call.op.flags & operator_flags.RANDOM:
        return False
    if call.op.name.startswith(("empty", "new_empty")) or any(value.number not in known for value in given):
        return False
    places = {value.device.type for value in results} | {d.type for d in leaves(Device, (call.args, call.kwargs))}
    return "meta" not in places and not {value.storage for value in results} & apart


def _nbytes(value: Value) -> int:
    return prod(value.shape) * value.dtype.itemsize


def _matches(tensor: Tensor, value: Value) -> bool:
    return (tuple(tensor.shape) == value.shape and tensor.dtype is value.dtype and tensor.device == value.device
            and tuple(tensor.stride()) == value.stride and not tensor.is_conj() and not tensor.is_neg())  # fmt: skip


def _whole(tensor: Tensor) -> bool:
    """Return True if a tensor covers all of its storage."""
    return tensor.untyped_storage().nbytes() <= tensor.numel() * tensor.dtype.itemsize


def _without_unused(program: Program) -> Program:
    """Return a program without the constants that nothing uses any more."""
    needed = {value.number for call in program.calls for value in used(call)}
    needed |= {value.number for value in [*program.inputs, *program.outputs, *(effect.value for effect in program.effects)]}
    gone = {name for name, value in program.held.items() if program.kinds[name] == "constant" and value.number not in needed}
    return _dropped(program, gone)


def _dropped(program: Program, gone: set[str]) -> Program:
    def rest(found: dict[str, Any]) -> dict[str, Any]:
        return {name: item for name, item in found.items() if name not in gone}

    return program.replace(held=rest(program.held), kinds=rest(program.kinds), tensors=rest(program.tensors),
                           tied={name: own for name, own in program.tied.items() if own not in gone})  # fmt: skip


# Convolutions with batch norm ------------------------------------------------------------------------------

_CONVOLUTIONS = ("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d")


def fuse_batch_norm(program: Program) -> Program:
    """Return the program with batch norms in evaluation mode folded into the convolutions before them.

    The convolution gets a new weight and bias under the old names; parameters and buffers of the batch norm are removed. A
    batch norm is folded if nothing else uses the output of the convolution, and if nothing writes to these parameters and
    buffers. If the weight is also used elsewhere, the convolution gets its own copy. Results differ by rounding. Gradients
    reach only the new weights.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Conv2d(3, 8, 3), mt.nn.BatchNorm2d(8)).eval()
    >>> program = mt.program.trace(model, mt.empty(1, 3, 8, 8, device="meta"))
    >>> fused = mt.program.fuse_batch_norm(program)
    >>> len(program), len(fused), sorted(fused.held)
    (2, 1, ['0.bias', '0.weight'])
    """
    changed = written(program)
    names = {value.number: name for name, value in program.held.items() if value.storage not in changed and name in program.tensors}
    uses: dict[int, int] = {}
    for call in program.calls:
        for value in used(call):
            uses[value.storage] = uses.get(value.storage, 0) + 1
    for value in [*program.outputs, *(effect.value for effect in program.effects)]:
        uses[value.storage] = uses.get(value.storage, 0) + 2
    by_result = {call.result.number: i for i, call in enumerate(program.calls) if isinstance(call.result, Value)}
    pairs: dict[int, tuple[int, list[Any]]] = {}
    for i, call in enumerate(program.calls):
        norm = _norm_of(call, uses)
        first = by_result.get(norm[0].number) if norm is not None else None
        if norm is None or first is None or not _convolves(program.calls[first]) or uses[norm[0].storage] != 1:
            continue
        convolution = _convolution(program.calls[first])
        held = [*convolution[1:3], *norm[1:5]]
        if all(value is None or isinstance(value, Value) and value.number in names for value in held) and norm[1] is not None:
            pairs[first] = i, norm
    if not pairs:
        return program
    made = Rewriter(program)
    ends = {i: first for first, (i, _) in pairs.items()}
    tensors: dict[int, Tensor | None] = {number: program.tensors[name] for number, name in names.items()}
    for i, call in enumerate(program.calls):
        made.at(i)
        if i in pairs:
            (x, weight, bias, rest), norm = _convolution(call), pairs[i][1]
            new_weight, new_bias = _folded([None if v is None else tensors[v.number] for v in (weight, bias, *norm[1:5])], norm[5])
            alone = uses[weight.storage] == 1
            path = names[weight.number].rpartition(".")[0]
            wish = names[weight.number] if alone else f"{names[weight.number]}_fused"
            for name in (names[weight.number], *([] if bias is None else [names[bias.number]])):
                if uses[program.held[name].storage] == 1:
                    made.release(name)
            own = [made.hold(wish, new_weight, "parameter"), made.hold(f"{path}.bias" if path else "bias", new_bias, "parameter")]
            pairs[i] = pairs[i][0], made.emit(call.op, (made.value(x), *own, *rest), {}, like=call)
        elif i in ends:
            result = next(leaves(Value, call.result))
            made.replace(result, pairs[ends[i]][1])
        else:
            made.keep(call)
    fused = made.finish()
    needed = {value.number for call in fused.calls for value in used(call)} | {value.number for value in fused.outputs}
    before = {value.number for call in program.calls for value in used(call)}
    gone = {name for name, value in fused.held.items() if value.number not in needed and value.number in before}
    return dead_code(_dropped(fused, gone - {effect.name for effect in fused.effects}))


def _norm_of(call: ProgramCall, uses: dict[int, int]) -> list[Any] | None:
    """Return input, mean, variance, weight, bias and epsilon of a batch norm in evaluation mode; None for any other call."""
    if call.kwargs or call.writes:
        return None
    if call.op.name == "nn.functional._batch_norm_eval" and len(call.args) == 6:
        return list(call.args)
    if call.op.name == "_batch_norm_forward" and len(call.args) == 8 and call.args[5] is False:
        others = list(leaves(Value, call.result))[1:]
        if not any(uses.get(value.storage) for value in others):
            return [*call.args[:5], call.args[7]]
    return None


def _convolves(call: ProgramCall) -> bool:
    """Return True for convolutions that are not transposed."""
    return call.op.name in _CONVOLUTIONS or call.op.name == "convolution" and len(call.args) == 9 and call.args[6] is False


def _convolution(call: ProgramCall) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    """Return input, weight, bias and the other arguments of a convolution."""
    if call.op.name == "convolution":
        return call.args[0], call.args[1], call.args[2], call.args[3:]
    args = [*call.args, None] if len(call.args) == 2 else list(call.args)
    names = call.op.overloads[0].argument_names
    rest = args[3:]
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    for name in names[3 + len(rest) :]:
        rest.append(call.kwargs.get(name, defaults[name]))
    return args[0], args[1], args[2] if args[2] is not None else call.kwargs.get("bias"), tuple(rest)


def _folded(tensors: list[Any], eps: float) -> tuple[Tensor, Tensor]:
    """Return the weight and the bias of a convolution that computes a convolution followed by a batch norm."""
    weight, bias, mean, variance, gain, shift = tensors
    with mt.no_grad():
        scale = (variance + eps).rsqrt()
        if gain is not None:
            scale = scale * gain
        made = (weight * scale.reshape(-1, *[1] * (weight.dim() - 1))).to(weight.dtype)
        moved = (mean.neg() if bias is None else bias - mean) * scale
        if shift is not None:
            moved = moved + shift
    grad = weight.requires_grad
    return mt.nn.Parameter(made, requires_grad=grad), mt.nn.Parameter(moved.to(weight.dtype), requires_grad=grad)
