"""Files of programs with named sizes."""

import io
import json
import random
import zipfile

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError
from metatensor.program.sizes.expressions import parse


def meta(*shape):
    return mt.empty(*shape, device="meta")


def fn(x):
    b, s = x.shape
    if s > 777:
        x = x.relu() + mt.ones(3, 1, 1, device="meta")
    return x.reshape(-1).unsqueeze(0)[:, :100] / s, s + 1, x.sum() * s**-0.5


def sample():
    return mt.program.trace(fn, meta(3, 150), sizes={"batch": (1, 64), "seq": (1, 1700)}, dims=[["batch", "seq"]])


def saved(program, **options):
    file = io.BytesIO()
    program.save(file, **options)
    return file.getvalue()


def loaded(data, **options):
    return mt.program.load(io.BytesIO(data), **options)


def changed(data, change):
    """Return a file with another ``sizes.json`` or other members."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    sizes = json.loads(members["sizes.json"])
    change(sizes, members)
    if "sizes.json" in members:
        members["sizes.json"] = json.dumps(sizes).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return made.getvalue()


def test_a_program_is_the_same_after_loading():
    program = sample()
    again = loaded(saved(program))
    assert str(again) == str(program) and again.code == program.code and again.conditions() == program.conditions()
    assert len(again.pieces) > 2 and again.confirmed == program.confirmed
    for b, s in ((1, 1), (3, 5), (64, 1700), (1, 999), (7, 300)):
        assert mt.program.equal(program.at(batch=b, seq=s), again.at(batch=b, seq=s))
        assert mt.program.equal(again.at(batch=b, seq=s), mt.program.trace(fn, meta(b, s)))
    assert saved(again) == saved(program)


def test_parameters_and_constants_of_all_pieces():
    line, table = mt.nn.Linear(4, 4, device="cpu"), mt.arange(4.0, device="cpu")

    def run(x):
        return line(x) + table if x.shape[0] > 5 else x * mt.arange(8.0, device="cpu")[4:] + table

    program = mt.program.trace(run, mt.ones(2, 4, device="cpu"), sizes={"n": (1, 20)}, dims=[["n"] + [None]])
    again = loaded(saved(program))
    for n in (1, 5, 6, 20):
        x = mt.rand(n, 4, device="cpu")
        assert mt.equal(again(x), run(x)) and mt.equal(program(x), run(x))


def test_files_of_fixed_programs_keep_their_version():
    with zipfile.ZipFile(io.BytesIO(saved(mt.program.trace(lambda x: x + 1, meta(2))))) as file:
        assert json.loads(file.read("program.json"))["version"] == 1
    with zipfile.ZipFile(io.BytesIO(saved(sample()))) as file:
        assert json.loads(file.read("program.json"))["version"] == 2




@pytest.mark.parametrize(("change", "words"), [
    (lambda s, m: m.pop("sizes.json"), "no sizes.json"),
    (lambda s, m: m.pop("piece1/calls.jsonl"), "piece1/"),
    (lambda s, m: s.update(sizes=[]), "'sizes'"),
    (lambda s, m: s["sizes"].update(seq=[1, 1700, 0]), "range"),
    (lambda s, m: s["sizes"].update(seq=[1, -5, 1]), "range"),
    (lambda s, m: s["sizes"].pop("seq"), "not a size"),
    (lambda s, m: s["expressions"].__setitem__(0, "__import__('os').system('x')"), "not understood"),
    (lambda s, m: s["expressions"].__setitem__(0, "(" * 1000 + "seq" + ")" * 1000), "not an expression"),
    pytest.param(lambda s, m: s["expressions"].__setitem__(0, "*".join(["(batch + seq + min(seq, 3) + seq//2)"] * 90)), "terms",
                 marks=pytest.mark.slow),
    (lambda s, m: s["expressions"].__setitem__(0, "seq / 2"), "cannot be"),
    (lambda s, m: s["expressions"].__setitem__(0, 5), "texts"),
    (lambda s, m: s["pieces"].clear(), "'pieces'"),
    (lambda s, m: s["pieces"][1].update(member="../"), "piece 1"),
    (lambda s, m: s["pieces"][0]["numbers"].append([10**9, 0]), "no number"),
    (lambda s, m: s["pieces"][0]["numbers"].append([0, -1]), "no number"),
    (lambda s, m: s["pieces"][0]["numbers"].append([0]), "malformed"),
    (lambda s, m: s["pieces"][0]["bounds"].append("seq"), "not a condition"),
    (lambda s, m: s["pieces"][0]["paths"].append("seq <= 7"), "conditions"),
    (lambda s, m: s["refused"].append(["seq > 1"]), "refused"),
    (lambda s, m: s.update(confirmed="3"), "confirmed"),
])  # fmt: skip
def test_malformed_files(change, words):
    with pytest.raises(CheckpointError, match=words):
        loaded(changed(saved(sample()), change))


def test_expressions_of_a_file_are_checked_when_they_are_computed():
    def change(sizes, members):
        sizes["expressions"] = [f"({text}) - 5000" if "/" not in text and "**" not in text else text for text in sizes["expressions"]]

    program = loaded(changed(saved(sample()), change))
    with pytest.raises(ValueError, match="is -"):
        program.at(batch=3, seq=150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore")
def test_mutated_files(seed):
    rng = random.Random(seed)
    data = saved(sample())

    def change(sizes, members):
        content = bytearray(json.dumps(sizes).encode())
        for _ in range(rng.randint(1, 4)):
            at, kind = rng.randrange(len(content)), rng.random()
            if kind < 0.5:
                content[at] = rng.choice(b'0123456789-{}[],"+*/%beqsatch ')
            elif kind < 0.8:
                del content[at : at + rng.randint(1, 9)]
            else:
                content[at:at] = content[at - rng.randint(0, 30) : at]
        try:
            made = json.loads(content)
        except ValueError:
            made = None
        if isinstance(made, dict):
            sizes.clear()
            sizes.update(made)

    for _ in range(80):
        try:
            program = loaded(changed(data, change), device="meta")
        except CheckpointError:
            continue
        try:
            program(meta(3, rng.randint(1, 1700)))
        except (RuntimeError, TypeError, ValueError, IndexError, OverflowError):
            pass


def test_texts_of_expressions_stay_short():
    assert all(len(str(parse(text))) < 200 for text in ("batch*ceil(seq/2)", "min(seq, 7) % 3"))
