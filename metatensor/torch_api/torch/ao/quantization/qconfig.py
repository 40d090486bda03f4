"""Configurations of observers for activations and weights."""

from metatensor.torch_api.torch.ao.quantization import QConfig, default_qconfig, get_default_qat_qconfig, get_default_qconfig

__all__ = ["QConfig", "default_qconfig", "get_default_qat_qconfig", "get_default_qconfig"]
