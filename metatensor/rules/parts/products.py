"""x"""
from metatensor.rules.parts import one_kernel
one_kernel("nn.functional.linear")
