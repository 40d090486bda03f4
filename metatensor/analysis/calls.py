"""Record the calls of a run: which operators ran, in which phase, and how much they computed and moved (`_facts`).

`CallRecorder` is a dispatch mode. It keeps no tensors, so it changes neither memory nor results. It works on meta
as on any other device.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import metatensor as mt
from metatensor._core.engine import latest_node, visited_node
from metatensor._core.modes import DispatchMode
from metatensor.analysis._facts import OperatorFacts, form_of_layout, size_of
from metatensor.nn._hooks import register_module_forward_hook, register_module_forward_pre_hook
from metatensor.rules.flops import HOST_FLAG, VIEW_FLAG, classify

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["PHASES", "Call", "CallRecorder"]

PHASES = ("forward", "backward", "optimizer")

_REDUCED = frozenset("sum mean amax amin prod max min argmax argmin var std var_mean std_mean all any logsumexp "
                     "linalg.vector_norm softmax log_softmax nn.functional.softmax nn.functional.log_softmax".split())  # fmt: skip
_CONVOLUTIONS = frozenset(["convolution", "convolution_backward", *(f"nn.functional.conv{n}d" for n in (1, 2, 3))])
_WITH_FORMS = _REDUCED | _CONVOLUTIONS | {"_batch_norm_forward", "native_batch_norm_backward", "nn.functional.dropout"}
"""Operators, besides GELU and pooling, whose form is more than the layout of their tensors."""


class Call(NamedTuple):
    """One call of an operator."""

    op: str
    """Its name, such as ``"nn.functional.linear"`` or ``"add_"``."""
    flops: int
    """Floating-point operations by the rules of ``metatensor.rules.flops``, where a multiply-add is two."""
    read: int
    """Bytes of the elements that it reads. Elements that an expanded tensor repeats count once."""
    written: int
    """Bytes of the elements that it writes. Views and operators of metadata read and write nothing."""
    dtype: str
    """The dtype of the computation: that of its first floating-point tensor, else of its first tensor."""
    phase: str
    """``"forward"``, ``"backward"`` or ``"optimizer"``."""
    repeated: int
    """Bytes that a simple kernel gathers or rereads: the patches of a convolution, the weights of a recurrence at each step."""
    module: str
    """Path of the innermost module whose forward was running; empty outside of modules and for the model itself. In a backward
    pass, that of the operator whose gradient is computed."""
    form: str
    """A variant of the operator with another cost: ``"strided"`` where the last dimension of an argument is not
    contiguous, ``"rows"`` where only others are not, ``"leading"`` where a reduction keeps the last dimension, ``"pointwise"``,
    ``"grouped"`` or ``"transposed"`` for convolutions, ``"tanh"`` for the approximation of GELU,
    ``"off"`` for dropout, ``"eval"`` for batch norm by running statistics, ``"overlapping"`` for pooling whose stride is not the
    kernel's size."""

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    @property
    def launches(self) -> bool:
        """Whether the call starts a kernel; views do not."""
        return bool(self.flops or self.read or self.written)


class CallRecorder(DispatchMode):
    """Context manager that records the calls of its thread in `calls`.

    Set `phase` between the phases of a step. With a ``model``, calls have the paths of its modules.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.analysis.calls import CallRecorder
    >>> x = mt.empty(8, 16, device="meta")
    >>> with CallRecorder() as recorder:
    ...     y = (x + 1) @ x.t()
    >>> [(call.op, call.flops, call.read, call.written) for call in recorder.calls]
    [('add', 0, 512, 512), ('t', 0, 0, 0), ('matmul', 2048, 1024, 256)]
    """

    def __init__(self, model: Any = None) -> None:
        self.calls: list[Call] = []
        self.phase = "forward"
        self._paths = {id(module): path for path, module in model.named_modules()} if isinstance(model, mt.nn.Module) else {}
        self._stack = [""]
        self._nodes: list[int] = []  # the latest node of the graph when a forward operator was called
        self._callers: list[str] = []  # and for each of these calls, the calling module
        self._known: dict[Any, OperatorFacts] = {}
        self._same: dict[tuple[Any, ...], Call] = {}  # most calls are equal to earlier ones, and share their object
        self._thread = threading.get_ident()
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        if self._paths:
            self._exits.enter_context(register_module_forward_pre_hook(self._before))
            self._exits.enter_context(register_module_forward_hook(self._after, always_call=True))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._exits.close()

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run one operator and record it."""
        module = self._module()
        out = self._run(op, args, kwargs)
        facts = self._known.get(op)
        if facts is None:
            facts = self._known[op] = _facts_of(op)
        values = facts.of_call(args, kwargs, out, self.phase, module)
        call = self._same.get(values)
        if call is None:
            call = self._same[values] = Call._make(values)
        self.calls.append(call)
        return out

    def _running_module(self) -> str:
        return self._stack[-1]

    def _module(self) -> str:
        """Return the path of the running module; in a backward pass, of the module that called the operator whose gradient is computed."""
        module, node = self._running_module(), visited_node()
        if node:
            i = bisect_left(self._nodes, node) - 1
            return module if module or i < 0 else self._callers[i]
        self._nodes.append(latest_node())
        self._callers.append(module)
        return module

    def _run(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return op(*args, **kwargs)

    def _before(self, module: Any, args: tuple) -> None:
        if threading.get_ident() == self._thread:
            self._stack.append(self._paths.get(id(module), self._stack[-1]))

    def _after(self, module: Any, args: tuple, output: Any) -> None:
        if threading.get_ident() == self._thread and len(self._stack) > 1:
            self._stack.pop()


def _facts_of(op: Any) -> OperatorFacts:
    functional = op.functional
    family = functional.name
    still = bool(functional.flags & (VIEW_FLAG | HOST_FLAG)) and family != "item"
    form = _form if family in _WITH_FORMS or "gelu" in family or ("_pool" in family and not family.endswith("backward")) else None
    return OperatorFacts(op.name, family, still, classify(functional)[1], _inplace_slot(op), form, _repeated)


def _inplace_slot(op: Any) -> int:
    """Return the position of the argument ``inplace`` of an operator, -1 if it has none."""
    return next((overload.argument_names.index("inplace") for overload in op.overloads if "inplace" in overload.argument_names), -1)


def _form(family: str, args: tuple, kwargs: dict[str, Any], tensors: list[Any]) -> str:
    if family in _CONVOLUTIONS:
        weight = tensors[2 if family == "convolution_backward" else 1] if len(tensors) > 1 else None
        image = tensors[1 if family == "convolution_backward" else 0]
        if weight is None or weight.dim() < 3:
            return ""
        if family.startswith("convolution") and args[6]:
            return "transposed"
        if image.shape[1 - weight.dim()] > weight.shape[1]:
            return "grouped"
        return "pointwise" if prod(weight.shape[2:]) == 1 else ""
    if family in _REDUCED and tensors:
        n = tensors[0].dim()
        dims = set(_dims(args, kwargs, n))
        if dims and n - 1 not in dims:
            return "leading"
    elif family in ("_batch_norm_forward", "native_batch_norm_backward"):
        return "" if args[5 if family == "_batch_norm_forward" else 7] else "eval"
    elif "gelu" in family and kwargs.get("approximate") == "tanh":
        return "tanh"
    elif family == "nn.functional.dropout":
        p, training = args[1] if len(args) > 1 else kwargs.get("p"), args[2] if len(args) > 2 else kwargs.get("training")
        return "off" if p == 0 or training is False else ""
    elif "_pool" in family and len(args) > 1 and "adaptive" not in family:
        stride = args[2] if len(args) > 2 else kwargs.get("stride")
        return "overlapping" if stride and stride != args[1] else ""
    return form_of_layout(tensors, False)


def _repeated(family: str, form: str, flops: int, args: tuple, tensors: list[Any]) -> int:
    """Return the bytes that a simple kernel gathers or rereads."""
    if family in _CONVOLUTIONS and form != "pointwise":
        backward = family == "convolution_backward"
        weight, image = tensors[2 if backward else 1], tensors[0]
        if form == "transposed":
            image = tensors[1] if backward else tensors[0]
        # One patch for each position of the window, and for each half of the backward pass.
        halves = (args[9][0] + args[9][1]) if backward else 1
        positions = image.numel() // (image.shape[1 - weight.dim()] or 1)
        channels = tensors[1].shape[1 - weight.dim()] if backward and form != "transposed" else weight.shape[1]
        if form == "grouped" and not backward:
            channels = image.shape[1 - weight.dim()]
        places = positions
        if not backward and form != "transposed":  # positions of the result, from the operations
            places = flops // (2 * prod(weight.shape)) if prod(weight.shape) else 0
        return int(halves * places * channels * prod(weight.shape[2:]) * weight.element_size())
    if family in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        packed = isinstance(args[3], (list, tuple))
        weights = [t for t in args[3 if packed else 2] if t.dim() == 2]
        steps = int(args[1].numel()) if packed else args[0].shape[1 if args[8] else 0]
        return int(steps * sum(map(size_of, weights)))
    return 0


def _dims(args: tuple, kwargs: dict[str, Any], n: int) -> Iterator[int]:
    given = kwargs.get("dim", args[1] if len(args) > 1 else None)
    values = given if isinstance(given, (list, tuple)) else (given,)
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool):
            yield value % max(n, 1)
