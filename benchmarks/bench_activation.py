"""Activation functions."""

from .harness import suite, table

CASES = table(
    "activation",
    """
relu | m.relu(a)
relu_ | y.relu_()
F.celu | F.celu(a)
F.elu | F.elu(a)
F.gelu | F.gelu(a)
F.gelu tanh | F.gelu(a, approximate="tanh")
F.glu | F.glu(t)
F.hardshrink | F.hardshrink(a)
F.hardsigmoid | F.hardsigmoid(a)
F.hardswish | F.hardswish(a)
F.hardtanh | F.hardtanh(a)
F.leaky_relu | F.leaky_relu(a)
F.logsigmoid | F.logsigmoid(a)
F.mish | F.mish(a)
F.prelu | F.prelu(t, row)
F.relu | F.relu(a)
F.relu6 | F.relu6(a)
F.rrelu | F.rrelu(a)
F.selu | F.selu(a)
F.sigmoid | F.sigmoid(a)
F.silu | F.silu(a)
F.softplus | F.softplus(a)
F.softshrink | F.softshrink(a)
F.softsign | F.softsign(a)
F.tanh | F.tanh(a) | np.tanh(a)
F.tanhshrink | F.tanhshrink(a)
F.threshold | F.threshold(a, 0.1, 0.0)
""",
)

Activation = suite(CASES)
