"""Batch normalization layers."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.late import later
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]


class _NormBase(Module):
    """Base of batch and instance norms: per-channel weight, bias and running statistics."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = Parameter(mt.empty(num_features, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(mt.empty(num_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        if track_running_stats:
            self.register_buffer("running_mean", mt.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", mt.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", mt.zeros((), dtype=mt.int64, device=device))
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            self.register_buffer("num_batches_tracked", None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running mean to 0, the running variance to 1 and the number of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0, and reset the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: mt.Tensor) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define _check_input_dim()")

    def _expect_dims(self, input: mt.Tensor, *allowed: int) -> None:
        if input.dim() not in allowed:
            dims = " or ".join(map(str, allowed))
            raise ValueError(
                f"{type(self).__name__}: expected an input of {dims} dimensions, got shape {list(input.shape)}"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # Checkpoints of version 1 do not contain num_batches_tracked.
            count = self.num_batches_tracked
            if count is None or count.is_meta:
                count = mt.zeros((), dtype=mt.int64, device=None if count is None else count.device)
            state_dict[key] = count
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input: mt.Tensor) -> mt.Tensor:
        self._check_input_dim(input)
        count = self.num_batches_tracked
        factor = self.momentum or 0.0
        if self.training and self.track_running_stats and count is not None:
            count.add_(1)
            if self.momentum is None and not count.is_meta:  # cumulative average; on meta the count has no value
                factor = 1.0 / float(count)
        # A layer without running statistics uses those of the batch in evaluation mode too.
        from_batch = self.training or (self.running_mean is None and self.running_var is None)
        use_running = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if use_running else None,
            self.running_var if use_running else None,
            self.weight,
            self.bias,
            from_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalization of an input (N, C) or (N, C, L) (Ioffe and Szegedy, 2015).

    Each channel is normalized to ``(x - mean) / sqrt(variance + eps)``, then multiplied by ``weight`` and added to
    ``bias``, both of shape (C,). The output has the shape of the input. In training mode, mean and biased variance are
    those of the batch, and running averages of both are updated. Evaluation mode uses the running averages.

    Parameters
    ----------
    num_features : int
        Number of channels C.
    eps : float
        Value added to the variance. Default 1e-5.
    momentum : float, optional
        Share of the new batch in the running averages. Default 0.1. None averages all batches equally.
    affine : bool
        Whether to multiply by a ``weight`` and, if ``bias`` is true, to add a ``bias``. Default True.
    track_running_stats : bool
        Keep running averages. Default True. If False, the statistics are always those of the batch.
    device, dtype : optional
        Device and dtype of parameters and running averages.
    bias : bool
        Whether there is a ``bias`` if ``affine`` is true. Default True.

    Raises
    ------
    ValueError
        On a call whose input has the wrong number of dimensions.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.BatchNorm1d(3)(mt.empty(8, 3, 5)).shape
    metatensor.Size([8, 3, 5])
    """

    def _check_input_dim(self, input: mt.Tensor) -> None:
        self._expect_dims(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of an input (N, C, H, W). See `BatchNorm1d` for parameters and formula.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.BatchNorm2d(3)(mt.empty(8, 3, 4, 4)).shape
    metatensor.Size([8, 3, 4, 4])
    """

    def _check_input_dim(self, input: mt.Tensor) -> None:
        self._expect_dims(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of an input (N, C, D, H, W). See `BatchNorm1d` for parameters and formula.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.BatchNorm3d(3)(mt.empty(8, 3, 2, 4, 4)).shape
    metatensor.Size([8, 3, 2, 4, 4])
    """

    def _check_input_dim(self, input: mt.Tensor) -> None:
        self._expect_dims(input, 5)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of an input (N, C, ...) over the batches of all ranks of a process group.

    In training the statistics are those of all batches together; each may have another size. In evaluation mode, and without
    a process group, the layer works like `BatchNorm1d`, which has the other parameters and the formula.

    Parameters
    ----------
    process_group : ProcessGroup, optional
        The ranks. Default: all.

    Raises
    ------
    ValueError
        On a call with an input of fewer than 2 dimensions or without channels.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.SyncBatchNorm(3)(mt.empty(8, 3, 4, 4)).shape
    metatensor.Size([8, 3, 4, 4])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: mt.Tensor) -> None:
        if input.dim() < 2 or input.size(1) == 0:
            raise ValueError(
                f"SyncBatchNorm: expected at least 2 dimensions and some channels, got shape {list(input.shape)}"
            )

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        from_batch = self.training or (self.running_mean is None and self.running_var is None)
        if not (from_batch and self.training and later("is_initialized")() and later("get_world_size")(self.process_group) > 1):
            return super().forward(input)
        self._check_input_dim(input)
        factor = self.momentum or 0.0
        count = self.num_batches_tracked
        if self.track_running_stats and count is not None:
            count.add_(1)
            if self.momentum is None and not count.is_meta:
                factor = 1.0 / float(count)
        running = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        normalized: mt.Tensor = later("synchronized_batch_norm")(
            input, *running, self.weight, self.bias, factor, self.eps, self.process_group
        )
        return normalized

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace all batch norms of a module, at any depth, by `SyncBatchNorm` layers with the same state.

        Parameters
        ----------
        module : Module
            Changed in place, unless it is a batch norm itself.
        process_group : optional
            Passed to the new layers.

        Returns
        -------
        Module
            ``module``, or its replacement if it is a batch norm.
        """
        result = module
        if isinstance(module, _BatchNorm):
            arguments = module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
            result = SyncBatchNorm(*arguments, process_group, bias=module.bias is not None)
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked", "training"):
                setattr(result, name, getattr(module, name))
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
