"""Operators that have no gradient, as in PyTorch.

`metatensor devices --ops NAME` lists the operators that have no gradient and are not in these tables. If gradients are
recorded, the result of such an operator has a node, and `backward` raises NotImplementedError when it reaches the node.
"""

from __future__ import annotations

__all__ = ["UNDIFFERENTIABLE", "WHOLE", "WITHOUT_DERIVATIVE"]

# Operators whose results are integers or truth values.
WHOLE = frozenset("""
    signbit bitwise_not logical_not gcd lcm bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    nn.functional.one_hot multinomial where.indices
""".split())

# Operators for which PyTorch has no derivative.
WITHOUT_DERIVATIVE = frozenset("""
    floor_divide heaviside scatter.reduce scatter.value_reduce embedding_renorm_ histogram histogram.bin_ct bincount geqrf
    linalg.ldl_factor_ex linalg.ldl_solve bernoulli.p binomial
""".split())

UNDIFFERENTIABLE = WHOLE | WITHOUT_DERIVATIVE
