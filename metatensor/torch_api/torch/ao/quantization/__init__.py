"""Quantization: the parts that work on ordinary tensors, and placeholders that raise for all others."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from metatensor._core.absent import functions, kinds
from metatensor._core.lazy import attributes
from metatensor.torch_api.torch.ao.quantization.fuse_modules import fuse_known_modules, fuse_modules, fuse_modules_qat
from metatensor.torch_api.torch.ao.quantization.stubs import DeQuantStub, QuantStub, QuantWrapper

__all__ = [
    "DeQuantStub", "FakeQuantize", "FakeQuantizeBase", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver", "PlaceholderObserver", "QConfig", "QConfigMapping", "QuantStub",
    "QuantWrapper", "convert", "default_dynamic_qconfig", "default_fake_quant", "default_observer",
    "default_per_channel_weight_observer", "default_qconfig", "default_weight_observer", "disable_fake_quant",
    "disable_observer", "enable_fake_quant", "enable_observer", "fuse_known_modules", "fuse_modules", "fuse_modules_qat",
    "get_default_qat_qconfig", "get_default_qconfig", "prepare", "prepare_qat", "propagate_qconfig_", "quantize",
    "quantize_dynamic", "quantize_qat",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("observer", "qconfig", "stubs"))

_WHY = "metatensor has no quantized tensors; quantize with PyTorch"


class QConfig(namedtuple("QConfig", ("activation", "weight"))):
    """A pair of functions that create the observers of activations and of weights.

    Raise ValueError if one of them is a module instead.
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        from metatensor.nn import Module

        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError("QConfig: expected functions or classes that create observers, such as MinMaxObserver, not observers")
        return super().__new__(cls, activation, weight)


class _Maker:
    """A substitute for a function that creates an observer.

    It can be stored in a `QConfig`, and raises when it is called.
    """

    def __init__(self, name: str, options: dict[str, Any] | None = None) -> None:
        self.name, self.options = name, options or {}

    def with_args(self, **options: Any) -> _Maker:
        """Return a copy with additional arguments."""
        return _Maker(self.name, {**self.options, **options})

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError(f"torch.ao.quantization.{self.name}: {_WHY}")

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.options.items())})"


default_observer, default_weight_observer = _Maker("default_observer"), _Maker("default_weight_observer")
default_per_channel_weight_observer = _Maker("default_per_channel_weight_observer")
default_histogram_observer = _Maker("default_histogram_observer")
default_fake_quant, default_weight_fake_quant = _Maker("default_fake_quant"), _Maker("default_weight_fake_quant")
default_per_channel_weight_fake_quant = _Maker("default_per_channel_weight_fake_quant")
default_placeholder_observer = _Maker("default_placeholder_observer")
float16_static_qconfig = float_qparams_weight_only_qconfig = QConfig(default_placeholder_observer, default_weight_observer)
default_qconfig = QConfig(default_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_placeholder_observer, default_weight_observer)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """Return the `QConfig` for a backend. Raise AssertionError for a backend that PyTorch does not have."""
    return _for_backend("get_default_qconfig", backend, QConfig(default_histogram_observer, default_per_channel_weight_observer))


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """Return the `QConfig` for training with a backend. Raise AssertionError for a backend that PyTorch does not have.
    """
    return _for_backend("get_default_qat_qconfig", backend, QConfig(default_fake_quant, default_per_channel_weight_fake_quant))


def _for_backend(name: str, backend: str, found: QConfig) -> QConfig:
    known = ("fbgemm", "x86", "qnnpack", "onednn")
    if backend not in known:
        raise AssertionError(f"{name}: expected one of {', '.join(known)}, got {backend!r}")
    return found


def enable_observer(mod: Any) -> None:
    """Do nothing, because there are no observers."""


disable_observer = enable_fake_quant = disable_fake_quant = enable_observer

_functions = functions(
    "ao.quantization", "convert prepare prepare_qat propagate_qconfig_ quantize quantize_dynamic quantize_qat", _WHY
)
convert, prepare, prepare_qat = _functions["convert"], _functions["prepare"], _functions["prepare_qat"]
propagate_qconfig_, quantize = _functions["propagate_qconfig_"], _functions["quantize"]
quantize_dynamic, quantize_qat = _functions["quantize_dynamic"], _functions["quantize_qat"]

_classes = kinds(
    "ao.quantization", "FakeQuantize FakeQuantizeBase HistogramObserver MinMaxObserver MovingAverageMinMaxObserver NoopObserver "
    "ObserverBase PerChannelMinMaxObserver PlaceholderObserver QConfigMapping", _WHY,
)  # fmt: skip
FakeQuantize, FakeQuantizeBase = _classes["FakeQuantize"], _classes["FakeQuantizeBase"]
HistogramObserver, MinMaxObserver = _classes["HistogramObserver"], _classes["MinMaxObserver"]
MovingAverageMinMaxObserver, NoopObserver = _classes["MovingAverageMinMaxObserver"], _classes["NoopObserver"]
ObserverBase, PerChannelMinMaxObserver = _classes["ObserverBase"], _classes["PerChannelMinMaxObserver"]
PlaceholderObserver, QConfigMapping = _classes["PlaceholderObserver"], _classes["QConfigMapping"]
for _one in _classes.values():
    _one.with_args = classmethod(lambda cls, **options: _Maker(cls.__name__, options))
