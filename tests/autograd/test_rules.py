"""Which operators have no gradient yet: the recorded calls of the oracle, differentiated on meta.

`python -m autograd.test_rules` (in tests/) writes the list anew. It may only become shorter.
"""

from pathlib import Path

import metatensor as mt
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


def test_operators_without_a_rule_are_listed():
    listed = LIST.read_text().split()
    found = without_rule()
    assert not set(found) - set(listed), "operators that lost their gradient"
    assert not set(listed) - set(found), "take these off the list: they have a gradient now"


if __name__ == "__main__":
    LIST.write_text("\n".join(without_rule()) + "\n")
