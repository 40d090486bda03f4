"""The old name of `torch.ao.quantization`."""

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch.ao.quantization import *  # noqa: F403

_QUANTIZATION = "metatensor.torch_api.torch.ao.quantization"
__getattr__, __dir__ = attributes(
    __name__, (), {name: f"{_QUANTIZATION}.{name}" for name in ("observer", "qconfig", "stubs")}
)
