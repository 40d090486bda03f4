"""Programs for gradients: graphs of random calls, views, writes, hooks and nodes, walked in many ways.

The variables ``h0``, ``h1`` and so on are tensors of a graph. Placeholders are those of `surface`, and ``{h}``, a tensor of the graph.
"""

import re

from .calls import from_schema
from .values import Values

# Lines that make a tensor of the graph of others.
STEPS = """
{h} * {h}
{h} + {h}
{h} - {s}
{h} / {h}
{h} ** 2
{h}.exp()
{h}.sin()
{h}.relu()
{h}.sum()
{h}.sum({i})
{h}.mean(-1, keepdim=True)
{h}.view(-1)
{h}.reshape(-1)
{h}.flatten()
{h}[{key}]
{h}[0]
{h}[..., 0]
{h}[1:]
{h}.t()
{h}.transpose(0, -1)
{h}.permute(*range({h}.ndim)[::-1])
{h}.expand(2, *{h}.shape) if {h}.ndim < 9 else {h}
{h}.unsqueeze({i})
{h}.squeeze()
{h}.diagonal()
{h}.real
{h}.conj()
{h}.detach()
{h}.detach().requires_grad_()
{h}.clone()
{h}.double()
{h}.to(mt.{dt})
{h}.to('cpu')
{h}.unbind(0)[0]
{h}.split(1)[0]
{h}.chunk(2)[-1]
{h}.max(0)[0]
{h}.sort()[0]
{h}.topk(1)[0]
{h} @ {h}.mT
{h}.softmax(-1)
{h}.cumsum(0)
{h}.as_strided(({i} % 4, 2), (1, 2))
{h}.untyped_storage() and {h}
{h}.as_subclass(Override) * 2
mt.cat([{h}, {h}])
mt.stack([{h}, {h}])
mt.where({h} > 0, {h}, {s})
mt.einsum('...i,...i->...', {h}, {h})
nn.functional.layer_norm({h}, {h}.shape[-1:])
nn.functional.linear({h}, {h})
nn.functional.dropout({h})
nn.functional.embedding({t}, {h})
nn.functional.conv1d({h}, {h})
Scaled.apply({h}, {h})
Scaled.apply({h}, {any})
Written.apply({h} * 1)
Odd.apply({h}, {any})
utils_checkpoint({h})
""".strip().split("\n")

# Lines that change tensors of the graph or hang something on it.
ACTS = """
{h}.mul_({h})
{h}.add_({s})
{h}[0].mul_(2)
{h}[{key}] = {h}
{h}[{key}] = {s}
{h}.view(-1)[0].zero_()
{h}.detach().mul_(2)
{h}.data.mul_(2)
{h}.data = {h}
{h}.t_()
{h}.squeeze_()
{h}.unsqueeze_(0)
{h}.copy_({h})
{h}.normal_()
{h}.set_({h})
{h}.resize_(2)
{h}.untyped_storage().resize_(0)
{h}.detach_()
{h}.requires_grad_()
{h}.requires_grad_(False)
{h}.requires_grad = {any}
{h}.retain_grad()
{h}.grad = {h}
{h}.grad = None
{h}.grad
{h}.grad.mul_(2)
{h}.unbind(0)[0].mul_(2)
mt.add({h}, {h}, out={h})
{h}.register_hook(lambda g: None)
{h}.register_hook(lambda g: g * 2)
{h}.register_hook(lambda g: {any})
{h}.register_hook(lambda g: g.mul_(2))
{h}.register_hook(lambda g: {h}.backward(g, retain_graph=True))
{h}.register_hook(lambda g: {h}.sum().backward())
{h}.register_hook(lambda g: gc.collect(0))
{h}.register_hook(lambda g: {h}.grad_fn.register_hook(lambda *a: None))
{h}.register_hook({any})
{h}.register_hook(lambda g: {h}.requires_grad_(False))
handle = {h}.register_hook(lambda g: handle.remove())
{h}.register_post_accumulate_grad_hook(lambda t: setattr(t, 'grad', None))
{h}.register_post_accumulate_grad_hook(lambda t: {any})
{h}.grad_fn.register_hook(lambda gi, go: None)
{h}.grad_fn.register_hook(lambda gi, go: tuple(g if g is None else g * 2 for g in gi))
{h}.grad_fn.register_hook(lambda gi, go: {any})
{h}.grad_fn.register_hook(lambda gi, go: gi + gi)
{h}.grad_fn.register_prehook(lambda go: go)
{h}.grad_fn.register_prehook(lambda go: {any})
{h}.grad_fn.register_prehook(lambda go: (None,) * len(go))
{h}.grad_fn.metadata[{h}] = {h}
{h}.grad_fn({h})
{h}.grad_fn({any})
{h}.grad_fn.next_functions[0][0]({h})
{h}.grad_fn.next_functions[0][0].next_functions; repr({h}.grad_fn)
{h}.grad_fn._saved_self
{h}.grad_fn._saved_result
{h}.grad_fn._saved_other.mul_(2)
{h}.grad_fn._input_metadata; {h}.grad_fn._sequence_nr()
{h}.grad_fn.next_functions[0][0].variable
autograd.graph.register_multi_grad_hook([{h}, {h}], lambda g: None)
autograd.graph.register_multi_grad_hook([{h}, {h}], lambda g: None, mode='any')
autograd.graph.increment_version({h})
mt.nn.utils.clip_grad_norm_([{h}, {h}], 1.0)
mt.optim.SGD([{h}], lr=0.1).step()
mt.optim.AdamW([{h}]).step()
copy.deepcopy({h}); pickle.loads(pickle.dumps({h}))
copy.copy({h}.grad_fn); weakref.ref({h}.grad_fn)
type({h}.grad_fn).__new__(type({h}.grad_fn))({h})
""".strip().split("\n")

# Lines that walk the graph.
WALKS = """
{h}.sum().backward()
{h}.sum().backward(retain_graph=True)
{h}.sum().backward(create_graph=True)
{h}.sum().real.backward()
{h}.backward({h})
{h}.backward({h}.detach())
{h}.backward({any})
{h}.backward(mt.ones_like({h}), inputs=[{h}])
{h}.sum().backward(inputs=[{h}, {h}])
r = autograd.grad({h}.sum(), {h}, allow_unused=True)
r = autograd.grad({h}.sum(), [{h}, {h}], retain_graph=True, allow_unused=True)
r = autograd.grad({h}.sum(), {h}, create_graph=True)[0]
r = autograd.grad(autograd.grad({h}.sum(), {h}, create_graph=True)[0].sum(), {h}, allow_unused=True, materialize_grads=True)
r = autograd.grad([{h}, {h}], [{h}, {h}], [mt.ones_like({h}), {h}], allow_unused=True)
r = autograd.grad({h}, {h}, {h}, is_grads_batched=True, allow_unused=True)
r = autograd.grad({any}, {any}, {any})
autograd.backward([{h}, {h}], [{h}, None])
autograd.backward([{h}.sum(), {h}.sum()])
autograd.backward(autograd.graph.GradientEdge({h}.grad_fn, {i}), {h})
autograd.backward(autograd.graph.GradientEdge({any}, {any}), {any})
r = autograd.grad({h}.sum(), autograd.graph.get_gradient_edge({h}), allow_unused=True)
r = autograd.grad({h}.sum(), autograd.graph.GradientEdge({h}.grad_fn, {i}))
in_threads(lambda: {h}.sum().backward(), lambda: {h}.sum().backward())
in_threads(lambda: {h}.sum().backward(retain_graph=True), lambda: ({h} * 2).sum().backward())
in_threads(lambda: {h}.sum().backward(retain_graph=True), lambda: {h}.mul_(1), lambda: gc.collect())
del {h}; gc.collect(0)
with mt.no_grad(): {h}.sum().backward(); {h}.mul_(2)
with mt.inference_mode(): r = {h} * 2; {h}[0].mul_(2)
with autograd.set_detect_anomaly(True): ({h} * {h}).sqrt().sum().backward()
with autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t): ({h} * {h}).sum().backward()
with autograd.graph.saved_tensors_hooks(lambda t: {any}, lambda t: {any}): ({h} * {h}).sum().backward()
with autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: {h}): ({h} * {h}).exp().sum().backward()
with autograd.graph.save_on_cpu(): r = ({h} * {h}).sum(); r.backward()
with autograd.graph.allow_mutation_on_saved_tensors(): r = {h} * {h}; {h}.mul_(2); r.sum().backward()
with Meddler({kind}): ({h} * {h}).sum().backward()
with mt.autocast('cpu'): ({h} @ {h}.mT).sum().backward()
r = mt.func.grad(lambda x: (x * {h}).sum())({h})
r = mt.func.vmap(lambda x: autograd.grad((x * x).sum(), x)[0])({h})
r = mt.func.vmap(mt.func.grad(lambda x: (x * x).sum()))({h})
""".strip().split("\n")

_GAP = re.compile(r"\{(\w+)\}")


def from_graphs(v, ops):
    """Return the lines of a graph and of walks over it."""
    v.huge = False
    v.forms = [f for f in v.forms if f != "huge"] + ["grad", "nonleaf", "parameter"] * 3
    if v.chance(0.9):
        v.dtype = v.pick(["float32", "float32", "float64", "complex64", "bfloat16"])
        v.base = [max(1, n) for n in v.base[:4]]
    names = []

    def add(text):
        names.append(f"h{len(names)}")
        v.lines.append(f"{names[-1]} = {text}")

    for _ in range(v.rng.randrange(1, 4)):
        shape = tuple(v.base) if v.chance(0.7) else tuple(v.shape())
        add(f"T({shape}, {v.dtype!r}, {v.pick(['grad', 'grad', 'nonleaf', 'parameter', 'view'])!r})")
    for _ in range(v.rng.randrange(2, 12)):
        kind = v.rng.random()
        if kind < 0.5:
            text = _fill(v, v.pick(STEPS), names)
            add(text)
        elif kind < 0.6:
            call = _of_graph(v, ops, names)
            add(call)
        elif kind < 0.8:
            v.lines += _fill(v, v.pick(ACTS), names).split("; ")
        else:
            v.lines.append(_fill(v, v.pick(WALKS), names))
    v.lines.append(_fill(v, v.pick(WALKS), names))
    if v.chance(0.3):
        v.lines.append(_fill(v, v.pick(WALKS), names))


def _of_graph(v, ops, names):
    """Return a call of a random operator, some of whose arguments are tensors of the graph."""
    inner = Values(v.rng, v.device, v.illegal)
    inner.huge, inner.base, inner.dtype = False, v.base, v.dtype
    inner.forms, inner.tensors = ["plain", "grad", "nonleaf"], list(v.tensors)
    from_schema(inner, ops)
    at = next(i for i, line in enumerate(inner.lines) if line.startswith("r = "))
    v.lines += inner.lines[:at]
    v.tensors = inner.tensors
    call = re.sub(r"\bt\d+\b", lambda m: v.pick(names) if v.chance(0.6) else m[0], inner.lines[at][4:])
    return f"first({call})"


def _fill(v, template, names):
    def fill(match):
        match match[1]:
            case "h":
                return v.pick(names)
            case "t":
                return v.tensor("index")
            case "any":
                return v.anything() if v.chance(0.5) else v.pick(["None", "3", "'a'", "()", "(None,)", "[]", v.pick(names)])
            case "i":
                return str(v.pick([0, 0, 1, 1, -1, 2, 5]))
            case "s":
                return v.scalar()
            case "key":
                return v.index()
            case "dt":
                return v.pick(["float64", "float16", "bfloat16", "complex64", "int64"])
            case "kind":
                return repr(v.pick(["pass", "pass", "raise", "args", "none", "twice", "leave", "clone", "less"]))
        return match[0]

    return _GAP.sub(fill, template)
