"""What the page of a graph says about a program: groups, where data come from, and figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from metatensor import nn
from metatensor.analysis import estimate
from metatensor.analysis.graph import contents
from metatensor.analysis.graph.tree import MOST, grouped, paths_of

X = {"device": "meta"}


def calls_in(tree):
    for part in tree:
        yield from [part] if isinstance(part, int) else calls_in(part[2])


def titles(tree):
    return [part if isinstance(part, int) else part[0] for part in tree]


def test_groups_follow_modules(program):
    tree = grouped(paths_of(program))
    assert titles(tree) == [0, "layers", len(program) - 1]
    layers = tree[1][2]
    assert titles(layers) == [f"layers.{i}" for i in range(12)]
    assert [titles(layer[2])[1] for layer in layers] == ["attention"] * 12
    assert layers[3][1] == ("layers", "3") and layers[3][2][-2][1] == ("layers", "3", "mlp")
    assert list(calls_in(tree)) == list(range(len(program)))


def test_a_module_that_is_called_twice_is_two_groups():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def forward(self, x):
            return self.inner(self.inner(x) + 1)

    with mt.device("meta"):
        program = mt.program.trace(Twice(), mt.empty(2, 4))
    assert titles(grouped(paths_of(program))) == ["inner", 2, "inner (2)"]


def test_phases_and_updates_of_parameters(training):
    tree = grouped(paths_of(training))
    assert titles(tree) == ["forward", "backward", "after backward"]
    assert list(calls_in(tree)) == list(range(len(training)))
    assert all(training.calls[i].backward for i in calls_in([tree[1]]))
    assert titles(tree[1][2])[-2:] == ["layers", tree[1][2][-1]] and titles(tree[2][2])[:3] == ["embed.weight", "layers", "head"]
    updated = {".".join(path[1:]) for path in paths_of(training) if path[0] == "after backward"}
    assert updated >= set(training.parameters)


def test_long_groups_are_divided():
    x = mt.empty(3, **X)

    def long(x):
        for _ in range(10_000):
            x = x + 1
        return x

    tree = grouped(paths_of(mt.program.trace(long, x)))
    assert titles(tree)[:2] == ["call 1 – call 100", "call 101 – call 200"] and len(tree) == 100
    assert list(calls_in(tree)) == list(range(10_000))


NAMES = st.lists(st.sampled_from(["a", "b", "0", "1"]), max_size=4).map(tuple)


@pytest.mark.slow
@given(st.lists(NAMES, max_size=60) | st.lists(NAMES, min_size=1, max_size=2).map(lambda paths: paths * 700))
def test_every_call_is_in_one_group_in_order(paths):
    tree = grouped(paths)
    assert list(calls_in(tree)) == list(range(len(paths)))

    def check(parts, path):
        assert len(parts) <= MOST or len(paths) > MOST**2
        for part in parts:
            if isinstance(part, int):
                assert paths[part][: len(path)] == path
            else:
                assert part[1][: len(path)] == path and len(part[2]) > 1
                check(part[2], part[1])

    check(tree, ())


def test_figures_are_those_of_an_estimate(program):
    found = contents(program)
    report = estimate(program, *[mt.empty(v.shape, dtype=v.dtype, **X) for v in program.inputs])
    assert found["unknown"] == ""
    assert sum(row[7] for row in found["calls"]) == report.flops
    assert max(row[11] for row in found["calls"]) == report.peak.bytes
    assert all(row[9] >= 0 and row[8] >= 0 for row in found["calls"])


def test_sources_follow_writes():
    def write(x, y):
        z = x + 1
        z.mul_(y)
        return z + z[0]

    found = contents(mt.program.trace(write, mt.empty(2, 2, **X), mt.empty(2, **X)))
    sources = [[producer for producer, _ in row[5]] for row in found["calls"]]
    assert [found["operators"][row[0]][0] for row in found["calls"]] == ["add", "mul_", "select", "add"]
    assert sources == [[-1], [0, -2], [1], [1, 2]]  # the sum reads what mul_ wrote
    assert found["calls"][1][6] == found["calls"][0][4] and found["outputs"][0][1] == 3


def test_views_make_nothing_and_have_a_kind():
    found = contents(mt.program.trace(lambda x: x.t().relu(), mt.empty(2, 3, **X)))
    assert [found["operators"][row[0]][1] for row in found["calls"]] == ["view", "elementwise"]
    assert [row[10] for row in found["calls"]] == [0, 24]


def test_drawing_changes_nothing():
    layer = nn.Linear(2, 2, device="cpu")
    def step(x):
        layer(x).sum().backward()

    program = mt.program.trace(step, mt.ones(1, 2, device="cpu"))
    before, gradient = mt.get_rng_state(), layer.weight.grad
    values = layer.weight.detach().clone()
    contents(program)
    assert layer.weight.grad is gradient and mt.equal(layer.weight, values) and mt.equal(mt.get_rng_state(), before)


def test_what_does_not_run_on_meta_has_unknown_figures():
    program = mt.program.trace(lambda x: x.nonzero().sum(), mt.ones(3, device="cpu"))
    found = contents(program)
    assert found["unknown"].startswith("the program does not run on meta: DataDependentError: nonzero()")
    assert all(row[7] is None and row[8] is None for row in found["calls"])
    assert [row[10] > 0 for row in found["calls"]] == [True, True]


def test_random_programs_are_drawn():
    with mt.device("meta"):
        program = mt.program.trace(nn.Sequential(nn.Linear(4, 4), nn.Dropout()), mt.empty(2, 4))
    found = contents(program)
    assert found["unknown"] == "" and any(row[12] & 4 for row in found["calls"])


def test_files_can_say_anything(tmp_path):
    program = mt.program.trace(lambda x: (x + 1).relu(), mt.empty(2, **X))
    odd = program.replace(name="\ud800", modules=[".".join("a" * 5000), *program.modules[1:]])
    odd.to_html(tmp_path / "odd.html")
    assert (tmp_path / "odd.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "{{data}}"])
def test_names_cannot_end_the_script(text):
    from metatensor.analysis.graph import document

    def f(x):
        return x + 1

    f.__name__ = text
    html = document(mt.program.trace(f, mt.empty(2, **X)))
    assert "<script>alert" not in html and html.count("<script") == 3
