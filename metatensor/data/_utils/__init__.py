"""Implementation modules of `torch.utils.data`."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("collate", "fetch", "pin_memory", "worker", "workers"))
