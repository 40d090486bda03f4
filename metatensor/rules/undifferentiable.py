"""The operators that have no gradient, in PyTorch neither.

`metatensor devices --ops NAME` lists the operators without a gradient that are missing here. A call of one of these, with
gradients recorded, has a node through which `backward` raises NotImplementedError.
"""

from __future__ import annotations

__all__ = ["UNDIFFERENTIABLE", "WHOLE", "WITHOUT_DERIVATIVE"]

# Their results are integers or truth values.
WHOLE = frozenset("""
    signbit bitwise_not logical_not gcd lcm bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    nn.functional.one_hot multinomial where.indices
""".split())

# PyTorch has no derivative of these.
WITHOUT_DERIVATIVE = frozenset("""
    floor_divide heaviside scatter.reduce scatter.value_reduce embedding_renorm_ histogram histogram.bin_ct bincount geqrf
    linalg.ldl_factor_ex linalg.ldl_solve bernoulli.p binomial
""".split())

UNDIFFERENTIABLE = WHOLE | WITHOUT_DERIVATIVE
