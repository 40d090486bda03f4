"""The kernel policy ``cuda``: PyTorch on an NVIDIA GPU."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops
from metatensor.rules.parts import layers
from metatensor.rules.policies import attention
from metatensor.rules.policies.policy import Kernel, KernelPolicy, Workspace

__all__ = ["POLICY"]

_DERIVATIVES = "PyTorch, tools/autograd/derivatives.yaml"
_FLASH = "FlashAttention, csrc/flash_attn/flash_api.cpp, mha_bwd: softmax_d, dq_accum, dk_expanded, dv_expanded"


def _whole(*args: Any) -> None:
    """Create no parts."""


# RMS norm -----------------------------------------------------------------------------------------------------


def rms_norm(input: Any, shape: Any, weight: Any, eps: Any) -> Any:
    return ops._fused_rms_norm(input, shape, weight, eps)[0]


# Dropout --------------------------------------------------------------------------------------------------------


def _fuses(input: Any, p: float, train: bool) -> bool:
    return train and 0 < p < 1 and input.numel() > 0


def dropout(input: Any, p: float, train: bool, *rest: Any) -> Any:
    if not _fuses(input, p, train) or rest[:-1] == (True,):
        return NotImplemented
    return ops.native_dropout(input, p, train, generator=rest[len(rest) - 1])[0]


def dropout_parts(input: Any, p: float, train: bool, *rest: Any) -> Any:
    if not _fuses(input, p, train):
        return layers.dropout(input, p, train)
    return ops.empty_like(input), ops.empty_like(input, dtype=mt.bool)


_DROPOUT = Kernel(dropout_parts, dropout, "one kernel; saves a mask of one byte an element", f"{_DERIVATIVES}: native_dropout")

KERNELS = {
    "nn.functional.scaled_dot_product_attention": Kernel(
        attention.cuda_attention_parts, attention.cuda_attention,
        "FlashAttention-2 for float16 and bfloat16 without a mask, else memory-efficient attention; saves query, key, value, output, the "
        "logarithms of the sums of exponentials (float32) and the state of the random numbers; in steps where neither has a kernel",
        f"{_DERIVATIVES}: _scaled_dot_product_flash_attention, _scaled_dot_product_efficient_attention; "
        "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp for the choice"),
    "_scaled_dot_product_flash_attention_backward": Kernel(
        attention.flash_backward, None, "one kernel with float32 sums of the gradient of the query", _FLASH),
    "nn.functional.rms_norm": Kernel(
        rms_norm, rms_norm, "one kernel; saves input, weight and the reciprocal root mean square (float32) of each row",
        f"{_DERIVATIVES}: _fused_rms_norm"),
    "dropout": _DROPOUT,
    "nn.functional.dropout": _DROPOUT,
    "nn.functional.layer_norm": Kernel(
        lambda *args: ops.native_layer_norm(*args), None, "one kernel; saves input, weight, bias, and the mean and the reciprocal standard "
        "deviation (float32) of each row", f"{_DERIVATIVES}: native_layer_norm"),
}  # fmt: skip

POLICY = KernelPolicy(
    "cuda", "PyTorch on an NVIDIA GPU: fused attention, RMS norm and dropout.", KERNELS,
    formulas={"native_dropout": _whole}, sums_in_place=True,
    workspaces=[
        Workspace("workspaces of cuBLAS, cuDNN convolutions and sorting", None, "chosen at run time by the library"),
        Workspace("partial sums of the gradients of layer norm's weight and bias", None, "depend on the number of multiprocessors"),
        Workspace("partial results of FlashAttention in inference", None, "depend on the number of multiprocessors"),
        Workspace("reserve space of cuDNN's recurrences, whose steps are counted instead", None, "not documented"),
        Workspace("context of the device", None, "depends on the driver and the loaded kernels"),
    ],
)  # fmt: skip
