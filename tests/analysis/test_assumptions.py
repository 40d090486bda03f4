"""Sizes and numbers that depend on values: bounds, or the user's figures."""

import json

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.analysis import assume


@pytest.fixture
def x():
    return mt.empty(6, 8, device="meta")


class TestSizes:
    @pytest.mark.parametrize(("function", "shape"), [
        (lambda x: x.nonzero(), (48, 2)), (lambda x: x[x > 0], (48,)), (lambda x: x[x.sum(1) > 0], (6, 8)),
        (lambda x: x.argwhere(), (48, 2)),
        (lambda x: x.masked_select(x > 0), (48,)), (lambda x: x.masked_select(x[0] > 0), (48,)), (lambda x: x.unique(), (48,)),
        (lambda x: x.unique(dim=1), (6, 8)), (lambda x: mt.where(x > 0)[1], (48,)), (lambda x: x.nonzero(as_tuple=True)[0], (48,)),
        (lambda x: x[:, x[0] > 0], (6, 8)), (lambda x: x[x[:, 0] > 0, 1], (6,)), (lambda x: x.unique_consecutive(), (48,)),
        (lambda x: x.sum().nonzero(), (1, 0)), (lambda x: x[0].repeat_interleave(x[0].long()), (8,)),
    ])  # fmt: skip
    def test_bounds(self, x, function, shape):
        with pytest.raises(mt.DataDependentError):
            function(x)
        with assume() as assumed:
            assert tuple(function(x).shape) == shape
        assert assumed.made and all(each.location.endswith(".py:" + each.location.rpartition(":")[2]) for each in assumed.made)
        assert function.__code__.co_filename in assumed.made[0].location
        with pytest.raises(mt.DataDependentError):
            function(x)

    def test_a_bound_holds(self):
        if "cpu" in mt.plugins.device_types():
            real = mt.randn(6, 8, device="cpu")
            with assume():
                for function in (lambda x: x[x > 0], lambda x: x.round().unique(), lambda x: x.round().nonzero(),
                lambda x: x[x.sum(1) > 0]):
                    assert function(real).numel() <= function(real.to("meta")).numel()

    def test_several_results(self, x):
        with assume(unique=5):
            found, inverse, counts = x.unique(return_inverse=True, return_counts=True)
        assert (found.shape, inverse.shape, counts.shape) == ((5,), (6, 8), (5,))
        assert found.dtype is mt.float32 and inverse.dtype is counts.dtype is mt.int64

    def test_figures(self, x):
        with assume(nonzero=3, masked_select=100) as assumed:
            assert x[x > 0].shape == (3,) and x.nonzero().shape == (3, 2)
            assert x.masked_select(x > 0).shape == (48,)
        assert {(each.op, each.size, each.kind) for each in assumed.made} == {("nonzero", 3, "given"), ("masked_select", 48, "bound")}

    def test_bincount_needs_a_figure(self):
        t = mt.empty(9, dtype=mt.int64, device="meta")
        with assume(), pytest.raises(mt.DataDependentError, match="bincount=..."):
            t.bincount()
        with assume(bincount=4):
            assert t.bincount().shape == (4,) and t.bincount(minlength=7).shape == (7,)

    def test_positions_are_known_if_all_are_selected(self):
        mask = mt.empty(4, device="meta") > 0
        with assume():
            assert [int(i) for i in mask.nonzero()] == [0, 1, 2, 3]
            assert mt.empty(40, 40, device="meta").nonzero().shape == (1600, 2)

    def test_constants_and_data_are_as_they_are(self):
        with mt.device("meta"), assume() as assumed:
            t = mt.arange(5)
            assert t[t > 2].tolist() == [3, 4] and t.sum().item() == 10
        if "cpu" in mt.plugins.device_types():
            with assume() as assumed:
                assert mt.arange(5, device="cpu").nonzero().shape == (4, 1)
        assert not assumed.made


class TestNumbers:
    def test_numbers(self, x):
        with assume() as assumed:
            assert x.sum().item() == 1.0 and int(x.sum()) == 1 and x[0].long().tolist() == [1] * 8
            assert not (x > 0).any()
            assert (x > 0).all()
        assert {each.kind for each in assumed.made} == {"number"}
        with assume(item=4):
            assert x.sum().item() == 4.0 and mt.empty(2, dtype=mt.int64, device="meta")[0].item() == 4

    def test_several_elements_are_no_number(self, x):
        with assume(), pytest.raises(RuntimeError, match="48 elements"):
            x.item()

    @pytest.mark.parametrize(("figures", "error"), [
        ({"tokens": 3}, TypeError), ({"nonzero": "3"}, TypeError), ({"nonzero": 1.5}, TypeError), ({"nonzero": -1}, ValueError),
        ({"item": True}, TypeError),
    ])  # fmt: skip
    def test_bad_figures(self, figures, error):
        with pytest.raises(error, match=next(iter(figures))):
            assume(**figures)


class Experts(nn.Module):
    """Tokens are routed to the two best experts, as in Mixtral."""

    def __init__(self, width=8, experts=4):
        super().__init__()
        self.num_experts = experts
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(experts))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        result = mt.zeros_like(x)
        mask = nn.functional.one_hot(chosen, self.num_experts).permute(2, 1, 0)
        for hit in (mask.sum((-1, -2)) > 0).nonzero():
            place, token = mt.where(mask[hit].squeeze(0))
            result.index_add_(0, token, self.experts[hit](x[token]) * weights[token, place, None])
        return result


class TestReports:
    def test_experts(self):
        with mt.device("meta"):
            model, x = Experts(), mt.empty(100, 8)
        with pytest.raises(mt.DataDependentError):
            mt.analysis.estimate(model, x)
        gate = 2 * 100 * 8 * 4
        bound = mt.analysis.estimate(model, x, assume={})
        assert bound.flops == gate + 4 * 2 * 200 * 8 * 8  # each expert may get both choices of all tokens
        assert bound.output == "float32[100,8]" and [row.calls for row in bound.modules][-4:] == [1, 1, 1, 1]
        given = mt.analysis.estimate(model, x, assume={"tokens_per_expert": 50})
        assert given.flops == gate + 4 * 2 * 50 * 8 * 8
        assert {(each.op, each.size, each.kind) for each in given.assumptions} == {("nonzero", 4, "bound"), ("nonzero", 50, "given")}
        assert "figures that were given: nonzero 50 at" in str(given) and "upper bounds" in str(bound)
        assert json.loads(given.to_json())["assumptions"][0]["kind"] in ("bound", "given")

    def test_training(self):
        with mt.device("meta"):
            model, x = Experts(), mt.empty(100, 8)
        report = mt.analysis.estimate(model, x, training=True, assume={"tokens_per_expert": 50})
        assert report.forward_flops == 2 * 100 * 8 * 4 + 4 * 2 * 50 * 8 * 8
        assert report.assumptions and "figures that were given" in str(report) and report.to_dict()["assumptions"]

    def test_a_block_around_an_estimate(self, x):
        def function(x):
            return x[x > 0] * 2

        with assume(nonzero=7) as assumed:
            report = mt.analysis.estimate(function, x)
            assert report.output == "float32[7]" and [each.size for each in report.assumptions] == [7]
            assert mt.analysis.estimate(lambda x: x * 2, x).assumptions == []
            assert mt.analysis.check(function, x)
        assert [each.size for each in assumed.made] == [7]

    def test_nothing_is_assumed_by_default(self, x):
        report = mt.analysis.estimate(lambda x: x * 2, x)
        assert report.assumptions == [] and "  assumed" not in str(report)

    def test_a_wrong_argument(self, x):
        with pytest.raises(TypeError, match="must be a dict"):
            mt.analysis.estimate(lambda x: x, x, assume=128)

    def test_traces(self, x):
        with assume(nonzero=7):
            program = mt.program.trace(lambda x: x[x > 0] * 2, x)
        assert program.calls[-1].result.shape == (7,)
