"""The old name of functions in `torch.library`."""

from metatensor.torch_api.torch.library import custom_op, get_ctx, impl, impl_abstract

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]
