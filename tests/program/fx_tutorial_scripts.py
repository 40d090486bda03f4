"""Scripts as tutorials of ``torch.fx`` have them, in other words. See `fx_scripts`."""

import copy
import operator

from program.fx_scripts import error, network, text


def decomposition(torch, fx):
    """Replace functions by others that are traced with proxies of a new graph."""
    functional = torch.nn.functional
    rules = {functional.relu: lambda x, inplace=False: (x > 0) * x, torch.exp: lambda x: 2.718281828 ** x}

    def decompose(module):
        new, made = fx.Graph(), {}
        tracer = fx.proxy.GraphAppendingTracer(new)
        for node in module.graph.nodes:
            if node.op == "call_function" and node.target in rules:
                args = [fx.Proxy(made[a], tracer) if isinstance(a, fx.Node) else a for a in node.args]
                made[node] = rules[node.target](*args).node
            else:
                made[node] = new.node_copy(node, lambda given: made[given])
        return fx.GraphModule(module, new)

    traced = fx.symbolic_trace(lambda x: functional.relu(x) + torch.exp(x))
    changed = decompose(traced)
    x = torch.tensor([-1.0, 2.0])
    graph = fx.Graph()
    p = fx.Proxy(graph.placeholder("p"))  # a proxy without a tracer
    graph.output(((p + 1).relu() * torch.neg(p)).node)
    return text(changed.graph), [round(v, 4) for v in changed(x).tolist()], text(graph), fx.GraphModule({}, graph)(x).tolist()


def fusion(torch, fx):
    """Compute batch norms in the convolutions before them."""
    nn = torch.nn

    def fused(conv, bn):
        conv = copy.deepcopy(conv)
        factor = bn.weight * torch.rsqrt(bn.running_var + bn.eps)
        bias = torch.zeros_like(bn.running_mean) if conv.bias is None else conv.bias
        conv.weight = nn.Parameter(conv.weight * factor.reshape(-1, 1, 1, 1))
        conv.bias = nn.Parameter((bias - bn.running_mean) * factor + bn.bias)
        return conv

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2)

        def forward(self, x):
            return self.bn(self.conv(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.nested, self.wrapped = nn.Conv2d(1, 1, 1), nn.Sequential(nn.BatchNorm2d(1), nn.Conv2d(1, 1, 1)), Inner()

        def forward(self, x):
            return self.wrapped(self.nested(self.first(x)))

    model = Net().eval()
    traced = fx.symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op != "call_module" or not isinstance(modules[node.target], nn.BatchNorm2d):
            continue
        before = node.args[0]
        if before.op != "call_module" or type(modules[before.target]) is not nn.Conv2d or len(before.users) > 1:
            continue
        above, _, name = before.target.rpartition(".")
        setattr(modules[above], name, fused(modules[before.target], modules[node.target]))
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
    traced.graph.lint()
    traced.delete_all_unused_submodules()
    traced.recompile()
    x = torch.ones(1, 1, 5, 5)
    return text(traced.graph), bool((traced(x) - model(x)).abs().max() < 1e-5), sorted(name for name, _ in traced.named_modules())


def activations(torch, fx):
    """Replace modules and functions by others."""
    traced = fx.symbolic_trace(network(torch))
    swaps = {torch.relu: torch.nn.functional.hardswish, operator.add: torch.mul}
    for node in traced.graph.nodes:
        if node.target in swaps:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(swaps[node.target], node.args, node.kwargs)
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    for name, module in list(traced.named_modules()):
        if isinstance(module, torch.nn.ReLU6):
            above, _, last = name.rpartition(".")
            setattr(traced.get_submodule(above), last, torch.nn.SiLU())
    traced.recompile()
    return text(traced.graph), tuple(traced(torch.ones(1, 3, 6, 6)).shape), error(traced.graph.lint)


def observers(torch, fx):
    """Insert modules behind layers, and remove them again."""

    class Minimum(torch.nn.Module):
        def forward(self, x):
            return x

    traced = fx.symbolic_trace(network(torch))
    count = 0
    for node in list(traced.graph.nodes):
        if node.op in ("call_module", "call_function") and node.target is not operator.getitem:
            name = f"observer_{count}"
            count += 1
            traced.add_module(name, Minimum())
            with traced.graph.inserting_after(node):
                seen = traced.graph.create_node("call_module", name, (node,), {})
                node.replace_all_uses_with(seen)
                seen.args = (node,)
    traced.recompile()
    with_them = text(traced.graph)
    shape = tuple(traced(torch.ones(1, 3, 6, 6)).shape)
    for node in reversed(traced.graph.nodes):
        if node.op == "call_module" and node.target.startswith("observer"):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return with_them, shape, text(traced.graph), sorted(name for name, _ in traced.named_children())


def paths(torch, fx):
    """Note the path of the module that each node comes from."""

    class PathTracer(fx.Tracer):
        current = ""

        def __init__(self):
            super().__init__()
            self.found = {}

        def call_module(self, m, forward, args, kwargs):
            before, self.current = self.current, self.path_of_module(m)
            try:
                return super().call_module(m, forward, args, kwargs)
            finally:
                self.current = before

        def create_proxy(self, *args, **kwargs):
            made = super().create_proxy(*args, **kwargs)
            self.found[made.node.name] = self.current
            return made

    tracer = PathTracer()
    tracer.trace(network(torch))
    return tracer.found


def inlining(torch, fx):
    """Put the graph of a submodule in the place of its call, and cut a graph out of another."""
    net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), torch.nn.Linear(2, 1))

    class Outer(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    outer = fx.GraphModule(net, Outer().trace(net))
    made, values = fx.Graph(), {}
    for node in outer.graph.nodes:
        inner = outer.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(inner, torch.nn.Sequential):
            graph = fx.symbolic_trace(inner).graph
            known = {graph.find_nodes(op="placeholder")[0]: values[node.args[0]]}
            for one in graph.nodes:
                if one.op == "call_module":
                    one.target = f"{node.target}.{one.target}"
            values[node] = made.graph_copy(graph, known)
        else:
            values[node] = made.node_copy(node, lambda given: values[given])
    whole = fx.GraphModule(net, made)
    return text(outer.graph), text(made), tuple(whole(torch.ones(3, 2)).shape), sorted(whole.state_dict())


def inversion(torch, fx):
    """Walk a graph backwards and make the graph of its inverse."""
    inverse = {operator.add: operator.sub, operator.mul: operator.truediv, torch.exp: torch.log}
    traced = fx.symbolic_trace(lambda x: torch.exp(x * 3.0 + 2.0))
    made, value = fx.Graph(), None
    for node in reversed(traced.graph.nodes):
        if node.op == "output":
            value = made.placeholder("y")
        elif node.op == "call_function":
            value = made.call_function(inverse[node.target], (value, *node.args[1:]))
    made.output(value)
    back = fx.GraphModule(torch.nn.Module(), made)
    return text(made), round(back(traced(torch.tensor(0.5))).item(), 4)


def structures(torch, fx):
    """Named tuples, dataclasses, nested arguments and results."""
    from typing import NamedTuple

    class Pair(NamedTuple):
        first: object
        second: object

    def function(x, others, *rest, **named):
        pair = Pair(x[0], x[1])
        a, b = others
        torch.relu(a)
        return {"pair": pair, "sum": a + b, "rest": [rest[0], named["k"]], "s": a[1:, ::2, None], "none": None, "t": (1.5, True, "s")}

    traced = fx.symbolic_trace(function)
    values = traced((1, 2), (torch.ones(2, 2), torch.ones(2, 2)), 5, k=6)
    return text(traced.graph), tuple(values["pair"]), values["sum"].tolist(), values["rest"], values["t"], tuple(values["s"].shape)


SCRIPTS = (decomposition, fusion, activations, observers, paths, inlining, inversion, structures)
