"""The parts that `torch.utils.data` is made of."""

from metatensor.torch_api._lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("collate", "fetch", "pin_memory", "worker", "workers"))
