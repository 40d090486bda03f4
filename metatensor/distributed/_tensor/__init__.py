"""An older name of `torch.distributed.tensor`."""

from metatensor.distributed.tensor import *  # noqa: F403
