"""`torch.fx.passes.split_module`, whose function raises."""

from metatensor._core.absent import function

split_module = function("fx.passes.split_module.split_module", "metatensor does not divide graphs; build a Graph for each part")
