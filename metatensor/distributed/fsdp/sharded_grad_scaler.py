"""`ShardedGradScaler`, the scaler that `FullyShardedDataParallel` is used with."""

from __future__ import annotations

from typing import Any

from metatensor._core.late import later

__all__ = ["ShardedGradScaler"]

_GradScaler: Any = later("GradScaler")


class ShardedGradScaler(_GradScaler):  # type: ignore[misc]
    """`torch.amp.GradScaler`, which takes all ranks of distributed gradients into account.

    Parameters
    ----------
    device, init_scale, backoff_factor, growth_factor, growth_interval, enabled
        As for `torch.amp.GradScaler`.
    process_group : ProcessGroup, optional
        Ignored: gradients know their ranks.
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5, growth_factor: float = 2.0,
        growth_interval: int = 2000, enabled: bool = True, process_group: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
