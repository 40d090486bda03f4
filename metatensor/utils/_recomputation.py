"""Recomputation of the tensors that a checkpointed function saved. `metatensor.utils.checkpoint` uses it.

While the function runs for the first time, every tensor that it saves for backward is replaced by a `_Ticket`, which
holds the number of the tensor in the order of saving. When backward unpacks the first ticket, the function runs again.
The tensors that it saves this time are kept until their tickets are unpacked. A separate node saves the arguments, so
that an enclosing checkpoint can replace them by tickets as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import metatensor as mt
from metatensor import amp
from metatensor._core.capture import raise_after_call
from metatensor._core.engine import current_walk
from metatensor._core.modes import DispatchMode

__all__ = ["CheckpointError", "Recomputation", "State"]


class CheckpointError(RuntimeError):
    """Raised if a recomputation does not save the tensors that the original call saved."""


class State:
    """The state that a recomputation restores: that of the random generator, and autocast.

    Parameters
    ----------
    random : bool
        Whether to restore the random generator.
    """

    def __init__(self, random: bool) -> None:
        self.random = mt.default_generator.get_state() if random else None
        self.autocast = amp._as_now()

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restore this state inside the block, and the current one after it."""
        with contextlib.ExitStack() as stack:
            if self.random is not None:
                stack.callback(mt.default_generator.set_state, mt.default_generator.get_state())
                mt.default_generator.set_state(self.random)
            stack.enter_context(self.autocast())
            yield


class _Done(BaseException):
    """Raised to end a recomputation when all tensors have been saved.

    It derives from BaseException, so that the function does not catch it by ``except Exception``.
    """


class _Ticket:
    """The number of a saved tensor, kept in place of the tensor."""

    __slots__ = ("__weakref__", "number", "of")

    def __init__(self, of: Recomputation, number: int) -> None:
        self.of, self.number = of, number


class _Inputs(mt.autograd.Function):
    """A function whose node saves the arguments. Its backward never runs."""

    @staticmethod
    def forward(ctx: Any, dummy: Any, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        return dummy.new_empty((0,))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("checkpoint: the node that keeps the arguments was walked")


class _Log(DispatchMode):
    """A mode that lists the operators that run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        tensors = ", ".join(f"{t.dtype}{list(t.shape)}".removeprefix("torch.") for t in args if isinstance(t, mt.Tensor))
        self.lines.append(f"{op.name}({tensors})")
        return op(*args, **kwargs)


class Recomputation:
    """One checkpointed call of a function.

    Parameters
    ----------
    function : callable
    args, kwargs
        Its arguments.
    state : State
        What the recomputation restores.
    early_stop, check, debug : bool
        Whether the recomputation ends when all tensors have been saved, whether the tensors are compared with those of
        the first call, and whether errors list the operators that ran.
    again : context manager
        The context inside which the function is recomputed.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], state: State, *, early_stop: bool, check: bool,
        debug: bool, again: Any,
    ) -> None:  # fmt: skip
        self.function = function
        self.state, self.again = state, again
        self.early_stop, self.check = early_stop, check
        self.log = _Log() if debug else None
        self.saved: list[Any] = []  # shape, dtype and device of each tensor that the function saved
        self.complete = False
        self.made: dict[int, dict[int, Any]] = {}  # number of the backward pass -> number of the ticket -> tensor
        self._keep(args, kwargs)

    def _keep(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Save the arguments: tensors in the node of `_Inputs`, other values directly."""
        values = [*args, *kwargs.values()]
        tensors = [value for value in values if isinstance(value, mt.Tensor)]
        self.values = [None if isinstance(value, mt.Tensor) else value for value in values]
        self.places = [i for i, value in enumerate(values) if isinstance(value, mt.Tensor)]
        self.names = list(kwargs)
        self.inputs = _Inputs.apply(mt.empty(0, device="meta", requires_grad=True), *tensors).grad_fn

    def _arguments(self) -> tuple[list, dict[str, Any]]:
        values = list(self.values)
        for place, tensor in zip(self.places, self.inputs.saved_tensors, strict=True):
            values[place] = tensor
        n = len(values) - len(self.names)
        return values[:n], dict(zip(self.names, values[n:], strict=True))

    # The first call ----------------------------------------------------------------------

    def recorded(self) -> Any:
        """Return a context manager inside which the function runs for the first time."""
        return mt.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def _pack(self, t: Any) -> _Ticket:
        self.saved.append((tuple(t.shape), t.dtype, t.device))
        return _Ticket(self, len(self.saved) - 1)

    # The recomputation ---------------------------------------------------------------------

    def tensor(self, number: int) -> Any:
        """Return the saved tensor with this number. Recompute first if this backward pass has not done so."""
        walk = current_walk()
        if walk is None:  # no backward pass runs: a saved value was read through its node
            return self._run(-1).pop(number)
        made = self.made.get(walk[0])
        if made is None:
            made = self._run(walk[0])
        if number not in made:
            raise CheckpointError(
                "checkpoint: a saved tensor was unpacked twice in one backward pass; read ctx.saved_tensors only once"
            )
        return made.pop(number)

    def _run(self, walk: int) -> dict[int, Any]:
        made: dict[int, Any] = {}
        found: list[Any] = []  # like `self.saved`, for the recomputation
        excess = False

        def keep(t: Any) -> Any:
            nonlocal excess
            number = len(found)
            value = t.detach()
            found.append((tuple(t.shape), t.dtype, t.device))
            if number < len(self.saved):
                made[number] = value
            elif self.complete:
                excess = True
            if self.early_stop and len(found) == len(self.saved) and self.complete:
                raise_after_call(_Done())
            return value

        args, kwargs = self._arguments()
        log = None if self.log is None else _Log()
        with self.state.restored(), self.again, mt.enable_grad(), log or contextlib.nullcontext():
            hooks = mt.autograd.graph.saved_tensors_hooks(keep, _same)
            with contextlib.suppress(_Done), hooks:
                self.function(*args, **kwargs)
        self._compare(found, excess, log)
        if walk >= 0:
            self.made.clear()  # tensors left over from an earlier pass
            self.made[walk] = made
        return made

    def _compare(self, found: list[Any], excess: bool, log: _Log | None) -> None:
        if not self.complete:  # backward was called inside the function, which has not saved all tensors yet
            return
        if excess or len(found) < len(self.saved):
            raise CheckpointError(
                f"checkpoint: the function saved {len(self.saved)} tensors at first, but {len(found)} when it was recomputed. It must "
                f"do the same each time it is called{self._difference(log)}"
            )
        if not self.check:
            return
        wrong = [
            f"\ntensor {i} was {_described(before)}, is {_described(after)}"
            for i, (before, after) in enumerate(zip(self.saved, found, strict=False)) if before != after
        ]  # fmt: skip
        if wrong:
            raise CheckpointError(f"checkpoint: recomputed tensors differ from those saved at first{''.join(wrong)}{self._difference(log)}")

    def _difference(self, log: _Log | None) -> str:
        """Return a message with the operators of both runs, starting at the first difference."""
        if self.log is None or log is None:
            return ". Pass debug=True to see the operators that ran"
        first, again = self.log.lines, log.lines
        same = next((i for i, (a, b) in enumerate(zip(first, again, strict=False)) if a != b), min(len(first), len(again)))
        shown = [f"\n{title}, from operator {same}: {', '.join(lines[same : same + 10]) or 'none'}"
                 for title, lines in (("at first", first), ("recomputed", again))]  # fmt: skip
        return "".join(shown)


def _same(t: Any) -> Any:
    return t


def _unpack(ticket: _Ticket) -> Any:
    return ticket.of.tensor(ticket.number)


def _described(facts: Any) -> str:
    shape, dtype, device = facts
    return f"{dtype}{list(shape)} on {device}".removeprefix("torch.")
