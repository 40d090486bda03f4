"""The older name of `torch.distributed.tensor`."""

from metatensor.torch_api.torch.distributed.tensor import *  # noqa: F403
