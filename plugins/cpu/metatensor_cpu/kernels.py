"""Kernels that are better on the host than the kit's: they come before those of the same name there."""

from metatensor.devices.array_kit.registry import KIT, KernelTable

TABLE = KernelTable("metatensor-cpu", parent=KIT)
kernel = TABLE.kernel
