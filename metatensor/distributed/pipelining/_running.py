"""Running a rank's list of actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed.pipelining._actions import _Action, _ComputationType
from metatensor.distributed.pipelining.microbatch import detached
from metatensor.distributed.pipelining.stage import _PipelineStageBase

__all__ = ["run_actions"]

_K = _ComputationType
_OF_WEIGHTS = (_K.FULL_BACKWARD, _K.BACKWARD_WEIGHT)


class _Run:
    """One step, or one evaluation, on one rank.

    Parameters
    ----------
    stages : dict
        The stages of the rank by number.
    actions : list
        What the rank does, in order.
    args, kwargs : list
        The arguments of each microbatch.
    compute_loss : callable or None
        ``compute_loss(output, i)`` returns the loss of microbatch ``i``.
    scale : float
        The gradient of the loss.
    keep_outputs : bool
        Whether to return the outputs of the last stage.
    """

    def __init__(
        self, stages: dict[int, _PipelineStageBase], actions: Sequence[_Action], args: list[tuple], kwargs: list[dict],
        compute_loss: Callable[[Any, int], Any] | None, scale: float, keep_outputs: bool,
    ) -> None:  # fmt: skip
        self.stages, self.actions, self.args, self.kwargs = stages, actions, args, kwargs
        self.compute_loss, self.scale, self.keep_outputs = compute_loss, scale, keep_outputs
        self.losses: dict[int, Any] = {}
        self.outputs: dict[int, Any] = {}
        self._graphs: dict[int, Any] = {}
        """Losses whose backward pass has not run."""
        parts = [part for action in actions for part in action.parts]
        self._last = {part.stage_index: part for part in parts if part.computation_type in _OF_WEIGHTS}

    def run(self) -> None:
        for action in self.actions:
            for part in action.parts:
                self._run(part)
        for stage in self.stages.values():
            stage.finish_sending()

    def _run(self, action: _Action) -> None:
        stage, kind, i = self.stages[action.stage_index], action.computation_type, action.microbatch_index
        assert i is not None
        if kind is _K.FORWARD:
            self._forward(stage, i)
        elif kind is _K.BACKWARD_WEIGHT:
            stage.backward_weight_one_chunk(i, last_backward=self._last[stage.stage_index] == action)
        elif kind in (_K.FULL_BACKWARD, _K.BACKWARD_INPUT):
            full = kind is _K.FULL_BACKWARD
            stage.backward_one_chunk(i, self._graphs.pop(i) if stage.is_last else None, full, self._last[stage.stage_index] == action,
                                     self.scale)  # fmt: skip
            before = self.stages.get(stage.stage_index - 1)
            if before is not None:
                stage.hand_back(i, before)
        elif kind is _K.RECV_F:
            stage.receive_forward(i)
        elif kind is _K.SEND_F:
            stage.send_forward(i)
        elif kind is _K.RECV_B:
            stage.receive_backward(i)
        else:
            stage.send_backward(i)

    def _forward(self, stage: _PipelineStageBase, i: int) -> None:
        output = stage.forward_one_chunk(i, self.args[i], self.kwargs[i])
        if not stage.is_last:
            following = self.stages.get(stage.stage_index + 1)
            if following is not None:
                stage.hand_on(i, following)
            return
        if self.compute_loss is not None:
            with mt.set_grad_enabled(stage.has_backward):
                loss = self.compute_loss(output, i)
            self.losses[i] = detached(loss)
            if stage.has_backward:
                self._graphs[i] = loss
        if self.keep_outputs:
            self.outputs[i] = detached(output)


def run_actions(
    stages: dict[int, _PipelineStageBase], actions: Sequence[_Action], args: list[tuple], kwargs: list[dict],
    compute_loss: Callable[[Any, int], Any] | None, *, schedule: Any, backward: bool, scale: float, keep_outputs: bool,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Run actions of a schedule on the stages of a rank. Return losses and outputs of the last stage by microbatch, if it is here."""
    for stage in stages.values():
        stage.clear_runtime_states()
        stage.has_backward, stage.mode = backward, (schedule, backward)
    run = _Run(stages, actions, args, kwargs, compute_loss, scale, keep_outputs)
    try:
        run.run()
    finally:
        for stage in stages.values():
            stage.clear_runtime_states()
    return [run.losses[i] for i in sorted(run.losses)], [run.outputs[i] for i in sorted(run.outputs)]
