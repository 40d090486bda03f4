"""Execution of kernels on devices with data."""

from metatensor._core.op import Op

def forget_kernels(op: Op) -> None: ...
