"""Functions for tests."""

from metatensor.torch_api.torch.testing._comparison import assert_close
from metatensor.torch_api.torch.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

assert_allclose = assert_close
