"""Invalid calls, compared with PyTorch live. Fail if more calls of an operator differ than `ceiling.json` allows."""

import pytest

pytestmark = pytest.mark.torch


def test_no_more_calls_differ_than_the_ceiling_says():
    torch = pytest.importorskip("torch")
    from oracle import refusals

    if not torch.__version__.startswith(refusals.VERSION):
        pytest.skip(f"the ceiling is that of PyTorch {refusals.VERSION}, this is {torch.__version__}")
    total, found, examples = 0, {}, {}
    for _, n, differences in refusals.run(share=refusals.SHARE):
        total += n
        found.update(refusals.tally(differences))
        for difference in differences:
            examples.setdefault((difference[0], difference[1], difference[6]), difference[2:5] + difference[7:])
    assert total > 5000, "hardly anything was compared"
    above = refusals.above(found)
    assert not above, f"calls differ from PyTorch (see tests/oracle/README.md): { {key: examples[key] for key in above} }"


def test_the_judge_sees_what_differs():
    pytest.importorskip("torch")
    import metatensor as mt
    from oracle import mutations, refusals

    judge = refusals.Judge(mt)
    a = mutations.spec([2, 3], "float32")
    call = ("add", "tensor", ["function", "add"], [a, a], {}, 2)
    assert judge(*call)[:2] == (None, None)

    class Wrong:
        """A module whose `add` accepts everything and whose `mul` rejects everything."""

        __name__ = "wrong"

        def __getattr__(self, name):
            return {"add": lambda a, b, **_: a, "mul": self.refuse, "__name__": "wrong"}.get(name) or getattr(mt, name)

        def refuse(self, *args, **kwargs):
            raise ValueError("refused")

    judge = refusals.Judge(Wrong())
    other = mutations.spec([2, 4], "float32")
    assert judge("add", "tensor", ["function", "add"], [a, other], {}, 2)[0] == "accepts"
    assert judge("mul", "tensor", ["function", "mul"], [a, a], {}, 2)[0] == "refuses"
    assert judge("mul", "tensor", ["function", "mul"], [a, other], {}, 2)[0] == "class"
    assert "dtype" in judge("add", "tensor", ["function", "add"], [a, mutations.spec([2, 3], "float64")], {}, 2)[0]
    assert judge("add", "out: fitting", ["function", "add"], [a, a], {"out": a}, 2)[0] == "alias"
