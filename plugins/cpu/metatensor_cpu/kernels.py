"""Kernels that are better on the host than the kit's kernels of the same name, over which they take precedence."""

from metatensor.devices.array_kit.registry import KIT, KernelTable

TABLE = KernelTable("metatensor-cpu", parent=KIT)
kernel = TABLE.kernel
