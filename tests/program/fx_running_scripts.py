"""Scripts that run, copy and transform graphs. See `fx_scripts`."""

import copy
import pickle

from program.fx_scripts import error, network, text

# Running ----------------------------------------------------------------------------------------------------


def interpreters(torch, fx):
    class Profile(fx.Interpreter):
        def __init__(self, module):
            super().__init__(module)
            self.log, self.sizes = [], []

        def run_node(self, n):
            result = super().run_node(n)
            self.log.append(n.name)
            self.sizes.append(len(self.env))
            return result

        def call_function(self, target, args, kwargs):
            return super().call_function(torch.neg if target is torch.relu else target, args, kwargs)

        def call_module(self, target, args, kwargs):
            self.log.append(f"module {target}")
            return super().call_module(target, args, kwargs)

    torch.manual_seed(0)
    traced = fx.symbolic_trace(network(torch))
    profile = Profile(traced)
    x = torch.ones(1, 3, 6, 6)
    shape = tuple(profile.run(x).shape)
    kept = fx.Interpreter(traced, garbage_collect_values=False)
    kept.run(x)
    first = next(iter(traced.graph.nodes))
    resumed = fx.Interpreter(traced).run(initial_env={first: x})

    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return torch.sigmoid(*args) if target is torch.relu else super().call_function(target, args, kwargs)

        def call_module(self, target, args, kwargs):
            return args[0] if "drop" in target else super().call_module(target, args, kwargs)

    swapped = Swap(traced).transform()
    return profile.log, shape, profile.sizes, len(kept.env), tuple(resumed.shape), text(swapped.graph), tuple(swapped(x).shape)


def copies(torch, fx):
    traced = fx.symbolic_trace(network(torch))
    traced.meta["note"] = [1]
    x = torch.ones(1, 3, 6, 6)
    results = []
    for made in (copy.deepcopy(traced), copy.copy(traced), pickle.loads(pickle.dumps(fx.symbolic_trace(torch.nn.Linear(3, 2))))):
        given = x if "head" in dict(made.named_children()) else torch.ones(1, 3)
        results.append(([(n.name, n.op) for n in made.graph.nodes], tuple(made(given).shape), sorted(made.state_dict())))
    results += [copy.deepcopy(traced).meta["note"], traced.add_submodule("more.act", torch.nn.ReLU()), traced.delete_submodule("nothing")]
    traced.delete_all_unused_submodules()
    return results, sorted(name for name, _ in traced.named_modules())


# Passes -----------------------------------------------------------------------------------------------------


def patterns(torch, fx):
    results = []

    def case(model, pattern, replacement, *inputs):
        traced = fx.symbolic_trace(model)
        found = fx.replace_pattern(traced, pattern, replacement)
        traced.graph.lint()
        results.append((len(found), [one.anchor.name for one in found[:1]], text(traced.graph)))
        if inputs:
            results.append(traced(*inputs).tolist())

    x = torch.tensor([1.0, -2.0])
    case(lambda x, y: torch.relu(x + y) * torch.relu(y + x), lambda a, b: torch.relu(a + b), lambda a, b: torch.sigmoid(a - b), x, x)
    case(lambda x: torch.relu(torch.relu(torch.relu(x))), lambda a: torch.relu(torch.relu(a)), lambda a: a.relu(), x)
    case(lambda x: (x + 1).neg() + (x + 1), lambda a: (a + 1).neg(), lambda a: a - 1, x)
    case(lambda x: x * 2 + x * 3, lambda a: a * 2, lambda a: a + a, x)
    case(lambda x: (x.sum(), x.max()), lambda a: (a.sum(), a.max()), lambda a: (a.max(), a.sum()))
    case(lambda x: torch.add(x, 3) + 3, lambda a, b: torch.add(a, b), lambda a, b: a * b, x)
    case(lambda x: torch.flatten(x, start_dim=0), lambda a: torch.flatten(a, start_dim=0), lambda a: a.reshape(-1), x)
    case(lambda x: x.relu() + x, lambda a: a.sigmoid(), lambda a: a, x)
    case(lambda x: torch.cat([x, x.neg()]), lambda a, b: torch.cat([a, b]), lambda a, b: torch.stack([a, b]), x)
    from_subgraph = fx.subgraph_rewriter
    traced = fx.symbolic_trace(lambda x: torch.add(x, 1) * torch.add(x, 2))
    found = from_subgraph.replace_pattern_with_filters(
        traced, lambda a: torch.add(a, 5), lambda a: torch.neg(a), [lambda match, graph, pattern: len(match.returning_nodes) == 1],
        ignore_literals=True)  # fmt: skip
    results.append(([[n.name for n in one.replacements] for one in found], text(traced.graph)))
    return results


def passes(torch, fx):
    from importlib import import_module

    at = lambda name: import_module(f"{fx.__name__}.{name}")
    results = []
    traced = fx.symbolic_trace(network(torch))
    at("passes.shape_prop").ShapeProp(traced).propagate(torch.ones(2, 3, 6, 6))
    results.append([(n.name, tuple(n.meta["tensor_meta"].shape), tuple(n.meta["tensor_meta"].stride)) for n in traced.graph.nodes
                    if "tensor_meta" in n.meta and hasattr(n.meta["tensor_meta"], "shape")])  # fmt: skip
    numbers = {node.name: i // 4 for i, node in enumerate(traced.graph.nodes)}
    names = {}
    for options in ({}, {"keep_original_order": True, "keep_original_node_name": True}, {"partition_affix": "pp", "tuple_return": True}):
        parts = at("passes.split_module").split_module(traced, traced, lambda node: numbers[node.name], names, **options)
        results.append((text(parts.graph), [(name, text(m.graph)) for name, m in parts.named_children() if isinstance(m, fx.GraphModule)]))
        results.append(tuple(parts(torch.ones(2, 3, 6, 6)).shape))
    results.append(sorted(names.items()))
    cyclic = fx.symbolic_trace(lambda x: x.relu().neg().relu())
    results.append(error(lambda: at("passes.split_module").split_module(cyclic, cyclic, lambda node: node.target == "neg")))
    traced = fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()))
    at("passes.graph_manipulation").get_size_of_all_nodes(traced, [torch.ones(2, 4)])
    results.append([tuple(n.size_bytes) for n in traced.graph.nodes if n.op != "output"])
    traced = fx.symbolic_trace(network(torch))
    at("passes.graph_manipulation").replace_target_nodes_with(traced, "call_function", torch.relu, "call_method", "relu")
    results.append(text(traced.graph))
    fused = at("experimental.optimization").fuse(network(torch))
    results.append(text(fused.graph))
    results.append(text(at("experimental.optimization").remove_dropout(network(torch)).graph))
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    traced = fx.symbolic_trace(lambda x: torch.nn.functional.relu(torch.flatten(x, 1), True))
    for only in (True, False):
        results.append(text(at("experimental.normalize").NormalizeArgs(traced, only).transform().graph))
        results.append(text(at("experimental.normalize").NormalizeArgs(fx.symbolic_trace(model), only).transform().graph))
    traced = fx.symbolic_trace(lambda x, y: torch.add(x, y) * torch.mul(x, 2))
    results.append(text(at("experimental.normalize").NormalizeOperators(traced).transform().graph))
    return results


def managers(torch, fx):
    from importlib import import_module

    manager = import_module(f"{fx.__name__}.passes.infra.pass_manager")
    base = import_module(f"{fx.__name__}.passes.infra.pass_base")
    support = import_module(f"{fx.__name__}.passes.operator_support")
    log = []

    class Count(base.PassBase):
        def __init__(self, name):
            self.__name__ = name

        def requires(self, graph_module):
            log.append(f"requires {self.__name__}")

        def call(self, graph_module):
            log.append(self.__name__)
            return base.PassResult(graph_module, self.__name__ == "b")

    a, b = Count("a"), Count("b")
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    made = manager.PassManager([b, a], [manager.this_before_that_pass_constraint(a, b)], steps=2)
    result = made(traced)
    made.add_checks(lambda module: None)
    failing = manager.PassManager([manager.pass_result_wrapper(lambda gm: 1 / 0)])
    loop = [manager.this_before_that_pass_constraint(a, b), manager.this_before_that_pass_constraint(b, a)]
    modules = dict(traced.named_modules())
    named = support.create_op_support(lambda submodules, node: node.name == "relu")
    tests = (named, support.chain(named, support.OpSupports.decline_if_node_in_names({"relu"})), support.any_chain(named, named),
             support.OperatorSupport({"_operator.add": None}))  # fmt: skip
    supported = [[one.is_node_supported(modules, node) for node in traced.graph.nodes if node.op == "call_function"] for one in tests]
    return log, result.modified, bool(error(lambda: failing(traced))), error(lambda: manager.PassManager([a, b], loop)(traced)), supported


SCRIPTS = (interpreters, copies, patterns, passes, managers)
