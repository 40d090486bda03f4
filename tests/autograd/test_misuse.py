"""Misuse of gradients raises PyTorch's class of exception, and says which operator it was, where, and what to do."""

import warnings

import pytest

import metatensor as mt
import metatensor.torch_api.torch.amp as amp

pytest.importorskip("metatensor_cpu")


class Library:
    """metatensor, with PyTorch's place for GradScaler."""

    amp = amp

    def __getattr__(self, name):
        return getattr(mt, name)


def misuse(m, code):
    """Run one of the programs below with `m` as the library."""

    def leaf(*shape, **kwargs):
        return m.ones(*(shape or (2, 3)), requires_grad=True, **kwargs)

    def function(forward=lambda ctx, x: x * 2, backward=None, **methods):
        methods["forward"] = forward
        if backward is not None:
            methods["backward"] = backward
        return type("Mine", (m.autograd.Function,), {name: staticmethod(method) for name, method in methods.items()})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "<misuse>", "exec"), {"m": m, "leaf": leaf, "function": function})


# What is done, the class, what the message says (a regular expression), and the program.
TABLE = [
    ("backward twice", RuntimeError, "SumBackward0: .* freed.*retain_graph=True", "y = leaf().exp().sum(); y.backward(); y.backward()"),
    ("grad twice", RuntimeError, "SumBackward0: .* freed.*retain_graph=True",
     "x = leaf(); y = (x * x).sum(); m.autograd.grad(y, x); m.autograd.grad(y, x)"),
    ("backward of part of a freed graph", RuntimeError, "ExpBackward0: .* freed.*retain_graph=True",
     "x = leaf(); h = x.exp(); a = h.sum(); b = (h * 2).sum(); a.backward(); b.backward()"),
    ("backward of a matrix", RuntimeError, r"backward: the tensor has shape \[2, 3\]; without a gradient it must have one element\. Sum",
     "leaf().exp().backward()"),
    ("grad of a matrix", RuntimeError, r"grad: the tensor has shape \[2, 3\]; without a gradient it must have one element\. Sum it, or",
     "x = leaf(); m.autograd.grad(x.exp(), x)"),
    ("backward of complex scalar", RuntimeError,
     "backward: pass a gradient: it defaults to 1 only for a real scalar, and the tensor is .*complex64",
     "m.ones((), dtype=m.complex64, requires_grad=True).exp().backward()"),
    ("backward without requires grad", RuntimeError, r"backward: .*no grad_fn; .*under no_grad\(\) or detached", "m.ones(()).backward()"),
    ("backward after detach", RuntimeError, r"backward: .*no grad_fn; .*under no_grad\(\) or detached", "leaf().sum().detach().backward()"),
    ("backward of no grad result", RuntimeError, r"backward: .*no grad_fn; .*under no_grad\(\) or detached",
     """
x = leaf()
with m.no_grad():
    y = x.sum()
y.backward()
"""),
    ("backward of comparison", RuntimeError, r"backward: .*no grad_fn; .*under no_grad\(\) or detached", "(leaf() > 0).sum().backward()"),
    ("backward of argmax", RuntimeError, r"backward: .*no grad_fn; .*under no_grad\(\) or detached", "leaf().argmax().backward()"),
    ("gradient of wrong shape", RuntimeError, r"backward: the gradient has shape \[3, 2\], but the tensor has shape \[2, 3\]",
     "leaf().exp().backward(m.ones(3, 2))"),
    ("gradient of broadcastable shape", RuntimeError, r"backward: the gradient has shape \[3\], but the tensor has shape \[2, 3\]",
     "leaf().exp().backward(m.ones(3))"),
    ("gradient complex for real", RuntimeError,
     r"backward: the gradient is metatensor\.complex64, but the tensor is metatensor\.float32: both",
     "leaf().exp().backward(m.ones(2, 3, dtype=m.complex64))"),
    ("gradient real for complex", RuntimeError,
     r"backward: the gradient is metatensor\.float32, but the tensor is metatensor\.complex64: both",
     "m.ones(2, dtype=m.complex64, requires_grad=True).exp().backward(m.ones(2))"),
    ("gradient on another device", RuntimeError, r"backward: the gradient is on meta, but the te.*; move it with to\(\)",
     "leaf().exp().backward(m.ones(2, 3, device='meta'))"),
    ("gradient a number", TypeError, "backward: expected a Tensor, a sequence or None as gradients, got float",
     "leaf().sum().backward(1.0)"),
    ("gradients too few", RuntimeError, "backward: got 1 gradients for 2 tensors",
     "x = leaf(); m.autograd.backward([x.exp(), x.exp()], [m.ones(2, 3)])"),
    ("backward of a number", TypeError, "'float' object is not iterable", "m.autograd.backward(3.0)"),
    ("backward inputs empty", RuntimeError, "backward: inputs is empty; leave it out to compute the gradients of all leaves",
     "leaf().sum().backward(inputs=[])"),
    ("backward inputs no grad", RuntimeError, r"backward: input 0, of shape \[2\], does not r.*; call requires_grad_\(\) before it is used",
     "leaf().sum().backward(inputs=[m.ones(2)])"),
    ("backward input wrong type", RuntimeError, "backward: input 0 is int, not a Tensor or GradientEdge",
     "leaf().sum().backward(inputs=[3])"),
    ("grad no inputs", RuntimeError, "grad: inputs is empty; name the tensors whose gradients are wanted",
     "m.autograd.grad(leaf().sum(), [])"),
    ("grad input wrong type", TypeError, "'int' object is not iterable", "m.autograd.grad(leaf().sum(), 3)"),
    ("grad input no grad", RuntimeError, r"grad: input 0, of shape \[2\], does not requi.*; call requires_grad_\(\) before it is used",
     "m.autograd.grad(leaf().sum(), m.ones(2))"),
    ("grad unused", RuntimeError, "grad: the outputs do not depend on input 0; pass allow_unused=True to get None for it",
     "x, y = (leaf(), leaf()); m.autograd.grad(x.sum(), y)"),
    ("grad of detached input", RuntimeError, "grad: the outputs do not depend on input 0; pass allow_unused=True to get None for it",
     "x = leaf(); y = x.detach().requires_grad_(); m.autograd.grad(x.sum(), y)"),
    ("grad view of input taken later", RuntimeError,
     "grad: the outputs do not depend on input 0; pass allow_unused=True to get None for it",
     "x = leaf(); y = x.sum(); m.autograd.grad(y, x[0])"),
    ("weight of nll_loss requires grad", RuntimeError, r"nll_loss.*argument 'weight' requires grad.*pass weight.detach\(\)",
     "m.nn.functional.nll_loss(leaf(), m.tensor([0, 1]), weight=leaf(3))"),
    ("weight of binary_cross_entropy requires grad", RuntimeError, "binary_cross_entropy.*argument 'weight' requires grad",
     "m.nn.functional.binary_cross_entropy(m.rand(2, 3), m.rand(2, 3), weight=leaf())"),
    ("pos_weight requires grad", RuntimeError, "binary_cross_entropy_with_logits.*argument 'pos_weight' requires grad",
     "m.nn.functional.binary_cross_entropy_with_logits(leaf(), m.rand(2, 3), pos_weight=leaf(3))"),
    ("weight of multi_margin_loss requires grad", RuntimeError, "multi_margin_loss.*argument 'weight' requires grad",
     "m.nn.functional.multi_margin_loss(leaf(), m.tensor([0, 1]), weight=leaf(3))"),
    ("target of soft_margin_loss requires grad", RuntimeError, "soft_margin_loss.*argument 'target' requires grad",
     "m.nn.functional.soft_margin_loss(m.rand(2, 3), leaf())"),
    ("rtol of pinv requires grad", RuntimeError, "pinv.*argument 'rtol' requires grad", "m.linalg.pinv(leaf(), rtol=leaf(()))"),
    ("random samples require grad", RuntimeError, "fractional_max_pool2d.*argument '_random_samples' requires grad",
     "m.nn.functional.fractional_max_pool2d(leaf(1, 1, 3, 4), 2, output_size=(2, 2), _random_samples=leaf(1, 1, 2))"),
    ("running mean requires grad", RuntimeError, "batch_norm.*argument 'running_mean' requires grad",
     "m.nn.functional.batch_norm(leaf(), leaf(3), m.ones(3), training=True)"),
    ("grad materialize disallow", ValueError, "grad: materialize_grads needs allow_unused; pass True or leave it out",
     "x, y = (leaf(), leaf()); m.autograd.grad(x.sum(), y, materialize_grads=True, allow_unused=False)"),
    ("grad batched wrong shape", RuntimeError, r"grad: a batch of gradients has shape \[4, 3, 2\], but the tensor has shape \[2, 3\]",
     "x = leaf(); m.autograd.grad(x.exp(), x, m.ones(4, 3, 2), is_grads_batched=True)"),
    ("backward both names", RuntimeError, "backward: grad_variables is a former name of .*; pass one of them",
     "x = leaf(); m.autograd.backward(x.sum(), m.ones(()), grad_variables=[m.ones(())])"),
    ("create graph after free", RuntimeError, "SumBackward0: .* freed.*retain_graph=True",
     "x = leaf(); y = x.exp().sum(); m.autograd.grad(y, x); m.autograd.grad(y, x, create_graph=True)"),
    ("double backward without create graph", RuntimeError, r"backward: .*no grad_fn; .*under no_grad\(\) or detached",
     "x = leaf(); g, = m.autograd.grad((x ** 3).sum(), x); g.sum().backward()"),
    ("double backward twice", RuntimeError, "MulBackward0: .* freed.*retain_graph=True",
     "x = leaf(); g, = m.autograd.grad((x ** 3).sum(), x, create_graph=True); g.sum().backward(); g.sum().backward()"),
    ("gradient edge no grad", RuntimeError, "get_gradient_edge: the tensor does not require grad",
     "m.autograd.graph.get_gradient_edge(m.ones(2))"),
    ("gradient edge root without gradient", RuntimeError,
     "backward: a GradientEdge needs an explicit gradient; it defaults to 1 only for a scalar tensor",
     "m.autograd.backward(m.autograd.graph.get_gradient_edge(leaf().exp()))"),
    ("leaf in place", RuntimeError, r"add_\(\): a leaf .*use metatensor.no_grad\(\)", "leaf().add_(1)"),
    ("leaf out", RuntimeError, r"add\(\): functions with out= do not record gradients, but one of the arguments requires grad",
     "m.add(m.ones(2, 3), 1, out=leaf())"),
    ("out with inputs that require grad", RuntimeError,
     r"add\(\): functions with out= do not record gradients, but one of the arguments requires grad",
     "m.add(leaf(), 1, out=m.ones(2, 3))"),
    ("leaf setitem", RuntimeError, r"fill_\(\): a view of a leaf .*use metatensor.no_grad\(\)", "leaf()[0] = 0"),
    ("leaf view in place", RuntimeError, r"mul_\(\): a view of a leaf .*use metatensor.no_grad\(\)", "leaf()[0].mul_(2)"),
    ("leaf zero ", RuntimeError, r"zero_\(\): a leaf .*use metatensor.no_grad\(\)", "leaf().zero_()"),
    ("leaf iadd", RuntimeError, r"add_\(\): a leaf .*use metatensor.no_grad\(\)", "x = leaf(); x += 1"),
    ("saved input changed", RuntimeError, r"MulBackward0: .*\[2, 3\].* version 0 .*version 1 now. Change a clone",
     "x = leaf(); h = x * 2; y = h * h; h.add_(1); y.sum().backward()"),
    ("saved output changed", RuntimeError, r"ExpBackward0: .*\[2, 3\].* version 0 .*version 1 now. Change a clone",
     "y = leaf().exp(); y.mul_(2); z = y.sum(); z.backward()"),
    ("saved leaf changed no grad", RuntimeError, r"MulBackward0: .*\[2, 3\].* version 0 .*version 1 now. Change a clone",
     """
x = leaf()
y = (x * x).sum()
with m.no_grad():
    x.mul_(2)
y.backward()
"""),
    ("saved through view changed", RuntimeError, r"MulBackward0: .*\[2, 3\].* version 0 .*version 1 now. Change a clone",
     "x = leaf(); h = x * 1; y = h.exp() * h; h[0].zero_(); y.sum().backward()"),
    ("saved through detach changed", RuntimeError, r"MulBackward0: .*\[2, 3\].* version 0 .*version 1 now. Change a clone",
     "x = leaf(); h = x * 1; y = h * h; h.detach().zero_(); y.sum().backward()"),
    ("saved list changed", RuntimeError, r"MulBackward0: .*\[2, 3\].* version 0 .*version 1 now. Change a clone",
     "x = leaf(); w = m.ones(2, 3); y = (x * w).sum(); w.add_(1); y.backward()"),
    ("into expanded", RuntimeError, r"add_\(\): cannot write to a tensor of shape .*; clone\(\) it first",
     "leaf(3).mul(2).expand(2, 3).add_(1)"),
    ("write grad to int", RuntimeError, r"add_\(\): a result of dtype float32 cannot be cast to the int64 tensor that it is written to",
     "m.ones(2, 3, dtype=m.int64).add_(leaf())"),
    ("view of no grad written", RuntimeError, r"mul_\(\): a view .*clone\(\) it first",
     """
x = leaf() * 1
with m.no_grad():
    v = x[0]
v.mul_(2)
"""),
    ("view of leaf no grad written", RuntimeError, r"mul_\(\): a view of a leaf .*use metatensor.no_grad\(\)",
     """
x = leaf()
with m.no_grad():
    v = x[0]
v.mul_(2)
"""),
    ("multi view written", RuntimeError, r"mul_\(\): one of the views .*use index or narrow", "a, b = (leaf() * 1).unbind(0); a.mul_(2)"),
    ("chunk view written", RuntimeError, r"mul_\(\): one of the views .*use index or narrow", "a, b = (leaf() * 1).split(1); a.mul_(2)"),
    ("multi view no grad written", RuntimeError, r"mul_\(\): a view .*clone\(\) it first",
     """
x = leaf() * 1
with m.no_grad():
    a, b = x.unbind(0)
a.mul_(2)
"""),
    ("detach in place view", RuntimeError, r"detach_\(\): a view cannot be detached in place; use detach\(\)", "(leaf() * 1)[0].detach_()"),
    ("detach in place multi", RuntimeError, r"detach_\(\): a view cannot be detached in place; use detach\(\)",
     "(leaf() * 1).unbind(0)[0].detach_()"),
    ("requires grad of int", RuntimeError, "requires_grad: only floating-point and complex tensors can require gradients, not int64",
     "m.ones(2, dtype=m.int64).requires_grad_()"),
    ("requires grad of bool at making", RuntimeError, r"zeros\(\): only floating-point and complex tensors can require gradients, not bool",
     "m.zeros(2, dtype=m.bool, requires_grad=True)"),
    ("tensor int requires grad", RuntimeError, r"tensor\(\): only floating-point and complex tensors can require gradients, not int64",
     "m.tensor([1, 2], requires_grad=True)"),
    ("requires grad attribute int", RuntimeError, "requires_grad: only floating-point and complex tensors can require gradients, not int32",
     "x = m.ones(2, dtype=m.int32); x.requires_grad = True"),
    ("requires grad off nonleaf", RuntimeError, r"requires_grad: only leaf tensors can set it to False; use detach\(\)",
     "(leaf() * 1).requires_grad_(False)"),
    ("requires grad off nonleaf attr", RuntimeError, r"requires_grad: only leaf tensors can set it to False; use detach\(\)",
     "y = leaf() * 1; y.requires_grad = False"),
    ("to int data", RuntimeError, "data: a tensor that requires grad cannot become int64",
     "x = leaf(); x.data = m.ones(2, 3, dtype=m.int64)"),
    ("data wrong type", TypeError, "data: expected a Tensor, got int", "x = leaf(); x.data = 3"),
    ("set of leaf", RuntimeError, r"set_\(\): a leaf .*use metatensor.no_grad\(\)", "leaf().set_(m.ones(2, 3))"),
    ("resize of leaf", RuntimeError, r"resize_\(\): a tensor that requires gradients cannot be resized", "leaf().resize_(3, 3)"),
    ("resize of nonleaf", RuntimeError, r"resize_\(\): a tensor that requires gradients cannot be resized", "(leaf() * 1).resize_(3, 3)"),
    ("resize as", RuntimeError, r"resize_as_\(\): a tensor that requires gradients cannot be resized", "leaf().resize_as_(m.ones(3, 3))"),
    ("grad wrong shape", RuntimeError, r"grad: expected shape \[2, 3\], got \[3, 2\]", "x = leaf(); x.grad = m.ones(3, 2)"),
    ("grad wrong dtype", RuntimeError, "grad: expected float32 on cpu, got float64 on cpu",
     "x = leaf(); x.grad = m.ones(2, 3, dtype=m.float64)"),
    ("grad wrong device", RuntimeError, "grad: expected float32 on cpu, got float32 on meta",
     "x = leaf(); x.grad = m.ones(2, 3, device='meta')"),
    ("grad wrong class", TypeError, "grad: expected a Tensor or None, got float", "x = leaf(); x.grad = 3.0"),
    ("retain grad no grad", RuntimeError, "retain_grad: this tensor does not require grad", "m.ones(2).retain_grad()"),
    ("numpy of requires grad", RuntimeError, r"numpy\(\): the tensor requires grad; use tensor\.detach\(\)\.numpy\(\)", "leaf().numpy()"),
    ("asarray of requires grad", RuntimeError, r"numpy\(\): the tensor requires grad; use tensor\.detach\(\)\.numpy\(\)",
     "import numpy as np; np.asarray(leaf())"),
    ("deepcopy nonleaf", RuntimeError, r"deepcopy: only leaf tensors can be copied; use detach\(\) or clone\(\)",
     "import copy; copy.deepcopy(leaf() * 1)"),
    ("dlpack requires grad", BufferError, r"__dlpack__: the tensor requires grad; use tensor\.detach\(\)", "leaf().__dlpack__()"),
    ("hook returns number", TypeError, "MulBackward0: the hook of a tensor returned float, not a Tensor or None",
     "x = leaf(); y = x * 1; y.register_hook(lambda g: 3.0); y.sum().backward()"),
    ("hook returns wrong shape", RuntimeError, r"MulBackward0: the hook of a tensor returned a gradient of shape \[3\], expected \[2, 3\]",
     "x = leaf(); y = x * 1; y.register_hook(lambda g: g[0]); y.sum().backward()"),
    ("hook returns wrong dtype", RuntimeError, "MulBackward0: the hook of a tensor returned a gradient of float64, expected float32",
     "x = leaf(); y = x * 1; y.register_hook(lambda g: g.double()); y.sum().backward()"),
    ("hook returns wrong device", RuntimeError, "MulBackward0: the hook of a tensor returned a gradient on meta, expected cpu",
     "x = leaf(); y = x * 1; y.register_hook(lambda g: g.to('meta')); y.sum().backward()"),
    ("leaf hook returns wrong shape", RuntimeError,
     r"torch::autograd::AccumulateGrad: the hook of a tensor returned a gradient of shape \[3\],",
     "x = leaf(); x.register_hook(lambda g: g[0]); x.sum().backward()"),
    ("leaf hook returns number", TypeError, "torch::autograd::AccumulateGrad: the hook of a tensor returned int, not a Tensor or None",
     "x = leaf(); x.register_hook(lambda g: 1); x.sum().backward()"),
    ("hook takes no argument", TypeError, "takes 0 positional arguments but 1 was given",
     "x = leaf(); x.register_hook(lambda: 1); x.sum().backward()"),
    ("hook raises", ZeroDivisionError, "mine",
     """
def f(g):
    raise ZeroDivisionError('mine')
x = leaf()
x.register_hook(f)
x.sum().backward()
"""),
    ("hook not callable", TypeError, "register_hook: expected a callable, got int",
     "x = leaf() * 1; x.register_hook(3); x.sum().backward()"),
    ("hook no grad", RuntimeError, "register_hook: the tensor does not require grad", "m.ones(2).register_hook(lambda g: g)"),
    ("post acc nonleaf", RuntimeError, "register_post_accumulate_grad_hook: the tensor is not a leaf",
     "(leaf() * 1).register_post_accumulate_grad_hook(lambda p: None)"),
    ("post acc no grad", RuntimeError, "register_post_accumulate_grad_hook: the tensor does not require grad",
     "m.ones(2).register_post_accumulate_grad_hook(lambda p: None)"),
    ("post acc returns", TypeError, "register_post_accumulate_grad_hook: the hook .*; it must return None",
     "x = leaf(); x.register_post_accumulate_grad_hook(lambda p: 3); x.sum().backward()"),
    ("node hook wrong number", RuntimeError, "MulBackward0: a hook after it returned 3 gradients, not 2",
     "x = leaf(); y = x * 1; y.grad_fn.register_hook(lambda gi, go: (gi[0],) * 3); y.sum().backward()"),
    ("node hook wrong class", TypeError, "MulBackward0: a hook after it returned float as gradient 0, not a Tensor or None",
     "x = leaf(); y = x * 1; y.grad_fn.register_hook(lambda gi, go: (3.0, None)); y.sum().backward()"),
    ("node hook number", TypeError, "MulBackward0: a hook after it returned int, not a tuple of gradients or None",
     "x = leaf(); y = x * 1; y.grad_fn.register_hook(lambda gi, go: 3); y.sum().backward()"),
    ("node hook wrong shape", RuntimeError, r"MulBackward0: gradient 0 has shape \[3\], but its tensor has shape \[2, 3\]",
     "x = leaf(); y = x * 1; y.grad_fn.register_hook(lambda gi, go: (gi[0][0], None)); y.sum().backward()"),
    ("node prehook wrong number", RuntimeError, "MulBackward0: a hook before it returned 3 gradients, not 1",
     "x = leaf(); y = x * 1; y.grad_fn.register_prehook(lambda go: (go[0],) * 3); y.sum().backward()"),
    ("node prehook wrong class", TypeError, "MulBackward0: a hook before it returned int, not a tuple of gradients or None",
     "x = leaf(); y = x * 1; y.grad_fn.register_prehook(lambda go: 3); y.sum().backward()"),
    ("node hook not callable", TypeError, "register_hook: expected a callable, got int",
     "y = leaf() * 1; y.grad_fn.register_hook(3); y.sum().backward()"),
    ("multi grad hook mode", ValueError, "register_multi_grad_hook: mode must be 'all' or 'any', got 'some'",
     "m.autograd.graph.register_multi_grad_hook([leaf()], lambda g: None, mode='some')"),
    ("module full backward hook wrong", RuntimeError, "Linear: a backward hook returned 2 gradients, not 1",
     "l = m.nn.Linear(3, 2); l.register_full_backward_hook(lambda mod, gi, go: (gi[0],) * 2); l(leaf()).sum().backward()"),
    ("module full backward pre hook wrong", RuntimeError, "Linear: a backward hook returned 2 gradients, not 1",
     "l = m.nn.Linear(3, 2); l.register_full_backward_pre_hook(lambda mod, go: (go[0],) * 2); l(leaf()).sum().backward()"),
    ("both module hooks", RuntimeError, "Linear already has backward hooks of the olde.*; one module cannot have both",
     "l = m.nn.Linear(3, 2); l.register_backward_hook(lambda *a: None); l.register_full_backward_hook(lambda *a: None)"),
    ("pack hook changes", RuntimeError, "saved_tensors_hooks: the pack hook changed the tensor in place",
     """
with m.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
    x = m.ones(3, requires_grad=True) * 1
    (x * x).sum().backward()
"""),
    ("unpack returns nonsense", TypeError, "ExpBackward0: the unpack hook returned int, not a Tensor",
     """
with m.autograd.graph.saved_tensors_hooks(lambda t: 3, lambda t: t):
    leaf().exp().sum().backward()
"""),
    ("unpack raises", ZeroDivisionError, "mine",
     """
def f(t):
    raise ZeroDivisionError('mine')
with m.autograd.graph.saved_tensors_hooks(lambda t: t, f):
    leaf().exp().sum().backward()
"""),
    ("pack raises", ZeroDivisionError, "mine",
     """
def f(t):
    raise ZeroDivisionError('mine')
with m.autograd.graph.saved_tensors_hooks(f, lambda t: t):
    leaf().exp()
"""),
    ("pack no argument", TypeError, "takes 0 positional arguments but 1 was given",
     """
with m.autograd.graph.saved_tensors_hooks(lambda: 1, lambda t: t):
    leaf().exp()
"""),
    ("hooks disabled", RuntimeError, "not here",
     """
with m.autograd.graph.disable_saved_tensors_hooks('not here'):
    with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        leaf().exp()
"""),
    ("mutation outside", AssertionError, "allow_mutation_on_saved_tensors: backward must run inside the context manager",
     """
with m.autograd.graph.allow_mutation_on_saved_tensors():
    y = leaf().exp().sum()
y.backward()
"""),
    ("saved read after free", RuntimeError, "ExpBackward0: .* freed.*retain_graph=True",
     "y = leaf().exp(); f = y.grad_fn; y.sum().backward(); f._saved_result"),
    ("saved attribute unknown", AttributeError, "ExpBackward0 has no attribute '_saved_nonsense'", "leaf().exp().grad_fn._saved_nonsense"),
    ("inference saved", RuntimeError, r"MulBackward0: a tensor made in inference mode.*; clone\(\) it outside first",
     """
with m.inference_mode():
    w = m.ones(3)
leaf(3) * w
"""),
    ("inference requires grad", RuntimeError, "requires_grad: an inference tensor cannot require gradients",
     """
with m.inference_mode():
    w = m.ones(3)
w.requires_grad_()
"""),
    ("inference version", RuntimeError, "_version: an inference tensor does not count its changes",
     """
with m.inference_mode():
    w = m.ones(3)
w._version
"""),
    ("inference in place outside", RuntimeError, r"add_\(\): a tensor made in inference mode can.*; clone\(\) it first",
     """
with m.inference_mode():
    w = m.ones(3)
w.add_(1)
"""),
    ("inference backward", RuntimeError, r"backward: .*no grad_fn; .*under no_grad\(\) or detached",
     """
x = leaf()
with m.inference_mode():
    y = x.sum()
y.backward()
"""),
    ("function no backward", NotImplementedError, r"MineBackward: the autograd\.Function has no b.*; define backward\(ctx, \*grads\)",
     "function().apply(leaf()).sum().backward()"),
    ("function no forward", NotImplementedError, r"autograd\.Function: the class has no forward; define forward\(ctx, \*args\)",
     """
class Mine(m.autograd.Function):
    pass
Mine.apply(leaf())
"""),
    ("function too many", RuntimeError, "MineBackward: backward returned 2 gradients f.*; return one for each argument of forward,",
     "function(backward=lambda c, g: (g, g)).apply(leaf()).sum().backward()"),
    ("function too few", RuntimeError, "MineBackward: backward returned 1 gradients f.*; return one for each argument of forward,",
     "function(lambda c, x, y: x * y, lambda c, g: g).apply(leaf(), leaf()).sum().backward()"),
    ("function returns number", RuntimeError, "MineBackward: backward returned float as gradient 0, not a Tensor or None",
     "function(backward=lambda c, g: 3.0).apply(leaf()).sum().backward()"),
    ("function returns list", RuntimeError, "MineBackward: backward returned list as gradient 0, not a Tensor or None",
     "function(backward=lambda c, g: [g]).apply(leaf()).sum().backward()"),
    ("function wrong shape", RuntimeError, r"MineBackward: gradient 0 has shape \[2, 2\], but its tensor has shape \[2, 3\]",
     "function(backward=lambda c, g: g[:, :2]).apply(leaf()).sum().backward()"),
    ("function wrong device", RuntimeError, "MineBackward: gradient 0 is on meta, but its tensor is on cpu",
     "function(backward=lambda c, g: g.to('meta')).apply(leaf()).sum().backward()"),
    ("function gradient for non tensor", RuntimeError, "MineBackward: backward returned a gradient fo.*; return None for it",
     "function(lambda c, x, k: x * k, lambda c, g: (g, g)).apply(leaf(), 3).sum().backward()"),
    ("function backward no arguments", TypeError, "takes 0 positional arguments but 2 were given",
     "function(backward=lambda: 3).apply(leaf()).sum().backward()"),
    ("function save non tensor", TypeError, "save_for_backward: expected Tensors, got int",
     "function(lambda c, x: c.save_for_backward(3) or x * 2, lambda c, g: g).apply(leaf())"),
    ("function save list", TypeError, "save_for_backward: expected Tensors, got list",
     "function(lambda c, x: c.save_for_backward([x]) or x * 2, lambda c, g: g).apply(leaf())"),
    ("function saved twice", RuntimeError, "MineBackward: .* freed.*retain_graph=True",
     """
y = function(lambda c, x: c.save_for_backward(x) or x * 2, lambda c, g: g * c.saved_tensors[0]).apply(leaf())
y.backward(m.ones(2, 3))
y.backward(m.ones(2, 3))
"""),
    ("function saved changed", RuntimeError, r"MineBackward: .*\[2, 3\].* version 0 .*version 1 now. Change a clone",
     """
x = leaf() * 1
y = function(lambda c, x: c.save_for_backward(x) or x * 2, lambda c, g: g * c.saved_tensors[0]).apply(x)
x.add_(1)
y.sum().backward()
"""),
    ("function dirty leaf", RuntimeError, r"Mine: mark_dirty was given a leaf that requir.*; pass a clone\(\) to the function",
     """
def f(c, x):
    c.mark_dirty(x)
    x.mul_(2)
    return x
function(f, lambda c, g: g).apply(leaf())
"""),
    ("function dirty not returned", RuntimeError, "Mine: mark_dirty was given a tensor that forward does not return",
     """
def f(c, x):
    c.mark_dirty(x)
    x.mul_(2)
    return x * 1
function(f, lambda c, g: g).apply(leaf() * 1)
"""),
    ("function dirty non tensor", RuntimeError, "Mine: mark_dirty was given a tensor that forward does not return",
     """
def f(c, x):
    c.mark_dirty(3)
    return x * 1
function(f, lambda c, g: g).apply(leaf() * 1)
"""),
    ("function nondiff non tensor", RuntimeError, "Mine: mark_non_differentiable was given int, not a Tensor",
     """
def f(c, x):
    c.mark_non_differentiable(3)
    return x * 1
function(f, lambda c, g: g).apply(leaf() * 1)
"""),
    ("function nondiff backward", RuntimeError, r"backward: .*no grad_fn; .*under no_grad\(\) or detached",
     """
def f(c, x):
    y = x * 1
    c.mark_non_differentiable(y)
    return y
function(f, lambda c, g: g).apply(leaf()).sum().backward()
"""),
    ("function once differentiable twice", RuntimeError,
     "once_differentiable: the gradient of this function was computed by a backward that cannot be",
     """
f = function(lambda c, x: c.save_for_backward(x) or x * x, m.autograd.function.once_differentiable(lambda c, g: g * 2 * c.saved_tensors[0]))
x = leaf()
g, = m.autograd.grad((f.apply(x) * x).sum(), x, create_graph=True)
g.sum().backward()
"""),
    ("function setup context and ctx", TypeError, "missing 1 required positional argument: 'x'",
     "function(lambda c, x: x * 2, lambda c, g: g, setup_context=lambda ctx, inputs, output: None).apply(leaf())"),
    ("function view modified", RuntimeError, r"mul_\(\): a view .*clone\(\) it first",
     "y = function(lambda c, x: x.view(-1), lambda c, g: g.view(2, 3)).apply(leaf() * 1); y.mul_(2)"),
    ("function multi view modified", RuntimeError, r"mul_\(\): a view .*clone\(\) it first",
     "y, z = function(lambda c, x: (x[0], x[1]), lambda c, g, h: g).apply(leaf() * 1); y.mul_(2)"),
    ("function input returned modified", RuntimeError, r"mul_\(\): a view .*clone\(\) it first",
     "y = function(lambda c, x: x, lambda c, g: g).apply(leaf() * 1); y.mul_(2)"),
    ("anomaly nan", RuntimeError, r"SqrtBackward0: gradient 0 has a NaN\nThe operator was called here(.|\n)*<misuse>",
     """
with m.autograd.set_detect_anomaly(True):
    x = m.zeros(1, requires_grad=True)
    (x.sqrt() * 0).sum().backward()
"""),
    ("inplace in anomaly", RuntimeError, r"ExpBackward0: .*\nThe operator was called here(.|\n)*<misuse>",
     """
with m.autograd.set_detect_anomaly(True):
    x = leaf() * 1
    y = x.exp()
    y.add_(1)
    y.sum().backward()
"""),
    ("checkpoint twice", RuntimeError, "SumBackward0: .* freed.*retain_graph=True",
     "y = m.utils.checkpoint.checkpoint(lambda x: x.exp(), leaf(), use_reentrant=False).sum(); y.backward(); y.backward()"),
    ("checkpoint kwargs reentrant", ValueError, "checkpoint: with use_reentrant=True the function takes no keyword arguments, got k",
     "m.utils.checkpoint.checkpoint(lambda x, k: x.exp(), leaf(), k=1, use_reentrant=True)"),
    ("checkpoint unknown kwargs", TypeError, "got an unexpected keyword argument 'nonsense'",
     "m.utils.checkpoint.checkpoint(lambda x: x.exp(), leaf(), nonsense=1, use_reentrant=False)"),
    ("optimizer nonleaf", ValueError, r"SGD: a parameter must be a leaf, got the result of an operation, of shape \(2, 3\)",
     "m.optim.SGD([leaf() * 1], lr=0.1)"),
    ("optimizer empty", ValueError, "SGD: the list of parameters is empty", "m.optim.SGD([], lr=0.1)"),
    ("optimizer tensor", TypeError, "SGD: params must be an iterable of tensors or dicts, got a tensor", "m.optim.SGD(leaf(), lr=0.1)"),
    ("optimizer not tensor", TypeError, "SGD: the parameters must be tensors, got int", "m.optim.SGD([3], lr=0.1)"),
    ("optimizer no lr", ValueError, r"SGD: lr must be in \[0, inf\), got -1", "m.optim.SGD([leaf()], lr=-1)"),
    ("optimizer twice", ValueError, "SGD: a parameter is in more than one group",
     "x = leaf(); m.optim.SGD([{'params': [x]}, {'params': [x]}], lr=0.1)"),
    ("scaler unscale twice", RuntimeError, r"GradScaler\.unscale_: the optimizer has been unscaled since the last update",
     "x = leaf(); o = m.optim.SGD([x], lr=0.1); s = m.amp.GradScaler('cpu'); s.scale(x.sum()).backward(); s.unscale_(o); s.unscale_(o)"),
    ("scaler step twice", RuntimeError, r"GradScaler\.step: the optimizer has stepped since the last update",
     "x = leaf(); o = m.optim.SGD([x], lr=0.1); s = m.amp.GradScaler('cpu'); s.scale(x.sum()).backward(); s.step(o); s.step(o)"),
    ("scaler unscale after step", RuntimeError, r"GradScaler\.unscale_: the optimizer has been stepped since the last update",
     "x = leaf(); o = m.optim.SGD([x], lr=0.1); s = m.amp.GradScaler('cpu'); s.scale(x.sum()).backward(); s.step(o); s.unscale_(o)"),
    ("scaler step without backward", AssertionError, r"GradScaler\.step: the optimizer has no gradients",
     "x = leaf(); o = m.optim.SGD([x], lr=0.1); s = m.amp.GradScaler('cpu'); s.scale(x.sum()); s.step(o)"),
    ("scaler update without step", AssertionError, r"GradScaler\.update: no loss has been scaled yet",
     "s = m.amp.GradScaler('cpu'); s.update()"),
    ("scaler step closure", RuntimeError, r"GradScaler\.step: a closure cannot be evaluated with scaled gradients",
     "x = leaf(); o = m.optim.SGD([x], lr=0.1); s = m.amp.GradScaler('cpu'); s.scale(x.sum()).backward(); s.step(o, closure=lambda: 1)"),
    ("scaler fp16 grads", ValueError, r"GradScaler\.unscale_: gradients in float16 ca.*; keep parameters in float32",
     """
x = leaf(dtype=m.float16)
o = m.optim.SGD([x], lr=0.1)
s = m.amp.GradScaler('cpu')
s.scale(x.float().sum()).backward()
s.unscale_(o)
"""),
    ("autocast device", RuntimeError, "autocast: autocast does not support device type 'nonsense'",
     "m.autocast('nonsense', dtype=m.bfloat16)"),
    ("clip grad nonfinite", RuntimeError, r"the total norm of order 2\.0 is inf; error_if_nonfinite=False clips anyway",
     "x = leaf(); x.grad = m.full((2, 3), float('inf')); m.nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)"),
    ("target requires grad", RuntimeError, r"nn\.functional\.cross_entropy\(\): argument 'target' must be int64 or uint8, got float32",
     "m.nn.functional.cross_entropy(leaf(), m.tensor([0.5, 1.0], requires_grad=True))"),
    ("nll int input", NotImplementedError, r"nn\.functional\.nll_loss\(\): not implemented for int64",
     "m.nn.functional.nll_loss(m.ones(2, 3, dtype=m.int64), m.tensor([0, 1]))"),
    ("gradcheck no input", ValueError, "gradcheck: at least one input must require grad",
     "m.autograd.gradcheck(lambda x: x * 2, m.ones(2, dtype=m.float64))"),
    ("gradcheck wrong", RuntimeError, "gradcheck: the gradient of output 0 for input 0 is wrong",
     """
f = function(lambda c, x: x * 2, lambda c, g: g * 3)
m.autograd.gradcheck(f.apply, m.ones(2, dtype=m.float64, requires_grad=True))
"""),
    ("node call wrong number", TypeError, "MulBackward0: takes 1 gradients but 0 were given", "(leaf() * 1).grad_fn()"),
    ("node make", TypeError, "Node: nodes are made by recorded calls, not by calling the class", "m.autograd.graph.Node()"),
    ("grad fn assign", AttributeError, "property of 'Tensor' object has no setter", "(leaf() * 1).grad_fn = None"),
    ("is leaf assign", AttributeError, r"attribute 'is_leaf' of 'metatensor\._core\.tensor\.Tensor' objects is not writable",
     "leaf().is_leaf = True"),
    ("grad dtype to", TypeError, r"Module\.to: the dtype must be floating-point or complex, not metatensor\.int64",
     "m.nn.Linear(2, 2).to(m.int64)"),
    ("function without vmap", RuntimeError, "vmap: Mine has no rule for a batch; define vmap, or set generate_vmap_rule",
     """
once = function(lambda x: x * 2, lambda c, g: g, setup_context=lambda ctx, inputs, output: None)
m.func.vmap(once.apply)(leaf())
"""),
    ("function without jvp", NotImplementedError, "define jvp to use the function in forward mode",
     """
with m.autograd.forward_ad.dual_level():
    x = m.autograd.forward_ad.make_dual(m.ones(2), m.ones(2))
    function(backward=lambda c, g: g).apply(x)
"""),
    ("func.grad of ints", RuntimeError, "grad: only floating-point and complex tensors have gradients, got metatensor.int64",
     "m.func.grad(lambda x: x.sum())(m.ones(2, dtype=m.int64))"),
    ("func.grad of a vector", RuntimeError, r"grad: the function must return a 0-d tensor, but its result has shape \[2\]",
     "m.func.grad(lambda x: x * 2)(m.ones(2))"),
    ("func.grad of a number", RuntimeError, "grad: the function must return a Tensor, not float", "m.func.grad(lambda x: 3.0)(m.ones(2))"),
    ("jacobian of a number", TypeError, "jacobian: what the function returns must be a Tensor or a tuple of Tensors, got int",
     "m.autograd.functional.jacobian(lambda x: 3, m.ones(2))"),
]

# These need a `checkpoint` that runs its function again.
CHECKPOINTS = [
    ("fewer tensors", RuntimeError, "checkpoint", "calls.append(0); return x.exp().sin() if len(calls) == 1 else x.exp()", {}),
    ("another shape", RuntimeError, "checkpoint", "calls.append(0); return x.exp().sum() if len(calls) == 1 else x[0].exp().sum()", {}),
    ("another dtype", RuntimeError, "checkpoint", "calls.append(0); return x.exp() if len(calls) == 1 else x.double().exp()", {}),
    ("an unknown check", ValueError, "determinism_check must be 'default' or 'none'", "return x.exp()", {"determinism_check": "nonsense"}),
]
AGAIN = """
calls = []
def run(x):
    BODY
m.utils.checkpoint.checkpoint(run, leaf(), use_reentrant=False, **OPTIONS).sum().backward()
"""


def recomputes():
    calls = []
    x = mt.ones(1, device="cpu", requires_grad=True)
    mt.utils.checkpoint.checkpoint(lambda t: (calls.append(0), t.exp())[1], x, use_reentrant=False).sum().backward()
    return len(calls) == 2


@pytest.mark.parametrize("what, expected, message, body, options", CHECKPOINTS, ids=[row[0] for row in CHECKPOINTS])
def test_misuse_of_checkpoints(what, expected, message, body, options):
    if not recomputes():
        pytest.skip("checkpoint runs its function once")
    with pytest.raises(expected, match=message):
        misuse(Library(), AGAIN.replace("BODY", body).replace("OPTIONS", repr(options)))


@pytest.mark.torch
@pytest.mark.parametrize("what, expected, message, body, options", CHECKPOINTS, ids=[row[0] for row in CHECKPOINTS])
def test_misuse_of_checkpoints_like_pytorch(what, expected, message, body, options):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.utils.checkpoint")

    with pytest.raises(expected) as raised:
        misuse(torch, AGAIN.replace("BODY", body).replace("OPTIONS", repr(options)))
    if expected is RuntimeError:
        assert type(raised.value).__name__ == "CheckpointError"


@pytest.mark.parametrize("what, expected, message, code", TABLE, ids=[row[0] for row in TABLE])
def test_misuse(what, expected, message, code):
    with pytest.raises(expected, match=message):
        misuse(Library(), code)


@pytest.mark.torch
@pytest.mark.parametrize("what, expected, message, code", TABLE, ids=[row[0] for row in TABLE])
def test_misuse_like_pytorch(what, expected, message, code):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as raised:
        misuse(torch, code)
    assert type(raised.value) is expected or type(raised.value).__name__ == "GradcheckError" and expected is RuntimeError


def test_a_node_that_is_called_with_a_gradient_of_another_shape():
    x = mt.empty(5, device="meta", requires_grad=True)
    node = mt.stack([mt.empty(5, device="meta"), x]).grad_fn
    with pytest.raises(RuntimeError, match="more gradients than arguments"):
        node(mt.empty(5, device="meta"))
