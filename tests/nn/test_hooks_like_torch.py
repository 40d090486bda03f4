"""Programs with hooks run in both libraries: arguments, order and effects of hooks are the same."""

import copy
import pickle

import pytest

import metatensor as mt

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def net(t, log):
    """Return a module with a child whose calls are logged."""
    nn = t.nn

    class Inner(nn.Linear):
        def forward(self, x, *, scale=1.0):
            log.append(("forward", scale))
            return super().forward(x) * scale

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner(2, 2)
            self.register_buffer("count", t.zeros(()))

        def forward(self, x, fail=False):
            if fail:
                raise KeyError("forward")
            return self.inner(x, scale=2.0)

    made = Outer()
    with t.no_grad():
        made.inner.weight.copy_(t.tensor([[1.0, 2.0], [3.0, 4.0]]))
        made.inner.bias.zero_()
    return made


def noted(log, name, returns=lambda *args: None):
    def hook(module, *args):
        log.append((name, type(module).__name__, [shown(arg) for arg in args]))
        return returns(*args)

    return hook


def shown(x):
    if hasattr(x, "tolist"):
        return x.tolist()
    if isinstance(x, (tuple, list)):
        return tuple(shown(part) for part in x)
    if isinstance(x, dict):
        return {key: shown(part) for key, part in x.items()}
    return x


def forward_order(t, log):
    m = net(t, log)
    m.register_forward_pre_hook(noted(log, "pre 1"))
    m.register_forward_pre_hook(noted(log, "pre 2"), prepend=True)
    m.register_forward_hook(noted(log, "post 1"))
    m.register_forward_hook(noted(log, "post 2"), prepend=True)
    m.inner.register_forward_pre_hook(noted(log, "pre kwargs"), with_kwargs=True)
    m.inner.register_forward_hook(noted(log, "post kwargs"), with_kwargs=True)
    return m(t.ones(2))


def forward_changes(t, log):
    m = net(t, log)
    m.register_forward_pre_hook(noted(log, "one", lambda args: args[0] + 1))
    m.register_forward_pre_hook(noted(log, "tuple", lambda args: (args[0] * 2,)))
    m.inner.register_forward_pre_hook(noted(log, "kwargs", lambda args, kwargs: (args, {"scale": 3.0})), with_kwargs=True)
    m.register_forward_hook(noted(log, "result", lambda args, out: out - 1))
    m.register_forward_hook(noted(log, "none"))
    return m(t.ones(2))


def wrong_kwargs(t, log):
    m = net(t, log)
    m.inner.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    return m(t.ones(2))


def removed(t, log):
    m = net(t, log)
    handles = [m.register_forward_pre_hook(noted(log, n)) for n in range(3)]
    handles[1].remove()
    handles[1].remove()
    with m.register_forward_hook(noted(log, "inside")):
        m(t.ones(2))
    return m(t.ones(2))


def always(t, log):
    m = net(t, log)
    m.register_forward_hook(noted(log, "always"), always_call=True)
    m.register_forward_hook(noted(log, "not always"))
    m.register_forward_hook(noted(log, "always kwargs"), always_call=True, with_kwargs=True)
    try:
        m(t.ones(2), fail=True)
    except KeyError as error:
        log.append(("raised", str(error)[:9]))
    return m(t.ones(2))


def of_all_modules(t, log):
    module = t.nn.modules.module
    m = net(t, log)
    handles = [
        module.register_module_forward_pre_hook(noted(log, "global pre")),
        module.register_module_forward_hook(noted(log, "global post", lambda args, out: out + 1)),
        module.register_module_forward_hook(noted(log, "global always"), always_call=True),
    ]
    m.register_forward_pre_hook(noted(log, "own pre"))
    m.register_forward_hook(noted(log, "own post"))
    try:
        out = m(t.ones(2))
        try:
            m(t.ones(2), fail=True)
        except KeyError:
            log.append("raised")
    finally:
        for handle in handles:
            handle.remove()
    return out, m(t.ones(2))


def registrations(t, log):
    module = t.nn.modules.module
    handles = [
        module.register_module_parameter_registration_hook(noted(log, "parameter")),
        module.register_module_buffer_registration_hook(noted(log, "buffer")),
        module.register_module_module_registration_hook(lambda m, name, child: log.append((name, type(child).__name__))),
    ]
    try:
        m = t.nn.Module()
        m.weight = t.nn.Parameter(t.ones(2))
        m.register_parameter("other", None)
        m.register_buffer("count", t.zeros(2))
        m.child = t.nn.ReLU()
        m.add_module("second", t.nn.Tanh())
    finally:
        for handle in handles:
            handle.remove()
    m.third = t.nn.ReLU()
    return list(dict(m.named_modules()))


def replaced_registrations(t, log):
    module = t.nn.modules.module
    handle = module.register_module_parameter_registration_hook(lambda m, name, p: t.nn.Parameter(p.detach() * 2))
    try:
        m = t.nn.Module()
        m.weight = t.nn.Parameter(t.ones(2))
    finally:
        handle.remove()
    return m.weight


def state_dicts(t, log):
    m = net(t, log)
    m.register_state_dict_pre_hook(lambda module, prefix, keep_vars: log.append(("pre", type(module).__name__, prefix, keep_vars)))
    m.inner.register_state_dict_pre_hook(lambda module, prefix, keep_vars: log.append(("pre", type(module).__name__, prefix)))
    m.inner.register_state_dict_post_hook(
        lambda module, state, prefix, local: log.append(("post", sorted(state), prefix, sorted(local)))
    )
    m._register_state_dict_hook(lambda module, state, prefix, local: log.append(("old", list(state), prefix)))
    state = m.state_dict(prefix="net.")
    m.register_state_dict_post_hook(lambda module, state, prefix, local: state.pop(prefix + "count"))
    return list(state), list(m.state_dict(keep_vars=True))


def loads(t, log):
    m = net(t, log)

    def pre(module, state, prefix, local, strict, missing, unexpected, errors):
        log.append(("pre", type(module).__name__, sorted(state), prefix, strict, list(missing), list(unexpected), errors))
        if prefix == "inner.":
            state["inner.weight"] = state.pop("inner.kernel")

    def post(module, keys):
        log.append(("post", type(module).__name__, list(keys.missing_keys), list(keys.unexpected_keys)))
        keys.unexpected_keys.clear()

    m.register_load_state_dict_pre_hook(pre)
    m.inner.register_load_state_dict_pre_hook(pre)
    m.inner.register_load_state_dict_post_hook(post)
    m.register_load_state_dict_post_hook(post)
    state = m.state_dict()
    state["inner.kernel"] = state.pop("inner.weight") * 2
    state["more"] = t.ones(1)
    result = m.load_state_dict(state)
    return result.missing_keys, result.unexpected_keys, m.inner.weight


def load_that_raises(t, log):
    m = net(t, log)

    def post(module, keys):
        keys.missing_keys.append("mine")

    m.register_load_state_dict_post_hook(post)
    return m.load_state_dict(m.state_dict())


def copies(t, log):
    m = net(t, log)
    m.register_forward_hook(noted(log, "kept"))
    twin = copy.deepcopy(m)
    twin.register_forward_hook(noted(log, "of the copy"))
    m(t.ones(2))
    log.append("---")
    return twin(t.ones(2))


def order_of_ids(t, log):
    m = net(t, log)
    first = m.register_forward_pre_hook(noted(log, "first"))
    m.register_forward_pre_hook(noted(log, "second"))
    first.remove()
    m.register_forward_pre_hook(noted(log, "third"))
    m.register_forward_pre_hook(noted(log, "zeroth"), prepend=True)
    return m(t.ones(2)), len(m._forward_pre_hooks)


def applied(t, log):
    m = net(t, log)
    m.apply(lambda module: log.append(type(module).__name__))
    m.register_full_backward_hook(noted(log, "backward"))
    m.register_full_backward_pre_hook(noted(log, "backward pre"))
    with t.no_grad():
        return m(t.ones(2))


def mixed_backward(t, log):
    m = net(t, log)
    m.register_full_backward_hook(noted(log, "full"))
    return m.register_backward_hook(noted(log, "old"))


PROGRAMS = [
    forward_order, forward_changes, wrong_kwargs, removed, always, of_all_modules, registrations, replaced_registrations,
    state_dicts, loads, load_that_raises, copies, order_of_ids, applied, mixed_backward,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program):
    torch = pytest.importorskip("torch")
    results = []
    for t in (mt, torch):
        log = []
        try:
            result = shown(program(t, log))
        except Exception as error:
            result = type(error).__name__
        results.append((result, log))
    assert results[0] == results[1]


class Hook:
    """A hook that can be pickled."""

    def __call__(self, module, args, out):
        return out + 1


def test_pickled_hooks():
    torch = pytest.importorskip("torch")
    found = []
    for t in (mt, torch):
        m = t.nn.Sequential(t.nn.Identity())
        m.register_forward_hook(Hook())
        handle = m[0].register_forward_hook(Hook(), always_call=True)
        again = pickle.loads(pickle.dumps(m))
        found.append((again(t.zeros(2)).tolist(), len(again[0]._forward_hooks)))
        handle.remove()
        found[-1] += (m(t.zeros(2)).tolist(), again(t.zeros(2)).tolist())
    assert found[0] == found[1]
