"""Settings of CUDA libraries for matrix products, FFTs, linear algebra and attention."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

__all__ = [
    "SDPAParams", "allow_fp16_bf16_reduction_math_sdp", "can_use_cudnn_attention", "can_use_efficient_attention",
    "can_use_flash_attention", "cudnn_sdp_enabled", "cufft_plan_cache", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp",
    "enable_mem_efficient_sdp", "flash_sdp_enabled", "fp16_bf16_reduction_math_sdp_allowed", "is_built",
    "is_flash_attention_available", "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled", "preferred_blas_library",
    "preferred_linalg_library", "sdp_kernel",
]  # fmt: skip


class _Matmul:
    """Settings of matrix products. Setting `allow_tf32` calls ``torch.set_float32_matmul_precision``."""

    fp32_precision = "none"
    allow_fp16_reduced_precision_reduction = True
    allow_fp16_reduced_precision_reduction_split_k = True
    allow_bf16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction_split_k = True
    allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether the float32 precision is lower than "highest"."""
        from metatensor.torch_api.torch import _settings

        return _settings.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        from metatensor.torch_api.torch import _settings

        self.fp32_precision = "tf32" if value else "ieee"
        _settings.set_float32_matmul_precision("high" if value else "highest")


matmul = _Matmul()
cufft_plan_cache = SimpleNamespace(size=0, max_size=0, clear=lambda: None)


def is_built() -> bool:
    """Return whether a plugin provides the device type cuda."""
    from metatensor import plugins

    return "cuda" in plugins.device_types()


_libraries = {"linalg": "default", "blas": "default"}


def preferred_linalg_library(backend: str | None = None) -> str:
    """Store a choice if one is given, and return the stored one."""
    return _prefer("linalg", backend, ("default", "cusolver", "magma"))


def preferred_blas_library(backend: str | None = None) -> str:
    """Store a choice if one is given, and return the stored one."""
    return _prefer("blas", backend, ("default", "cublas", "cublaslt", "hipblaslt", "ck"))


def _prefer(kind: str, choice: str | None, known: tuple[str, ...]) -> str:
    if choice is not None:
        if choice.lower() not in known:
            raise RuntimeError(f"torch.backends.cuda.preferred_{kind}_library: expected one of {', '.join(known)}, got {choice!r}")
        _libraries[kind] = choice.lower()
    return _libraries[kind]


# Attention ------------------------------------------------------------------------------------------------------------

_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "reduction": False}


def enable_flash_sdp(enabled: bool) -> None:
    """Store the setting. It has no effect, because attention has only one implementation."""
    _sdp["flash"] = bool(enabled)


def flash_sdp_enabled() -> bool:
    """Return the value set by `enable_flash_sdp`."""
    return _sdp["flash"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Store the setting. It has no effect, because attention has only one implementation."""
    _sdp["mem_efficient"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return the value set by `enable_mem_efficient_sdp`."""
    return _sdp["mem_efficient"]


def enable_math_sdp(enabled: bool) -> None:
    """Store the setting. It has no effect, because attention has only one implementation."""
    _sdp["math"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Return the value set by `enable_math_sdp`."""
    return _sdp["math"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Store the setting. It has no effect, because attention has only one implementation."""
    _sdp["cudnn"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Return the value set by `enable_cudnn_sdp`."""
    return _sdp["cudnn"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Store the setting."""
    _sdp["reduction"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Return the value set by `allow_fp16_bf16_reduction_math_sdp`."""
    return _sdp["reduction"]


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Any:
    """Return a context manager that changes the four settings (deprecated in PyTorch)."""
    before = dict(_sdp)
    _sdp.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _sdp.update(before)


class SDPAParams(NamedTuple):
    """The arguments of a call of attention, for the functions below."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False


def is_flash_attention_available() -> bool:
    """Return False, because attention is computed from its formula."""
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False."""
    return False


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False."""
    return False


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False."""
    return False
