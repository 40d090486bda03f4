"""The old location of the ONNX exporter, from which libraries import it."""

from metatensor.torch_api.torch.onnx import (
    export,
    is_in_onnx_export,
    register_custom_op_symbolic,
    select_model_mode_for_export,
    unregister_custom_op_symbolic,
)

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic", "select_model_mode_for_export", "unregister_custom_op_symbolic"]
