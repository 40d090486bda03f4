"""Optimizers compared with PyTorch's for the same gradients: states, values and options; states on meta."""

import copy
import itertools
import pickle

import pytest

import metatensor as mt
from metatensor import optim

OPTIONS = {
    "SGD": {"momentum": (0, 0.9), "dampening": (0, 0.1), "weight_decay": (0, 0.1), "maximize": (False, True)},
    "Adam": {"amsgrad": (False, True), "weight_decay": (0, 0.1), "betas": ((0.9, 0.999), (0.5, 0.6)), "maximize": (False, True),
             "decoupled_weight_decay": (False, True)},
    "AdamW": {"amsgrad": (False, True), "weight_decay": (0.01, 0.3), "eps": (1e-8, 1e-2), "capturable": (False,)},
    "Adamax": {"weight_decay": (0, 0.1), "betas": ((0.9, 0.999), (0.2, 0.3)), "maximize": (False, True)},
    "NAdam": {"weight_decay": (0, 0.1), "momentum_decay": (4e-3, 0.1), "decoupled_weight_decay": (False, True)},
    "RAdam": {"weight_decay": (0, 0.1), "betas": ((0.9, 0.999), (0.9, 0.9)), "decoupled_weight_decay": (False, True)},
    "Adagrad": {"lr_decay": (0, 0.1), "weight_decay": (0, 0.1), "initial_accumulator_value": (0, 0.5)},
    "Adadelta": {"rho": (0.9, 0.5), "weight_decay": (0, 0.1), "maximize": (False, True)},
    "RMSprop": {"momentum": (0, 0.9), "centered": (False, True), "weight_decay": (0, 0.1)},
    "ASGD": {"t0": (1e6, 2), "lambd": (1e-4, 0.1), "weight_decay": (0, 0.1), "alpha": (0.75, 0.5)},
    "Rprop": {"etas": ((0.5, 1.2), (0.1, 2.0)), "step_sizes": ((1e-6, 50), (0.05, 0.2))},
    "Adafactor": {"weight_decay": (0, 0.1), "d": (1.0, 2.0), "beta2_decay": (-0.8, -0.3), "eps": ((None, 1e-3), (1e-2, 0.1))},
    "Muon": {"weight_decay": (0, 0.3), "nesterov": (True, False), "adjust_lr_fn": (None, "original", "match_rms_adamw"),
             "ns_steps": (5, 2)},
}
MATRICES = ("Muon",)
"""Optimizers that support only matrices."""
  # fmt: skip


def combinations(name):
    options = OPTIONS[name]
    return [dict(zip(options, chosen, strict=True)) for chosen in itertools.product(*options.values())]


CASES = [(name, kwargs) for name in OPTIONS for kwargs in combinations(name)] + [("SGD", {"momentum": 0.9, "nesterov": True})]


def assert_same(ours, theirs, torch):
    if isinstance(theirs, torch.Tensor):
        assert tuple(ours.shape) == tuple(theirs.shape) and ours.stride() == theirs.stride()
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
        assert ours.device.type == theirs.device.type
        torch.testing.assert_close(torch.tensor(ours.tolist(), dtype=theirs.dtype), theirs.detach(), rtol=1e-4, atol=1e-6)
    elif isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            assert_same(ours[key], theirs[key], torch)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, torch)
    else:
        assert ours == theirs


def beside(torch, name, kwargs, complex_=False, steps=4):
    """Return (params, optimizer) of both libraries after ``steps`` with the same gradients."""
    torch.manual_seed(0)
    dtype = torch.complex64 if complex_ else torch.float32
    shapes = [(3, 4), (5, 2), (4, 4)] if name in MATRICES else [(3, 4), (5,), (2, 3, 2)]
    starts = [torch.randn(s, dtype=dtype) for s in shapes]
    theirs = [torch.nn.Parameter(s.clone()) for s in starts]
    ours = [mt.nn.Parameter(mt.tensor(s.tolist())) for s in starts]
    lr = kwargs.pop("lr", 0.1)
    if name not in MATRICES:
        kwargs["foreach"] = False
    their_optimizer = getattr(torch.optim, name)(theirs, lr=lr, **kwargs)
    our_optimizer = getattr(optim, name)(ours, lr=lr, **kwargs)
    for _ in range(steps):
        for p, q in zip(ours, theirs, strict=True):
            grad = torch.randn(q.shape, dtype=dtype)
            q.grad = grad
            p.grad = mt.tensor(grad.tolist())
        their_optimizer.step()
        our_optimizer.step()
    return ours, our_optimizer, theirs, their_optimizer


@pytest.mark.parametrize("name, kwargs", CASES, ids=str)
def test_values_and_states(name, kwargs):
    torch = pytest.importorskip("torch")
    ours, our_optimizer, theirs, their_optimizer = beside(torch, name, dict(kwargs))
    for p, q in zip(ours, theirs, strict=True):
        near = {"rtol": 2e-2, "atol": 2e-2} if name in MATRICES else {"rtol": 1e-4, "atol": 1e-6}  # Muon computes in bfloat16
        torch.testing.assert_close(torch.tensor(p.tolist()), q.detach(), **near)
        assert p.requires_grad and p.is_leaf
    assert_same(our_optimizer.state_dict(), their_optimizer.state_dict(), torch)
    assert repr(our_optimizer) == repr(their_optimizer)


@pytest.mark.parametrize("name", [n for n in OPTIONS if n not in ("Adafactor", *MATRICES)])
def test_complex_parameters(name):
    torch = pytest.importorskip("torch")
    ours, our_optimizer, theirs, their_optimizer = beside(torch, name, {}, complex_=True)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(p.tolist()), q.detach(), rtol=1e-4, atol=1e-5)
    for mine, other in zip(our_optimizer.state.values(), their_optimizer.state.values(), strict=True):
        for tensors in (mine, other):
            tensors.update({key: str(value.dtype).split(".")[-1] for key, value in tensors.items()})
        assert mine == other


@pytest.mark.parametrize("history, search", [(100, None), (2, None), (100, "strong_wolfe"), (2, "strong_wolfe")])
@pytest.mark.parametrize("lr", [1, 0.1])
def test_lbfgs(history, search, lr):
    torch = pytest.importorskip("torch")

    def minimise(t, optimizer):
        p = t.nn.Parameter(t.tensor([-1.2, 1.0, 0.3], dtype=t.float64))
        opt = optimizer([p], lr=lr, history_size=history, line_search_fn=search, max_iter=7)

        def closure():  # Rosenbrock's function
            x, y, z = p.detach().tolist()
            p.grad = t.tensor([-400 * x * (y - x * x) - 2 * (1 - x), 200 * (y - x * x), 4 * z**3], dtype=t.float64) * 0.01
            return t.tensor(((1 - x) ** 2 + 100 * (y - x * x) ** 2 + z**4) * 0.01, dtype=t.float64)

        losses = [float(opt.step(closure)) for _ in range(3)]
        state = opt.state[p]
        return p.tolist(), losses, state["func_evals"], state["n_iter"], list(state)

    found, expected = minimise(mt, optim.LBFGS), minimise(torch, torch.optim.LBFGS)
    assert found[0] == pytest.approx(expected[0], rel=1e-6) and found[1] == pytest.approx(expected[1], rel=1e-6)
    assert found[2:4] == expected[2:4]
    assert set(found[4]) == set(expected[4])


@pytest.mark.parametrize("name", [*OPTIONS, "LBFGS"])
def test_states_on_meta(name):
    p = mt.nn.Parameter(mt.empty(4, 6, device="meta"))
    q = mt.nn.Parameter(mt.empty(6, dtype=mt.bfloat16, device="meta"))
    if name == "LBFGS":
        q = mt.nn.Parameter(mt.empty(6, device="meta"))
    if name in MATRICES:
        q = mt.nn.Parameter(mt.empty(6, 2, dtype=mt.bfloat16, device="meta"))
    optimizer = getattr(optim, name)([p, q], **({"momentum": 0.9} if name == "SGD" else {}))
    p.grad, q.grad = mt.empty_like(p), mt.empty_like(q)
    for _ in range(2):
        optimizer.step(lambda: mt.tensor(1.0))
    loaded = getattr(optim, name)([p, q])
    loaded.load_state_dict(optimizer.state_dict())
    assert optimizer.state and p.is_meta
    for state in loaded.state.values():
        for key, value in state.items():
            if isinstance(value, mt.Tensor) and value.dim() and key not in ("row_var", "col_var"):
                assert value.is_meta and (name == "LBFGS" or value.shape in (p.shape, q.shape))


def test_adam_needs_two_more_of_everything():
    p = mt.nn.Parameter(mt.empty(1000, 1000, dtype=mt.bfloat16, device="meta"))
    p.grad = mt.empty_like(p)
    optimizer = optim.Adam([p])
    optimizer.step()
    assert sum(v.nbytes for v in optimizer.state[p].values() if v.is_meta) == 2 * p.nbytes


def test_defaults_like_torch():
    torch = pytest.importorskip("torch")
    for name in [*OPTIONS, "LBFGS"]:
        theirs = getattr(torch.optim, name)([torch.nn.Parameter(torch.zeros(2, 2))])
        assert getattr(optim, name)([mt.nn.Parameter(mt.zeros(2, 2))]).defaults == theirs.defaults, name


def stepped(t, optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = t.ones_like(p.detach())
    optimizer.step()


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda o, n, t: o.SGD(t.zeros(2)), TypeError),
        (lambda o, n, t: o.SGD([]), ValueError),
        (lambda o, n, t: o.SGD([1.0]), TypeError),
        (lambda o, n, t: o.SGD([n.Parameter(t.zeros(2))], lr=-1), ValueError),
        (lambda o, n, t: o.SGD([n.Parameter(t.zeros(2))], nesterov=True), ValueError),
        (lambda o, n, t: o.SGD([n.Parameter(t.zeros(2))], fused=True, foreach=True), RuntimeError),
        (lambda o, n, t: o.SGD([{"params": {n.Parameter(t.zeros(2))}}]), TypeError),
        (lambda o, n, t: o.SGD([n.Parameter(t.zeros(2)) * 2]), ValueError),
        (lambda o, n, t: o.Adam([n.Parameter(t.zeros(2))], betas=(0.9, 1.0)), ValueError),
        (lambda o, n, t: o.Adam([n.Parameter(t.zeros(2))], eps=-1), ValueError),
        (lambda o, n, t: o.Adam([n.Parameter(t.zeros(2))], lr=t.tensor(0.1), foreach=True), ValueError),
        (lambda o, n, t: o.Rprop([n.Parameter(t.zeros(2))], etas=(1.5, 2)), ValueError),
        (lambda o, n, t: o.Adam([n.Parameter(t.zeros(2))]).load_state_dict({"state": {}, "param_groups": []}), ValueError),
        (lambda o, n, t: o.LBFGS([{"params": [n.Parameter(t.zeros(2))]}, {"params": [n.Parameter(t.zeros(2))]}]), ValueError),
        (lambda o, n, t: o.Optimizer([n.Parameter(t.zeros(2))], {}).step(), NotImplementedError),
        (lambda o, n, t: [o.SGD([p]).add_param_group({"params": p}) for p in [n.Parameter(t.zeros(2))]], ValueError),
        (lambda o, n, t: o.SGD([n.Parameter(t.zeros(2))]).add_param_group([]), TypeError),
        (lambda o, n, t: o.Adam([n.Parameter(t.zeros(2))], lr=float("nan")), ValueError),
        (lambda o, n, t: o.SGD([n.Parameter(t.zeros(2))], lr=t.ones(2)), ValueError),
        (lambda o, n, t: o.Adam([n.Parameter(t.zeros(2))], betas=(0.9, t.tensor(0.9))), ValueError),
        (lambda o, n, t: o.Adafactor([n.Parameter(t.zeros(2))], d=0.5), ValueError),
        (lambda o, n, t: o.Adafactor([n.Parameter(t.zeros(2))], beta2_decay=0.5), ValueError),
        (lambda o, n, t: o.Muon([n.Parameter(t.zeros(2))]), ValueError),
        (lambda o, n, t: o.Muon([n.Parameter(t.zeros(2, 2))], adjust_lr_fn="other"), ValueError),
        (lambda o, n, t: stepped(t, o.Muon([n.Parameter(t.zeros(2, 2))], ns_steps=100)), ValueError),
        (lambda o, n, t: stepped(t, o.Muon([n.Parameter(t.zeros(2, 2))], ns_coefficients=(1, 2))), ValueError),
        (lambda o, n, t: o.SparseAdam([n.Parameter(t.zeros(2))], lr=0), ValueError),
        (lambda o, n, t: o.SparseAdam([n.Parameter(t.zeros(2))], eps=0), ValueError),
        (lambda o, n, t: stepped(t, o.SparseAdam([n.Parameter(t.zeros(2))])), RuntimeError),
        (lambda o, n, t: stepped(t, o.Adam([n.Parameter(t.zeros(2))], capturable=True)), AssertionError),
        (lambda o, n, t: stepped(t, o.Adam([n.Parameter(t.zeros(2))], differentiable=True)), RuntimeError),
    ],
)
def test_errors(make, error):
    with pytest.raises(error):
        make(optim, mt.nn, mt)
    torch = pytest.importorskip("torch")
    with pytest.raises(error if error is not NotImplementedError else Exception):
        make(torch.optim, torch.nn, torch)


def model():
    return mt.nn.Sequential(mt.nn.Linear(2, 3), mt.nn.Linear(3, 1))


def with_grads(m):
    for p in m.parameters():
        p.grad = mt.ones_like(p)
    return m


def test_groups_have_their_own_options():
    m = with_grads(model())
    optimizer = optim.Adam([{"params": m[0].parameters(), "lr": 0.5}, {"params": [m[1].weight]}], lr=0.1)
    optimizer.add_param_group({"params": m[1].bias, "weight_decay": 0.2})
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1, 0.1]
    before = m[1].bias.item()
    optimizer.step()
    assert m[1].bias.item() != before
    assert [g["params"] for g in optimizer.state_dict()["param_groups"]] == [[0, 1], [2], [3]]


def test_names_are_kept():
    m = model()
    optimizer = optim.SGD(m.named_parameters(), lr=0.1)
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_state_dict_goes_to_another_optimizer():
    m = with_grads(model())
    optimizer = optim.Adam(m.parameters(), lr=0.3)
    optimizer.step()
    other = optim.Adam(copy.deepcopy(m).parameters(), lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == 0.3
    for one, two in zip(optimizer.state.values(), other.state.values(), strict=True):
        assert one is not two
        assert one["exp_avg"] is two["exp_avg"]  # not copied, as in PyTorch
        assert one["exp_avg"].tolist() == two["exp_avg"].tolist() and two["step"].item() == 1


def test_loaded_state_is_cast_to_the_parameter():
    m = with_grads(model())
    optimizer = optim.Adam(m.parameters())
    optimizer.step()
    half = optim.Adam(copy.deepcopy(m).bfloat16().parameters())
    half.load_state_dict(optimizer.state_dict())
    for one, two in zip(optimizer.state.values(), half.state.values(), strict=True):
        assert two["exp_avg"].dtype == mt.bfloat16 and two["step"].dtype == mt.float32
        two["exp_avg"].zero_()
        assert one["exp_avg"].tolist() != two["exp_avg"].tolist()


def test_copies_and_pickles():
    m = with_grads(model())
    optimizer = optim.AdamW(m.parameters())
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert repr(other) == repr(optimizer) and len(other.state) == 4
        for p in other.param_groups[0]["params"]:
            p.grad = mt.ones_like(p)
        other.step()


def test_zero_grad():
    m = with_grads(model())
    optimizer = optim.SGD(m.parameters())
    optimizer.zero_grad(set_to_none=False)
    assert all((p.grad == 0).all() for p in m.parameters())
    optimizer.zero_grad()
    assert all(p.grad is None for p in m.parameters())
    optimizer.step()


def test_hooks():
    from metatensor.optim.optimizer import register_optimizer_step_pre_hook

    m = with_grads(model())
    optimizer = optim.SGD(m.parameters())
    seen = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before")),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after")),
        register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("all")),
    ]
    optimizer.step()
    assert seen == ["all", "before", "after"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 3
    optimizer.register_state_dict_post_hook(lambda o, d: {**d, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, d: {k: v for k, v in d.items() if k != "more"})
    assert optimizer.state_dict()["more"] == 1
    optimizer.load_state_dict(optimizer.state_dict())


def test_closure_is_evaluated_with_gradients():
    m = with_grads(model())
    optimizer = optim.SGD(m.parameters())
    assert optimizer.step(lambda: mt.is_grad_enabled()) is True


def test_a_subclass_outside():
    class Plain(optim.Optimizer):
        def __init__(self, params, lr=optim.optimizer.required):
            super().__init__(params, {"lr": lr})

        @mt.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad, alpha=group["lr"])

    p = mt.nn.Parameter(mt.ones(2))
    p.grad = mt.ones(2)
    with pytest.raises(ValueError, match="lr"):
        Plain([p])
    Plain([p], lr=0.5).step()
    assert p.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", list(OPTIONS))
def test_many_steps_with_a_state_exchanged_on_the_way(name):
    torch = pytest.importorskip("torch")
    if name in MATRICES:
        pytest.skip("Muon rounds to bfloat16 in each step")
    ours, our_optimizer, theirs, their_optimizer = beside(torch, name, {"lr": 0.01, "maximize": True}, steps=60)
    state = our_optimizer.state_dict()
    as_theirs = {i: {key: torch.tensor(v.tolist()) for key, v in kept.items()} for i, kept in state["state"].items()}
    their_optimizer.load_state_dict({**state, "state": as_theirs})
    for p, q in zip(ours, theirs, strict=True):
        p.grad, q.grad = mt.ones_like(p), torch.ones_like(q)
    our_optimizer.load_state_dict(state)
    our_optimizer.step()
    their_optimizer.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(p.tolist()), q.detach(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in OPTIONS if n != "Muon"])
@pytest.mark.parametrize("flag", ["foreach", "fused", "capturable"])
def test_flags_of_other_implementations_change_no_values_and_no_memory(name, flag):
    defaults = getattr(optim, name)([mt.nn.Parameter(mt.zeros(2, 2))]).defaults
    if flag not in defaults:
        pytest.skip(f"{name} has no {flag}")
    found = []
    for value in (False, True):
        device = "meta" if flag == "capturable" else "cpu"
        p = mt.nn.Parameter(mt.ones(2, 3, device=device))
        p.grad = mt.ones(2, 3, device=device)
        optimizer = getattr(optim, name)([p], **{flag: value})
        optimizer.step()
        optimizer.step()
        found.append(p.tolist() if device == "cpu" else sum(v.nbytes for v in optimizer.state[p].values()))
    assert found[0] == found[1]


def test_state_memory_like_torch():
    torch = pytest.importorskip("torch")
    for name, options in itertools.chain(((n, {}) for n in OPTIONS), [("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True}),
                                         ("RMSprop", {"momentum": 0.9, "centered": True})]):  # fmt: skip
        sizes = []
        for t, o, device in ((mt, optim, "meta"), (torch, torch.optim, "cpu")):
            p = t.nn.Parameter(t.zeros(30, 20, dtype=t.bfloat16, device=device))
            p.grad = t.zeros_like(p)
            optimizer = getattr(o, name)([p], **options)
            optimizer.step()
            sizes.append({key: (tuple(v.shape), v.nbytes) for key, v in optimizer.state[p].items() if isinstance(v, t.Tensor)})
        assert sizes[0] == sizes[1], name


class Rows(mt.Tensor):
    """A dense gradient of an embedding, used in place of a COO tensor. It knows which rows were looked up."""

    is_sparse = True

    def coalesce(self):
        return self

    def indices(self):
        return mt.tensor([self.rows], dtype=mt.int64)

    def values(self):
        return self.as_subclass(mt.Tensor)[self.indices()[0]]


def test_sparse_adam_updates_the_rows_that_a_gradient_has():
    torch = pytest.importorskip("torch")
    p, q = mt.nn.Parameter(mt.ones(5, 2)), torch.nn.Parameter(torch.ones(5, 2))
    ours, theirs = optim.SparseAdam([p], lr=0.1, maximize=True), torch.optim.SparseAdam([q], lr=0.1, maximize=True)
    for rows in ([1, 3], [3, 4], []):
        values = [[float(row), -2.0] for row in rows]
        dense = mt.zeros(5, 2)
        for row, value in zip(rows, values, strict=True):
            dense[row] = mt.tensor(value)
        p.grad = dense.as_subclass(Rows)
        p.grad.rows = rows
        at, values = torch.tensor([rows], dtype=torch.int64), torch.tensor(values).reshape(-1, 2)
        q.grad = torch.sparse_coo_tensor(at, values, (5, 2), check_invariants=True)
        ours.step()
        theirs.step()
    torch.testing.assert_close(torch.tensor(p.tolist()), q.detach())
    assert_same(ours.state_dict(), theirs.state_dict(), torch)
    p.grad = mt.zeros(5, 2).as_subclass(Rows)
    with pytest.raises(RuntimeError, match="dense gradient is needed"):
        optim.SGD([p]).step()


def test_a_meta_rate_does_not_update_a_parameter_with_data():
    p = mt.nn.Parameter(mt.zeros(2))
    with pytest.raises(RuntimeError, match="no data"):
        stepped(mt, optim.SGD([p], lr=mt.tensor(0.1, device="meta")))
    stepped(mt, optim.SGD([mt.nn.Parameter(mt.zeros(2, device="meta"))], lr=mt.tensor(0.1, device="meta")))


def test_other_parameters_for_a_while():
    p = mt.nn.Parameter(mt.zeros(2))
    optimizer = optim.Adam([p], lr=0.5)
    stepped(mt, optimizer)
    before, state = p.tolist(), copy.deepcopy(optimizer.state_dict())
    other = mt.nn.Parameter(mt.ones(2))
    with optim.swap_in_optimizer_params_and_state(optimizer, {"p": other}, state):
        stepped(mt, optimizer)
    assert p.tolist() == before and other.tolist() == pytest.approx([0.5, 0.5])
    assert optimizer.state[p]["step"].item() == 1 and state["state"][0]["step"].item() == 2
    with pytest.raises(ValueError, match="got 0 parameters, but"), optim.swap_in_optimizer_params_and_state(optimizer, {}, state):
        pass


def test_one_module_under_both_names():
    from metatensor.interchange.torch_modules import target_of

    assert target_of("torch.optim.adam") == "metatensor.optim.adam" and mt.optim is optim


def test_lbfgs_goes_on_at_a_gradient_of_zero():
    weight = mt.nn.Parameter(mt.ones(3))
    weight.grad = mt.zeros(3)
    optimizer = mt.optim.LBFGS([weight], tolerance_grad=-1.0)
    assert optimizer.step(lambda: mt.tensor(2.5)).item() == 2.5 and weight.tolist() == [1, 1, 1]
