"""What would observe the range of values."""

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
