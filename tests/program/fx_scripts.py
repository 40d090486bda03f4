"""Scripts that work with ``torch.fx``. Each takes the modules ``torch`` and ``fx`` and returns graphs and other simple values.

They run with PyTorch and with metatensor, and must return the same.
"""

import copy
import math
import operator


def text(graph):
    """Return a graph as a list of its nodes."""

    def target(node):
        found = node.target if isinstance(node.target, str) else node.target.__name__
        return found.removeprefix("fft_").removeprefix("linalg_")  # PyTorch's functions in these modules have such names

    def plain(value):
        return str(value).replace("metatensor.", "torch.")

    return [(node.name, node.op, target(node), plain(node.args), plain(node.kwargs), sorted(user.name for user in node.users))
            for node in graph.nodes]  # fmt: skip


def error(function):
    """Return the class of the error that a function raises."""
    try:
        function()
    except Exception as raised:
        return type(raised).__name__
    return None


def network(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.conv, self.bn, self.drop = nn.Conv2d(n, n, 3, padding=1), nn.BatchNorm2d(n), nn.Dropout(0.1)
            self.scale = nn.Parameter(torch.ones(n, 1, 1))

        def forward(self, x):
            return self.drop(torch.relu(self.bn(self.conv(x)) * self.scale + x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6())
            self.layerOne, self.layer2 = Block(4), Block(4)
            self.head = nn.Linear(4, 5)
            self.register_buffer("mean", torch.zeros(1))
            self.plain = torch.ones(1)

        def forward(self, x, temperature: float = 1.0, *, flag=None):
            x = self.stem(x - self.mean)
            y = self.layer2(self.layerOne(x)).mean([2, 3])
            y = torch.nn.functional.dropout(y, p=0.2, training=self.training)
            if flag is None:
                y = y + self.plain
            return torch.nn.functional.softmax(self.head(y) / temperature, dim=-1)

    return Net().eval()


# Tracing ----------------------------------------------------------------------------------------------------


def functions(torch, fx):
    functional, x = torch.nn.functional, torch.ones(3)
    return [
        lambda p: x + p, lambda p: 2 - x - p, lambda p: x / p, lambda p: x**p, lambda p: x @ p, lambda p: x > p,
        lambda p: x.add(p, alpha=2),
        lambda p: torch.zeros((p, 1)), lambda p: torch.reshape(x, (p, -1)), lambda p: x.reshape(p, -1), lambda p: torch.full((2,), p),
        lambda p: torch.arange(p), lambda p: x[p], lambda p: x[p, 0], lambda p: x.view(p.shape), lambda p: x.type_as(p),
        lambda p: torch.sum(x, dim=p), lambda p: torch.einsum("i,i", x, p), lambda p: p.T, lambda p: p.a.b.c(1), lambda p: (p.a, p(1)),
        lambda p: torch._assert(p == 1, "m"), lambda p: math.sqrt(p), lambda p: torch.where(p, x, x), lambda p: isinstance(p,
        torch.Tensor),
        lambda p: functional.softmax(p, dim=-1), lambda p: functional.scaled_dot_product_attention(p, p, p), lambda p: abs(p),
        lambda p: p[0], lambda p: p[..., None, 1:p], lambda p: f"{p}", lambda p: p.shape, lambda p: functional.interpolate(p,
        size=p.shape[2:]),
        lambda p: torch.fft.fft(p), lambda p: torch.linalg.norm(p), lambda p: torch.ops.aten.relu.default(p),
        lambda p: torch.ops.aten.relu(p),
        lambda p: torch.is_tensor(p), lambda p: torch.is_floating_point(p), lambda p: torch.stack([p, x]), lambda p: p.data,
        lambda p: torch.meshgrid(p, p, indexing="ij"), lambda p: p.__eq__(None), lambda p: p is None, lambda p: p != p, lambda p: -p,
        lambda p: ~p, lambda p: 3 // p, lambda p: 1 << p, lambda p: p & 1 | p ^ 2, lambda p: {"a": [p, (p, None)], "b": slice(p,
        None, 2)},
        lambda p: functional.relu(p), lambda p: functional.max_pool2d(p, 2, ceil_mode=True), lambda p: functional.batch_norm(p, x, x),
        lambda p: functional.layer_norm(p, (3,)), lambda p: functional.cross_entropy(p, x), lambda p: functional.embedding(p, x),
        lambda p: functional.gelu(p), lambda p: functional.linear(p, x), lambda p: functional.conv2d(p, x, padding=1),
        lambda p: functional.avg_pool2d(p, 2), lambda p: functional.adaptive_avg_pool2d(p, 1), lambda p: functional.hardtanh(p, 0),
        lambda p: functional.pad(p, (0, 1)), lambda p: functional.silu(p, inplace=True),
        lambda p: torch.flatten(p, start_dim=1), lambda p: torch.relu(input=p), lambda p: torch.cat((p, x), dim=0),
        lambda p: torch.add(p, 1),
        lambda p: p.add_(1).mul(2), lambda p: torch.split(p, 2), lambda p: torch.max(p, dim=1)[0], lambda p: p.to(torch.float16),
        lambda p: p.to(x.device), lambda p: p.size(0), lambda p: p.view(p.size(0), -1), lambda p: torch.sym_int(p),
        lambda p: p.sum(dim=(0, 1)),
        # errors
        lambda p: p if p else 0, lambda p: not p, lambda p: [*p], lambda p: len(p), lambda p: int(p), lambda p: float(p),
        lambda p: range(p),
        lambda p: p in [1], lambda p: 1 in p, lambda p: torch.Size([p]), lambda p: operator.setitem(p, 0, 1), lambda p: {p: 1},
        lambda p: object(),
        lambda p: torch.nn.Linear(2, 2)(p), lambda p: torch.nn.Parameter(torch.ones(1)) + p, lambda p: dict(**p),
        lambda p: p.__class__,
    ]  # fmt: skip


def tracing(torch, fx):
    def one(function):
        try:
            return text(fx.Tracer().trace(function))
        except Exception as raised:
            return type(raised).__name__

    return [one(function) for function in functions(torch, fx)]


def modules(torch, fx):
    net = network(torch)
    traced = fx.symbolic_trace(net)
    stacks = [(node.name, [path for path, _ in node.meta.get("nn_module_stack", {}).values()]) for node in traced.graph.nodes]
    types = [(node.name, node.type) for node in traced.graph.nodes]
    return text(traced.graph), text(fx.symbolic_trace(traced).graph), stacks, types, type(traced).__name__, sorted(traced.state_dict())


def concrete(torch, fx):
    def function(x, flag, *, options, pair):
        y = x + 1 if flag is None else x
        return y * pair[1] + options["a"]

    PH, results = fx.PH, []
    for values in ({"flag": None}, {"flag": None, "options": {"a": PH, "b": 3}}, {"pair": (3, PH), "options": {"a": PH}},
    {"flag": True}):
        traced = fx.symbolic_trace(function, concrete_args=values)
        results.append([(name, op, target) for name, op, target, *_ in text(traced.graph)])
    traced = fx.symbolic_trace(lambda x, flag, t: x + 1 if flag else x + t["a"], concrete_args={"flag": False, "t": {"a": PH, "b": 3}})
    results += [traced(5, False, {"a": 7, "b": 3}), error(lambda: traced(5, True, {"a": 7, "b": 3})), error(lambda: traced(5))]
    return results


def tracers(torch, fx):
    class Custom(fx.Tracer):
        proxy_buffer_attributes = True

        def is_leaf_module(self, m, module_qualified_name):
            return module_qualified_name.startswith("layer") or super().is_leaf_module(m, module_qualified_name)

        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter([obj[0], obj[1]])

        def keys(self, obj):
            return ["k"]

    def function(x, y):
        a, b = x
        first, *rest = y
        return (a if b else first), rest, dict(**y)

    class Named(fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *rest):
            made = super().create_proxy(kind, target, args, kwargs, name, type_expr, *rest)
            made.node.meta["kind"] = kind
            return made

        def call_module(self, m, forward, args, kwargs):
            return forward(*args, **kwargs) if isinstance(m, torch.nn.ReLU6) else super().call_module(m, forward, args, kwargs)

    net = network(torch)
    graph = Named().trace(net)
    constant = fx.Tracer(param_shapes_constant=True)
    net.forward_shape = None

    class Shapes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3, 4))

        def forward(self, x):
            return x.view(self.w.shape[0], self.w.size()[1], self.w.ndim, self.w.numel()) if self.w.shape[0] == 3 else x

    return (text(Custom().trace(net)), text(Custom().trace(function)), text(graph), [node.meta.get("kind") for node in graph.nodes],
            text(constant.trace(Shapes())))  # fmt: skip


# Graphs -----------------------------------------------------------------------------------------------------


def editing(torch, fx):
    traced = fx.symbolic_trace(lambda x, y: torch.relu(x) + y * 2)
    graph, results = traced.graph, []
    nodes = {node.name: node for node in graph.nodes}
    with graph.inserting_after(nodes["relu"]):
        new = graph.call_function(torch.neg, (nodes["relu"],))
        other = graph.call_method("abs", (nodes["relu"],))
    results.append(text(graph))
    results.append([user.name for user in nodes["relu"].replace_all_uses_with(new, lambda user: user not in (new, other))])
    with graph.inserting_before(nodes["add"]):
        graph.call_function(operator.mul, (other, other), {}, name="squared")
        copied = graph.node_copy(nodes["mul"])
    nodes["mul"].append(copied)
    nodes["y"].prepend(nodes["x"])
    nodes["mul"].update_arg(1, 3)
    nodes["mul"].update_kwarg("k", new)
    nodes["mul"].kwargs = {}
    nodes["add"].replace_input_with(new, nodes["x"])
    nodes["add"].insert_arg(2, 5)
    nodes["add"].args = nodes["add"].args[:2]
    results.append(text(graph))
    graph.lint()
    seen = []
    for node in graph.nodes:  # what is inserted meanwhile is seen
        seen.append(node.name)
        if node.name == "add":
            with graph.inserting_after(node):
                graph.call_function(torch.exp, (node,))
    results += [seen, [node.name for node in reversed(graph.nodes)], len(graph.nodes), graph.eliminate_dead_code(), text(graph)]
    results += [nodes["x"].next.name, nodes["add"].prev.name, graph.output_node().next.op]
    results.append([n.name for n in graph.output_node().all_input_nodes])
    results.append([n.name for n in graph.find_nodes(op="call_function", target=torch.relu)])
    results.append([n.name for n in graph.find_nodes(op="placeholder")])
    traced.recompile()
    results.append(traced(torch.ones(1), torch.ones(1)).tolist())
    made = fx.Graph()
    values = {node: made.placeholder(node.name) for node in graph.nodes if node.op == "placeholder"}
    made.output(made.graph_copy(graph, values))
    results += [text(made), text(copy.deepcopy(graph)), nodes["x"] < nodes["add"], nodes["add"] < nodes["x"]]
    return results


def refused(torch, fx):
    def fresh():
        graph = fx.Graph()
        x = graph.placeholder("x")
        y = graph.call_function(torch.relu, (x,))
        graph.output(y)
        return graph, x, y

    graph, x, y = fresh()
    other, a, b = fresh()
    module = fx.GraphModule({}, graph)
    cases = [
        lambda: graph.erase_node(x), lambda: graph.create_node("foo", "x"), lambda: graph.call_function("x"),
        lambda: graph.create_node("call_method", len), lambda: graph.inserting_before(a), lambda: graph.inserting_after(a),
        lambda: x.append(a),
        lambda: x.update_arg(0, 1), lambda: x.insert_arg(3, 1), lambda: fx.GraphModule(3, graph), lambda: fx.symbolic_trace(3),
        lambda: fx.wrap(3),
        lambda: fx.wrap("x"), lambda: setattr(module, "graph", 3), lambda: graph.erase_node(b), lambda: fx.Interpreter(module).run(),
        lambda: module(), lambda: y.args[0].foo, lambda: y.args.append(1), lambda: fx.Interpreter(module).run(1),
    ]  # fmt: skip
    results = [error(case) for case in cases]
    bad = fx.Graph()
    bad.call_function(torch.relu, (x,))
    results.append(error(bad.lint))
    bad = fx.Graph()
    p = bad.placeholder("p")
    q = bad.call_function(torch.relu, (p,))
    q.append(p)
    results.append(error(bad.lint))
    bad = fx.Graph()
    bad.output(bad.call_module("missing", (bad.placeholder("p"),)))
    results += [error(lambda: fx.GraphModule({}, bad)), error(lambda: fx.GraphModule(torch.nn.Module(), bad))]
    module.graph.create_node("call_module", "gone")
    results.append(error(module.graph.lint))
    return results


def names(torch, fx):
    graph = fx.Graph()
    wishes = "layerA HTTPServer aB1C x.Y-z __call__ *Args **more a..b _X_ 0.weight a_1 a a len def sum self A__B".split()
    wishes += "x_0 x_00 x_00 x a_1 a_1 a_3 a".split()
    found = [graph.create_node("placeholder", wish).name for wish in wishes]

    class CamelCase2:
        pass

    found += [graph.call_function(CamelCase2).name, graph.call_module("Block1.Conv2D").name, graph.call_function(operator.and_).name]
    return found


def formats(torch, fx):
    traced = fx.symbolic_trace(lambda x, k=2: torch.relu(x).view(1, -1)[0] + k)
    lines = [node.format_node() for node in traced.graph.nodes]
    placeholders, returns = [], [""]
    traced.graph.nodes.__iter__().__next__().format_node(placeholders, returns)
    return [line.replace("metatensor.", "torch.") for line in lines], placeholders, str(traced.graph).replace("metatensor.", "torch.")


def code(torch, fx):
    traced = fx.symbolic_trace(network(torch))
    body = traced.code.replace("metatensor.", "torch.").strip().splitlines()
    return [line for line in body if "annotations" not in line]


def codegens(torch, fx):
    class ListCodeGen(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return f"\ndef forward(self, given: List){maybe_return_annotation}:\n    {', '.join(free_vars)} = given"

        def additional_globals(self):
            return [("List", list)]

        def process_inputs(self, *inputs):
            return inputs[0]

        def generate_output(self, output_args, **options):
            return f"return ({output_args}, 'done')"

        def process_outputs(self, outputs):
            return outputs, "done"

    traced = fx.symbolic_trace(lambda x, y: torch.relu(x) + y)
    one, two = torch.ones(2), torch.ones(2)
    traced.graph.set_codegen(ListCodeGen())
    traced.recompile()
    results = [traced([one, two])[0].tolist(), traced([one, two])[1], fx.Interpreter(traced).run([one, two])[1]]
    copied = copy.deepcopy(traced)
    results += [copied([one, two])[1], fx.Transformer(traced).transform()([one, two])[1]]
    traced = fx.symbolic_trace(lambda x: x + 1)
    log = []
    traced.note = log.append
    with traced.graph.on_generate_code(lambda before: lambda body: ["self.note('ran')\n", *body]):
        traced.recompile()
        traced(1)
    traced.recompile()
    return results, traced(1), log


SCRIPTS = (tracing, modules, concrete, tracers, editing, refused, names, formats, code, codegens)
