"""Programs from and to ONNX models. Needs the ``onnx`` package, the extra of the same name."""
