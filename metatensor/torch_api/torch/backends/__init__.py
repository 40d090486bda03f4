"""Settings of the libraries that PyTorch uses. They are stored, but metatensor's kernels do not read them."""

from __future__ import annotations

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(
    __name__,
    (
        "cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum",
        "quantized", "xnnpack",
    ),
)  # fmt: skip

fp32_precision = "none"
