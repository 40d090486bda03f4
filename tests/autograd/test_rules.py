"""Which operators have no gradient yet: the recorded calls of the oracle, differentiated on meta.

`python -m autograd.test_rules` (in tests/) writes the list anew. It may only become shorter.
"""

from pathlib import Path

import pytest

import metatensor as mt
from metatensor._core.op import registry
from metatensor.library.gradients import has_gradient
from metatensor.rules.undifferentiable import WITHOUT_DERIVATIVE
from oracle.records import Decoder, Missing, Resolver, files, invoke, is_tensor, read

LIST = Path(__file__).with_name("without_rule.txt")


def tensors(x):
    if is_tensor(x):
        yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from tensors(item)
    elif isinstance(x, dict):
        yield from tensors(list(x.values()))


def differentiate(resolver, record):
    """Differentiate a recorded call. Return what an operator without a rule says, or None."""
    decode = Decoder(mt, "meta")
    args, kwargs = [decode(x) for x in record["args"]], {name: decode(x) for name, x in record["kw"].items()}
    inputs = [t for t in tensors([args, kwargs]) if t.is_floating_point() or t.is_complex()]
    for t in inputs:
        t.requires_grad_()
    try:
        outputs = [t for t in tensors(invoke(resolver, record["call"], args, kwargs)) if t.requires_grad and not t.is_leaf]
    except Exception:
        return None  # the call is an error, or needs values
    if not outputs:
        return None
    try:
        mt.autograd.grad(outputs, inputs, [mt.ones_like(t) for t in outputs], allow_unused=True)
    except mt.DataDependentError:
        return None
    except NotImplementedError as error:
        return str(error)
    return None


def without_rule():
    """Return the operators whose gradients need a rule that is missing, as the errors name them."""
    resolver, found = Resolver(mt), set()
    for record in read(files(), kinds={"sample"}, sample=2):
        if record["cat"] != "value":
            continue
        try:
            said = differentiate(resolver, record)
        except Missing:
            continue
        if said is not None and "has no rule" in said:
            found.add(said.partition(":")[0])
    return sorted(found)


@pytest.mark.slow
def test_operators_without_a_rule_are_listed():
    listed = LIST.read_text().split()
    found = without_rule()
    assert not set(found) - set(listed), "operators that lost their gradient"
    assert not set(listed) - set(found), "take these off the list: they have a gradient now"


def test_operators_declare_their_gradients():
    """An operator has a gradient, or is known to have none in PyTorch either."""
    from metatensor.devices.coverage import without_gradient
    from metatensor.rules.undifferentiable import UNDIFFERENTIABLE

    assert [name for name in without_gradient() if "::" not in name] == []
    names = {overload.qualname for op in registry.values() for overload in op.overloads}
    assert UNDIFFERENTIABLE <= names
    assert not [name for name in UNDIFFERENTIABLE if has_gradient(name)]


CALLS = {
    "floor_divide": "torch.floor_divide(x, x)", "heaviside": "torch.heaviside(x, x)", "bernoulli.p": "torch.bernoulli(x, 0.5)",
    "scatter.reduce": "torch.scatter(x, 0, i, x, reduce='add')", "scatter.value_reduce": "torch.scatter(x, 0, i, 2.0, reduce='add')",
    "embedding_renorm_": "torch.embedding_renorm_(m * 1, i, 1.0, 2.0)", "histogram": "torch.histogram(x, x.detach())[0]",
    "histogram.bin_ct": "torch.histogram(x, 3)[0]", "bincount": "torch.bincount(i, x)", "geqrf": "torch.geqrf(m)[0]",
    "linalg.ldl_factor_ex": "torch.linalg.ldl_factor_ex(m)[0]", "linalg.ldl_solve": "torch.linalg.ldl_solve(m, i.int() + 1, m)",
    "binomial": "torch.binomial(x, x)",
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(WITHOUT_DERIVATIVE))
def test_pytorch_has_no_gradient_either(name):
    torch = pytest.importorskip("torch")
    x, m, i = torch.tensor([0.1, 0.5, 0.9], requires_grad=True), torch.eye(3, requires_grad=True), torch.tensor([0, 1, 2])
    with pytest.raises(RuntimeError, match="derivative for .* is not implemented"):
        eval(CALLS[name], {"torch": torch, "x": x, "m": m, "i": i}).sum().backward()


@pytest.mark.parametrize("draw", [
    "uniform_()", "normal_()", "exponential_()", "cauchy_()", "log_normal_()", "geometric_(0.5)", "random_(4)", "random_(2, 5)",
])  # fmt: skip
def test_drawing_in_place_forgets_the_values(draw):
    x = mt.ones(3, device="cpu", requires_grad=True)
    y = x * 2
    eval("y." + draw)
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0] and y.grad_fn.name().startswith(draw.partition("_")[0][:4].capitalize())


if __name__ == "__main__":
    LIST.write_text("\n".join(without_rule()) + "\n")
