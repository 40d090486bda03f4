"""Kernels that take precedence over the kit's kernels of the same name, because they are better on the host."""

from metatensor.devices.array_kit.registry import KIT, KernelTable

TABLE = KernelTable("metatensor-cpu", parent=KIT)
kernel = TABLE.kernel
