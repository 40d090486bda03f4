"""Observers of value ranges, which cannot be created."""

from metatensor.torch_api.torch.ao.quantization import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    default_observer,
    default_weight_observer,
)

__all__ = ["HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver", "NoopObserver", "ObserverBase",
           "PerChannelMinMaxObserver", "PlaceholderObserver", "default_observer", "default_weight_observer"]  # fmt: skip
