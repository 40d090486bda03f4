"""A stage of a pipeline: a part of a model on one rank, and what it keeps of the microbatches in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import metatensor as mt
from metatensor._core.engine import gradient_edge, run_backward, run_deferred
from metatensor._core.nested import map_tensors
from metatensor._core.source_locations import add_note
from metatensor.distributed._group import the_group
from metatensor.distributed.pipelining._messages import Arriving, Sender, TensorSpec, announce, is_alone, learn, listed, specs_of
from metatensor.distributed.pipelining._wrappers import backward_pass, forward_pass, keeps_outputs

__all__ = ["PipelineStage", "_PipelineStageBase"]


class _Microbatch:
    """What a stage keeps of a microbatch between its passes."""

    def __init__(self) -> None:
        self.received: Any = None
        """`Arriving`, or the tensors of a stage on the same rank."""
        self.inputs: list[Any] = []
        """The leaves that the stage computed with."""
        self.to_send: list[Any] | None = None
        """Outputs that have not been sent."""
        self.edges: list[Any] = []
        """For each output its place in the autograd graph, or None. The outputs themselves need not be kept."""
        self.outputs: Any = None
        self.received_grads: Any = None
        self.input_grads: list[Any] | None = None
        self.deferred: list[Any] | None = None
        """What computes the gradients of weights after those of the inputs."""


class _PipelineStageBase:
    """A stage of a pipeline. The base of `PipelineStage` and of what `Pipe.build_stage` returns."""

    _static: dict[str, list[TensorSpec]] | None = None
    """Specs of inputs and outputs that all stages know without asking each other."""
    shared: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """Parameters that are in several stages of a traced pipeline, with these stages."""

    def __init__(self, submodule: Any, stage_index: int, num_stages: int, device: Any, group: Any = None) -> None:
        name = type(self).__name__.lstrip("_")
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"{name}: stage_index must be from 0 to {num_stages - 1}, got {stage_index}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = mt.device(device), the_group(group)
        self.group_rank, self.group_size = self.group._rank, self.group.size()
        if self.group_size > num_stages:
            raise ValueError(f"{name}: a group of {self.group_size} ranks cannot run {num_stages} stages; each rank needs at least one")
        self.stage_index_to_group_rank = {stage: stage % self.group_size for stage in range(num_stages)}
        self.has_backward = False
        self._given_inputs: list[TensorSpec] | None = None
        self._given_outputs: list[TensorSpec] | None = None
        self._in_specs: dict[Any, list[TensorSpec]] = {}
        self._out_specs: dict[Any, list[TensorSpec]] = {}
        self._announced: set[Any] = set()
        """The modes in which the stage after knows the specs of the outputs."""
        self.mode: Any = None
        """The schedule that runs, and whether it has backward passes. Each mode has its own shapes."""
        self.groups: dict[tuple[int, ...], Any] = {}
        self._senders = {"F": Sender(), "B": Sender()}
        self.clear_runtime_states()

    @property
    def is_first(self) -> bool:
        """Whether it is the first stage of the pipeline."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it is the last stage of the pipeline."""
        return self.stage_index == self.num_stages - 1

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lstrip('_')} {self.stage_index} of {self.num_stages}>"

    def clear_runtime_states(self) -> None:
        """Forget all microbatches."""
        self._in_flight: dict[int, _Microbatch] = {}

    def _at(self, i: int) -> _Microbatch:
        found = self._in_flight.get(i)
        if found is None:
            found = self._in_flight[i] = _Microbatch()
        return found

    def _peer(self, step: int) -> int:
        return self.stage_index_to_group_rank[self.stage_index + step]

    def parameter(self, name: str) -> Any:
        """Return a parameter of the module by its name in the whole model."""
        raise NotImplementedError

    # Messages -------------------------------------------------------------------------------------------

    def receive_forward(self, i: int) -> None:
        """Begin to receive the inputs of a microbatch from the stage before."""
        specs = self._in_specs.get(self.mode)
        if specs is None:
            specs = self._in_specs[self.mode] = self._learned_inputs()
        self._at(i).received = Arriving(specs, self.device, self.group, self._peer(-1))

    def _learned_inputs(self) -> list[TensorSpec]:
        if self._static is not None:
            return _in_mode(self._static["inputs"], self.has_backward)
        found = learn(self.group, self._peer(-1))
        given = self._given_inputs
        if found is None:
            if given is None:
                raise RuntimeError(f"{self}: the stage before is not run here, so the shapes of its outputs are unknown; pass input_args "
                                   "and output_args to all stages")  # fmt: skip
            return _with_grad(given, self.has_backward)
        if given is not None and [one[:2] for one in found] != [one[:2] for one in given]:
            raise RuntimeError(f"{self}: its input_args are {listed(given)}, but stage {self.stage_index - 1} sends {listed(found)}")
        return found

    def send_forward(self, i: int) -> None:
        """Begin to send the outputs of a microbatch to the stage after."""
        at = self._at(i)
        assert at.to_send is not None
        if self._static is None and self.mode not in self._announced:
            announce(self._out_specs[self.mode], self.group, self._peer(1))
            self._announced.add(self.mode)
        self._senders["F"].send(at.to_send, self.group, self._peer(1))
        at.to_send = None
        self._forget(i)

    def receive_backward(self, i: int) -> None:
        """Begin to receive the gradients of the outputs of a microbatch from the stage after."""
        wanted = [one for one in self._out_specs[self.mode] if one.requires_grad]
        self._at(i).received_grads = Arriving(wanted, self.device, self.group, self._peer(1))

    def send_backward(self, i: int) -> None:
        """Begin to send the gradients of the inputs of a microbatch to the stage before."""
        at = self._at(i)
        assert at.input_grads is not None
        self._senders["B"].send(at.input_grads, self.group, self._peer(-1))
        at.input_grads = None
        self._forget(i)

    def hand_on(self, i: int, following: _PipelineStageBase) -> None:
        """Give the outputs of a microbatch to the stage after, which is on the same rank."""
        at = self._at(i)
        assert at.to_send is not None
        following._in_specs[self.mode] = self._out_specs[self.mode]
        following._at(i).received = [one.detach() for one in at.to_send]
        at.to_send = None
        self._forget(i)

    def hand_back(self, i: int, preceding: _PipelineStageBase) -> None:
        """Give the gradients of the inputs of a microbatch to the stage before, which is on the same rank."""
        at = self._at(i)
        preceding._at(i).received_grads, at.input_grads = at.input_grads, None
        self._forget(i)

    def finish_sending(self) -> None:
        """Wait until everything has been sent."""
        for sender in self._senders.values():
            sender.finish()

    # Forward --------------------------------------------------------------------------------------------

    def forward_one_chunk(self, fwd_chunk_id: int, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Run the module on a microbatch, on ``args`` if it is the first stage, otherwise on what has been received. Return its result.

        Raise RuntimeError if the outputs do not have the shapes that the stage after expects, TypeError if they are no tensors.
        """
        i, at = fwd_chunk_id, self._at(fwd_chunk_id)
        inputs = tuple(args) if self.is_first else tuple(self._received_inputs(at))
        try:
            with forward_pass(self.submod), mt.set_grad_enabled(self.has_backward):
                output = self.submod(*inputs, **(kwargs or {}))
        except Exception as error:
            if not self.is_first:
                source = f", its inputs {listed(specs_of(inputs))} from stage {self.stage_index - 1}"
                add_note(error, f"in the forward pass of stage {self.stage_index}, microbatch {i}{source}")
            raise
        if self.has_backward and not self.is_first:
            at.inputs = [one for one in inputs if one.requires_grad]
        if self.is_last:
            at.outputs = output if self.has_backward and keeps_outputs(self.submod) else None
            return output
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        wrong = next((one for one in outputs if not isinstance(one, mt.Tensor)), None)
        if wrong is not None or not outputs:
            raise TypeError(f"{self}: the module of a stage must return tensors for the next stage, got "
                            f"{type(wrong).__name__ if outputs else 'nothing'}")  # fmt: skip
        self._check_outputs(outputs, i)
        if self.has_backward:
            at.edges = [gradient_edge(one) if one.requires_grad else None for one in outputs]
            at.outputs = outputs if keeps_outputs(self.submod) else None
        at.to_send = outputs
        return output

    def _received_inputs(self, at: _Microbatch) -> list[Any]:
        received, at.received = at.received, None
        tensors = received.wait() if isinstance(received, Arriving) else received
        specs = self._in_specs[self.mode]
        return [one.requires_grad_() if spec.requires_grad and self.has_backward else one for one, spec in zip(tensors, specs)]

    def _check_outputs(self, outputs: Sequence[Any], i: int) -> None:
        """Compare the outputs of a microbatch with those that the stage after expects: those of the first one, or given ones."""
        specs, known = specs_of(outputs), self._out_specs.get(self.mode)
        if known is None:
            given = self._given_outputs if self._static is None else self._static["outputs"]
            if given is not None and [one[:2] for one in given] != [one[:2] for one in specs]:
                origin = "its output_args" if self._static is None else "those of the traced program"
                raise RuntimeError(f"{self}: the module returned {listed(specs)}, but {origin} are {listed(given)}")
            if self._static is not None:
                specs = _in_mode(self._static["outputs"], self.has_backward)
            elif is_alone(self.group):
                specs = _with_grad(specs, self.has_backward)
            known = self._out_specs[self.mode] = specs
        elif [one[:2] for one in known] != [one[:2] for one in specs]:
            raise RuntimeError(f"{self}: the outputs of microbatch {i} are {listed(specs)}, but those of the first microbatch were "
                               f"{listed(known)}; all microbatches need the same shapes, so the batch must be a multiple of their number, "
                               "and of the same size in each step; use another schedule for other sizes")  # fmt: skip
        late = [n for n, (one, spec) in enumerate(zip(outputs, known)) if one.requires_grad and not spec.requires_grad]
        if late:
            before = "in the first step" if self._static is None else "when the model was traced"
            raise RuntimeError(f"{self}: output {late[0]} requires grad now, but did not {before}, so the next stage sends no gradient; "
                               "make the stages again after changing requires_grad")  # fmt: skip

    # Backward -------------------------------------------------------------------------------------------

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False, scale: float = 1.0
    ) -> None:
        """Run the backward pass of a microbatch.

        Parameters
        ----------
        bwd_chunk_id : int
            The microbatch.
        loss : Tensor, optional
            On the last stage: its loss.
        full_backward : bool
            Whether to compute the gradients of the weights too. Otherwise `backward_weight_one_chunk` does.
        last_backward : bool
            Whether this is the last pass of the step that computes gradients of weights.
        scale : float
            The gradient of the loss.
        """
        at = self._at(bwd_chunk_id)
        if self.is_last:
            roots, grads = [gradient_edge(_scalar(loss, self))], [mt.full_like(loss.detach(), scale)]
        else:
            roots, grads = self._output_grads(at)
        inputs = at.inputs
        found: list[Any]
        if full_backward:
            with backward_pass(self.submod, last_backward, at.outputs):
                if roots:
                    run_backward(roots, grads, False, False, release=True)
            found = [one.grad for one in inputs]
            at.outputs = None
        else:
            at.deferred = []
            found = [None] * len(inputs)
            if roots:
                found = run_backward(roots, grads, False, False, [gradient_edge(one) for one in inputs], deferred=at.deferred,
                                     release=True)  # fmt: skip
        at.input_grads = [mt.zeros_like(one) if grad is None else grad for one, grad in zip(inputs, found)]
        at.inputs, at.edges = [], []
        if self.is_first:
            at.input_grads = None
            self._forget(bwd_chunk_id)

    def _output_grads(self, at: _Microbatch) -> tuple[list[Any], list[Any]]:
        received, at.received_grads = at.received_grads, None
        tensors = received.wait() if isinstance(received, Arriving) else list(received)
        wanted = [edge for edge, spec in zip(at.edges, self._out_specs[self.mode]) if spec.requires_grad]
        pairs = [(edge, grad) for edge, grad in zip(wanted, tensors, strict=True) if edge is not None]
        return [edge for edge, _ in pairs], [grad for _, grad in pairs]

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """Compute the gradients of the weights, after those of the inputs of a microbatch."""
        at = self._at(bwd_chunk_id)
        assert at.deferred is not None
        with backward_pass(self.submod, last_backward, at.outputs, of_weights=True):
            run_deferred(at.deferred)
        at.deferred = at.outputs = None
        self._forget(bwd_chunk_id)

    def _forget(self, i: int) -> None:
        """Forget a microbatch that has nothing left to do."""
        at = self._in_flight.get(i)
        if at is not None and at.deferred is None and at.input_grads is None and at.to_send is None and not at.edges:
            del self._in_flight[i]


def _scalar(loss: Any, stage: Any) -> Any:
    if not isinstance(loss, mt.Tensor) or loss.numel() != 1:
        found = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, mt.Tensor) else type(loss).__name__
        raise RuntimeError(f"{stage}: the loss function must return a tensor with one element, got {found}")
    return loss


def _in_mode(specs: Sequence[TensorSpec], backward: bool) -> list[TensorSpec]:
    """Return specs of a step with backward passes, or of one without."""
    return [one._replace(requires_grad=one.requires_grad and backward) for one in specs]


def _with_grad(specs: Sequence[TensorSpec], backward: bool) -> list[TensorSpec]:
    """Return specs in which all floating-point tensors require grad: what both sides assume if they do not ask each other."""
    return [one._replace(requires_grad=backward and _differentiable(one.dtype)) for one in specs]


def _differentiable(name: str) -> bool:
    dtype = getattr(mt, name)
    return bool(dtype.is_floating_point or dtype.is_complex)


class PipelineStage(_PipelineStageBase):
    """A stage of a pipeline, made by hand: a module that takes what the stage before returns.

    In the first step each stage tells the next one the shapes of its outputs. All microbatches have the same shapes. A tensor
    that does not require grad gets no gradient. Keyword arguments of a step go to the stages of the ranks that pass them.

    Parameters
    ----------
    submodule : Module
        The part of the model, on ``device``. It may be wrapped in `DistributedDataParallel` over another group: gradients
        are then averaged once in each step.
    stage_index : int
        The number of the stage, from 0.
    num_stages : int
        Number of stages of the pipeline.
    device : device
        Where the stage receives tensors.
    input_args, output_args : Tensor or tuple of Tensor, optional
        Examples of inputs and outputs for one microbatch, such as tensors on meta. They are compared with what stages send. Where other
        ranks are not run (``sim.run(ranks="groups")``, the backend ``"fake"``) they are needed.
    output_grads, input_grads
        Ignored: gradients have the shapes of their tensors.
    group : ProcessGroup, optional
        The ranks of the pipeline. Default: all.
    dw_builder
        Must be None: the gradients of weights are found in the autograd graph.

    Raises
    ------
    ValueError
        If the stage does not exist, or there are more ranks than stages.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed import pipelining
    >>> def train():
    ...     mt.distributed.init_process_group()
    ...     rank = mt.distributed.get_rank()
    ...     stage = pipelining.PipelineStage(mt.nn.Linear(4, 4), rank, 2, "cpu")
    ...     schedule = pipelining.Schedule1F1B(stage, n_microbatches=2, loss_fn=mt.nn.functional.mse_loss)
    ...     x, target = mt.ones(8, 4), mt.zeros(8, 4)
    ...     output = schedule.step(x) if rank == 0 else schedule.step(target=target)
    ...     return None if output is None else output.shape
    >>> mt.distributed.sim.run(train, world_size=2)
    [None, metatensor.Size([8, 4])]
    """

    def __init__(
        self, submodule: Any, stage_index: int, num_stages: int, device: Any, input_args: Any = None, output_args: Any = None,
        output_grads: Any = None, input_grads: Any = None, group: Any = None, dw_builder: Any = None, get_mesh: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(submodule, stage_index, num_stages, device, group)
        if dw_builder is not None:
            raise NotImplementedError("PipelineStage: dw_builder is not supported; the gradients of weights are found without it")
        self._given_inputs = None if input_args is None else _given(input_args, "input_args")
        self._given_outputs = None if output_args is None else _given(output_args, "output_args")


def _given(examples: Any, name: str) -> list[TensorSpec]:
    found: list[Any] = []
    map_tensors(found.append, list(examples) if isinstance(examples, (tuple, list)) else [examples])
    if not found:
        raise TypeError(f"PipelineStage: {name} must be a tensor or a tuple of tensors")
    return specs_of(found)
