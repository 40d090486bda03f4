"""Styles of tensor parallelism: how the parameters, inputs and outputs of a module are placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.tensor._dtensor import DTensor, distribute_module, distribute_tensor
from metatensor.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel",
]  # fmt: skip


class ParallelStyle:
    """Base class of parallel styles. A subclass defines ``_apply(module, device_mesh)``, which returns the module."""

    src_data_rank: int | None = 0

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: a parallel style has to define _apply")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in vars(self).items())})"

    def _needs_one_dimension(self, mesh: DeviceMesh) -> None:
        if mesh.ndim != 1:
            raise ValueError(f"{type(self).__name__}: the mesh must have one dimension, got {mesh}; take a sub-mesh, as in mesh['tp']")

    def _set(self, module: Any, mesh: DeviceMesh, placements: dict[str, Placement]) -> None:
        """Distribute the parameters of a module."""
        for name, one in list(module._parameters.items()):
            if one is not None:
                made = distribute_tensor(one.detach(), mesh, [placements.get(name, Replicate())], src_data_rank=self.src_data_rank)
                module.register_parameter(name, mt.nn.Parameter(made, one.requires_grad))


def _has(value: Any, placement: Placement) -> bool:
    """Return True if a distributed tensor on a mesh of one dimension has a placement, whose dimension may be negative."""
    (here,) = value.placements
    if here == placement:
        return True
    return isinstance(here, Shard) and isinstance(placement, Shard) and here.dim == placement.dim + value.ndim


def _placed(value: Any, mesh: DeviceMesh, given: Placement, desired: Placement) -> Any:
    """Return a value as a distributed tensor. A plain tensor is the part of a tensor with the placement ``given``."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [given], run_check=False)
    return value if _has(value, desired) else value.redistribute(placements=[desired])


def _finished(value: Any, desired: Placement, local: bool) -> Any:
    if not _has(value, desired):
        value = value.redistribute(placements=[desired])
    return value.to_local() if local else value


class _LayerParallel(ParallelStyle):
    """A style for linear and embedding layers."""

    def __init__(self, input_layouts: Placement, output_layouts: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts, self.use_local_output = (input_layouts,), (output_layouts,), use_local_output

    def _desired(self, module: Any) -> Placement:
        return Replicate()

    def _weights(self, module: Any) -> dict[str, Placement]:
        raise NotImplementedError

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        if not isinstance(module, (mt.nn.Linear, mt.nn.Embedding)):
            raise NotImplementedError(f"{type(self).__name__} applies to Linear and Embedding layers, not to {type(module).__name__}")
        self._needs_one_dimension(device_mesh)
        desired = self._desired(module)
        return distribute_module(
            module, device_mesh, lambda _, layer, mesh: self._set(layer, mesh, self._weights(layer)),
            lambda _, inputs, mesh: (_placed(inputs[0], mesh, self.input_layouts[0], desired), *inputs[1:]),
            lambda _, output, mesh: _finished(output, self.output_layouts[0], self.use_local_output),
        )  # fmt: skip


class ColwiseParallel(_LayerParallel):
    """Shard a `Linear` layer along its outputs, or an `Embedding` along the embedding dimension.

    Parameters
    ----------
    input_layouts : Placement, optional
        How a plain input is placed. Default: `Replicate`.
    output_layouts : Placement, optional
        How the output is placed. Default: ``Shard(-1)``.
    use_local_output : bool
        Whether the output is this process's part. Default True.
    """

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _weights(self, module: Any) -> dict[str, Placement]:
        return {"weight": Shard(1)} if isinstance(module, mt.nn.Embedding) else {"weight": Shard(0), "bias": Shard(0)}


class RowwiseParallel(_LayerParallel):
    """Shard a `Linear` layer along its inputs, or an `Embedding` along its rows.

    Parameters
    ----------
    input_layouts : Placement, optional
        How a plain input is placed. Default: ``Shard(-1)``.
    output_layouts : Placement, optional
        How the output is placed. Default: `Replicate`.
    use_local_output : bool
        Whether the output is this process's part. Default True.
    """

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _desired(self, module: Any) -> Placement:
        return Replicate() if isinstance(module, mt.nn.Embedding) else Shard(-1)

    def _weights(self, module: Any) -> dict[str, Placement]:
        return {"weight": Shard(0)} if isinstance(module, mt.nn.Embedding) else {"weight": Shard(1), "bias": Replicate()}


class SequenceParallel(ParallelStyle):
    """Replicate the parameters of a layer, and shard its input along the sequence.

    Parameters
    ----------
    sequence_dim : int
        Dimension of the sequence. Default 1.
    use_local_output : bool
        Whether the output is this process's part. Default False.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self._needs_one_dimension(device_mesh)
        place = self.sequence_sharding[0]
        return distribute_module(
            module, device_mesh, lambda _, layer, mesh: self._set(layer, mesh, {}),
            lambda _, inputs, mesh: (_placed(inputs[0], mesh, place, place), *inputs[1:]),
            lambda _, output, mesh: output.to_local() if self.use_local_output else output,
        )  # fmt: skip


def _several(value: Any) -> tuple[Any, ...]:
    return () if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _check_lengths(style: str, what: str, first: Sequence[Any], second: Sequence[Any]) -> None:
    if len(first) != len(second):
        raise AssertionError(f"{style}: {len(first)} {what}_layouts, but {len(second)} desired_{what}_layouts")


class PrepareModuleInput(ParallelStyle):
    """Redistribute the inputs of a module.

    Parameters
    ----------
    input_layouts, desired_input_layouts : Placement or tuple of Placement or None
        For each positional argument, how a plain tensor is placed, and how the module needs it. None: leave it alone.
    input_kwarg_layouts, desired_input_kwarg_layouts : dict
        The same for keyword arguments.
    use_local_output : bool
        Whether the module receives this process's parts. Default False.
    """

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: Any = None,
        desired_input_kwarg_layouts: Any = None, use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.input_layouts, self.desired_input_layouts = _several(input_layouts), _several(desired_input_layouts)
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        self.use_local_output = use_local_output
        _check_lengths(type(self).__name__, "input", self.input_layouts, self.desired_input_layouts)
        _check_lengths(type(self).__name__, "input_kwarg", [*self.input_kwarg_layouts], [*self.desired_input_kwarg_layouts])

    def _one(self, value: Any, mesh: DeviceMesh, given: Placement | None, desired: Placement | None) -> Any:
        if given is None or desired is None or not isinstance(value, mt.Tensor):
            return value
        found = _placed(value, mesh, given, desired)
        return found.to_local() if self.use_local_output else found

    def _prepare(self, inputs: tuple[Any, ...], options: dict[str, Any], mesh: DeviceMesh) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self.input_layouts:
            if len(inputs) != len(self.input_layouts):
                raise ValueError(f"PrepareModuleInput: {len(self.input_layouts)} layouts for {len(inputs)} inputs")
            inputs = tuple(self._one(*three) for three in zip(inputs, [mesh] * len(inputs), self.input_layouts, self.desired_input_layouts))
        return inputs, {name: self._one(value, mesh, self.input_kwarg_layouts.get(name), self.desired_input_kwarg_layouts.get(name))
                        for name, value in options.items()}  # fmt: skip

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self._needs_one_dimension(device_mesh)
        module.register_forward_pre_hook(lambda _, inputs, options: self._prepare(inputs, options, device_mesh), with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Redistribute the outputs of a module.

    Parameters
    ----------
    output_layouts, desired_output_layouts : Placement or tuple of Placement or None
        For each output, how a plain tensor is placed, and how it is needed. None: leave it alone.
    use_local_output : bool
        Whether the outputs are this process's parts. Default True.
    """

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self.output_layouts, self.desired_output_layouts = _several(output_layouts), _several(desired_output_layouts)
        self.use_local_output = use_local_output
        _check_lengths(type(self).__name__, "output", self.output_layouts, self.desired_output_layouts)

    def _finish(self, output: Any, mesh: DeviceMesh) -> Any:
        several = isinstance(output, (tuple, list))
        values = tuple(output) if several else (output,)
        if len(values) != len(self.output_layouts):
            raise ValueError(f"PrepareModuleOutput: {len(self.output_layouts)} layouts for {len(values)} outputs")
        found = []
        for value, given, desired in zip(values, self.output_layouts, self.desired_output_layouts):
            if given is not None and isinstance(value, mt.Tensor):
                found_ = value if isinstance(value, DTensor) else DTensor.from_local(value, mesh, [given])
                value = _finished(found_, desired, self.use_local_output)
            found.append(value)
        return tuple(found) if several else found[0]

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self._needs_one_dimension(device_mesh)
        module.register_forward_hook(lambda _, inputs, output: self._finish(output, device_mesh))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Redistribute the inputs and the outputs of a module, see `PrepareModuleInput` and `PrepareModuleOutput`.

    ``use_local_input`` says whether the module receives this process's parts. The other arguments are those of these styles.
    """

    def __init__(self, *, use_local_input: bool = False, **layouts: Any) -> None:
        outputs = {name: layouts.pop(name) for name in ("output_layouts", "desired_output_layouts", "use_local_output") if name in layouts}
        self.prepare_module_input = PrepareModuleInput(use_local_output=use_local_input, **layouts)
        self.prepare_module_output = PrepareModuleOutput(**outputs)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


