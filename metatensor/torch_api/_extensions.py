"""Operator declarations of known PyTorch extensions, so that the libraries that contain them can be imported.

A compiled extension cannot be loaded without PyTorch. For the extensions listed here, only the operators are declared.
The library's own Python functions compute the metadata of results, so that its models run on meta. Running these
operators on tensors with data raises.
"""

from __future__ import annotations

import os

__all__ = ["KNOWN", "known_schemas"]

_ROI = "Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width"
_ROI_BACKWARD = "int batch_size, int channels, int height, int width"
_DEFORM = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, int stride_w, int pad_h, int pad_w, "
    "int dilation_h, int dilation_w, int groups, int offset_groups, bool use_mask"
)
_GRAD_ROI = "Tensor grad, Tensor rois, float spatial_scale, int pooled_height, int pooled_width"
_GRAD_MAPPED = "Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, int pooled_height, int pooled_width"

KNOWN = {
    "torchvision": (
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        f"roi_align({_ROI}, int sampling_ratio, bool aligned) -> Tensor",
        f"_roi_align_backward({_GRAD_ROI}, {_ROI_BACKWARD}, int sampling_ratio, bool aligned) -> Tensor",
        "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, "
        "float spatial_scale, int pooled_height, int pooled_width, int sampling_ratio, bool aligned) -> Tensor",
        f"roi_pool({_ROI}) -> (Tensor, Tensor)",
        "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, int pooled_height, int pooled_width, "
        f"{_ROI_BACKWARD}) -> Tensor",
        f"ps_roi_align({_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
        f"_ps_roi_align_backward({_GRAD_MAPPED}, int sampling_ratio, {_ROI_BACKWARD}) -> Tensor",
        f"ps_roi_pool({_ROI}) -> (Tensor, Tensor)",
        f"_ps_roi_pool_backward({_GRAD_MAPPED}, {_ROI_BACKWARD}) -> Tensor",
        "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
        f"deform_conv2d({_DEFORM}) -> Tensor",
        f"_deform_conv2d_backward(Tensor grad, {_DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        "_cuda_version() -> int",
    ),
}
"""Operators by the package whose ``_C`` extension defines them."""


def known_schemas(path: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the namespace and the operators of a compiled extension, or None if it is not known."""
    folder, name = os.path.split(os.fspath(path))
    package = os.path.basename(folder)
    return (package, KNOWN[package]) if name.startswith("_C.") and package in KNOWN else None
