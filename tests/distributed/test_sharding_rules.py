"""The table of sharding rules, and how rules are found."""

import pytest

import metatensor as mt
from metatensor.distributed.tensor.sharding import Cut, Pass, all_rules, rules_of
from metatensor.distributed.tensor.sharding.axes import Shapes, find_axes
from metatensor.distributed.tensor.sharding.table import Rules, format_rules, parse_line, parse_rules

pytest.importorskip("numpy")


def cuts(name):
    return {(one.members, one.joins) for one in rules_of(name).cuts}


@pytest.mark.parametrize(("name", "expected"), [
    ("mm", {(("input",), ("cat",)), (("mat2",), ("cat",)), (("input", "mat2"), ("sum",))}),
    ("sum", {(("input",), ("cat",)), (("input[dim]",), ("sum",))}),
    ("mean", {(("input",), ("cat",)), (("input[dim]",), ("mean",))}),
    ("amax", {(("input",), ("cat",)), (("input[dim]",), ("max",))}),
    ("softmax", {(("input",), ("cat",))}),
    ("cumsum", {(("input",), ("cat",))}),
])  # fmt: skip
def test_rules_of_well_known_operators(name, expected):
    assert cuts(name) == expected


def test_a_summand_is_partial_where_the_product_is():
    (rule,) = [one for one in rules_of("addmm").cuts if one.joins == ("sum",)]
    assert rule.members == ("mat1", "mat2")
    assert rule.partial == ("input",)


def test_only_linear_arguments_pass_sums():
    passing = {(one.members, one.reduction) for one in rules_of("mul").passes}
    assert (("input",), "sum") in passing
    assert (("input", "other"), "sum") not in passing
    assert (("input", "other"), "sum") in {(one.members, one.reduction) for one in rules_of("add").passes}
    assert not [one for one in rules_of("relu").passes if one.reduction == "sum"]


def test_axes_of_a_product():
    shapes = Shapes({("input", -1): (4, 6), ("mat2", -1): (6, 4)}, {})

    def results(tried):
        (n, k), (j, m) = tried.tensors.values()
        return [(n, m)] if k == j else None

    found = {(tuple((one.name, one.dim) for one in axis.places), axis.outputs) for axis in find_axes(shapes, results)}
    assert found == {((("input", 0),), (0,)), ((("mat2", 1),), (1,)), ((("input", 1), ("mat2", 0)), (-1,))}


def test_the_text_form_is_read_back():
    table = {
        "op": Rules(
            (Cut(("a", "b[dim]"), ("cat", "sum"), (("right", (-1,)), ("mode", "x")), ("c",), True), Cut(("a",), ("same",))),
            (Pass(("a",), "max", ("min",), (("flag", True),)), Pass(("a", "b"), "sum", ("sum",))),
            ("d", "e"),
        )
    }
    assert parse_rules(format_rules(table)) == table


@pytest.mark.parametrize("line", ["cut input", "join input -> cat", "cut a -> cat where x", "cut a -> cat where x=y", "pass", "keep",
                                  "keep a -> cat", "keep a where x=1"])  # fmt: skip
def test_a_line_that_is_no_rule_is_refused(line):
    with pytest.raises(ValueError, match="line 2 is not a sharding rule"):
        parse_rules(f"op\n    {line}\n")


def test_the_whole_table_is_readable():
    names = dict(all_rules())
    assert len(names) > 500
    assert parse_rules(format_rules(names)) == names


@pytest.mark.slow
@pytest.mark.parametrize("name", ["add", "mm", "sum", "softmax", "gather", "view", "nn.functional.linear"])
def test_the_table_is_what_trying_finds(name):
    from metatensor.distributed.tensor.sharding.making import make_rules, sharded_overloads

    ((op, overload),) = [pair for pair in sharded_overloads() if pair[1].qualname == name]
    assert parse_rules(format_rules({name: make_rules(op, overload)}))[name] == rules_of(name)


def test_a_pass_may_change_the_reduction():
    assert parse_line("pass max of input -> min") == [Pass(("input",), "max", ("min",))]


def test_the_command_lists_the_rules():
    runner = pytest.importorskip("click.testing").CliRunner()
    from metatensor.cli.devices import command

    listed = runner.invoke(command, ["--sharding"])
    assert listed.exit_code == 0
    assert parse_rules(listed.output) == dict(all_rules())
    assert "cut input, mat2 -> sum" in runner.invoke(command, ["--sharding", "--json"]).output
    assert runner.invoke(command, ["--make"]).exit_code == 2


@pytest.mark.parametrize("name", ["empty_like", "new_empty", "new_empty_strided"])
def test_results_without_values_have_only_stated_rules(name):
    from metatensor.distributed.tensor.sharding.making import sharded_overloads
    from metatensor.distributed.tensor.sharding.table import rules

    assert name not in rules() and name not in {overload.qualname for _, overload in sharded_overloads()}
    assert rules_of(name).cuts


def test_a_new_tensor_does_not_communicate_what_its_argument_holds():
    from metatensor import distributed as dist
    from metatensor.distributed.tensor import DTensor, Partial, Replicate, init_device_mesh

    mesh = init_device_mesh("meta", (4,))
    try:
        x = DTensor.from_local(mt.empty(2, 3, device="meta"), mesh, [Partial()])
        with dist.CommunicationLog() as log:
            for new in (x.new_empty(5), x.new_empty_strided((5, 2), (2, 1)), x.new_zeros(5)):
                assert new.placements == (Replicate(),) and new.to_local().shape == new.shape
        assert not len(log)
    finally:
        dist.destroy_process_group()


def test_trials_run_each_part_once():
    from metatensor.distributed.tensor.sharding import features
    from metatensor.distributed.tensor.sharding.trying import Trial
    from metatensor.testing.samples import Sample, Spec

    overload = next(one for one in mt.addmm.overloads if one.qualname == "addmm")
    matrices = {"input": Spec((2, 2), "float64"), "mat1": Spec((2, 6), "float64", 1), "mat2": Spec((6, 2), "float64", 2)}
    trial = Trial(mt.addmm, overload, Sample(matrices), features.size_arguments(overload.text))
    inner = next(axis for axis in trial.axes() if all(dim < 0 for dim in axis.outputs))
    ran = []
    trial.values = lambda arguments: ran.append(arguments) or Trial.values(trial, arguments)
    assert trial.cut(inner, (5, 1)) is None and len(ran) == 3  # the whole, and two parts, of which each adds the input
    assert trial.cut(inner, (5, 1), ["input"]) == [{"sum"}] and len(ran) == 4  # the second part without the input
    assert trial.passes(["mat1", "input"], "sum") == [{"sum"}] and len(ran) == 6
    assert trial.passes(["mat1", "input"], "avg") == [{"avg"}] and len(ran) == 7  # with other values only
    assert trial.passes(["mat1"], "sum") is None


def test_results_that_are_zero_or_not_finite_are_no_evidence():
    from metatensor.distributed.tensor.sharding.making import Observation, _cut_rules

    def seen(right, *joins):
        return Observation((("input",), (False, False)), {"right": right}, {(): tuple(map(frozenset, joins))})

    (overload,) = mt.sort.overloads[:1]
    sums, zeros, status = {"sum"}, {"same", "sum", "max"}, {"same", "sum", "max"}  # the status is 0 in all calls
    found = list(_cut_rules(overload, [seen((-1,), sums, status), seen((-2,), zeros, status)]))
    assert [(one.joins, one.where) for one in found] == [(("sum", "same"), ())]
    apart = list(_cut_rules(overload, [seen((-1,), sums, status), seen((-2,), {"same", "sum"}, status), seen((-2,), {"same"}, status)]))
    assert [(one.joins, one.where) for one in apart] == [(("sum", "same"), (("right", (-1,)),)), (("same", "same"), (("right", (-2,)),))]
    alone = list(_cut_rules(overload, [seen((-2,), {"mean"}, status), seen((-1,), zeros, status), seen((-3,), sums, status)]))
    assert {one.joins for one in alone} == {("mean", "same"), ("sum", "same")}
