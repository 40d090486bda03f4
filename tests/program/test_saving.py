"""Program files: what is saved is what is loaded, and damaged files are refused."""

import io
import json
import random
import subprocess
import sys
import zipfile

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.checkpoint import CheckpointError

pytest.importorskip("metatensor_cpu")


def sample():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(64, 2)).to("cpu")
    constant = mt.arange(12.0, device="cpu").view(3, 4).t()

    def fn(x, scale=2.0):
        return {"y": model(x) * scale, "c": constant[1:, :2] + mt.tensor([1.0, float("inf")], device="cpu")}, constant

    x = mt.rand(1, 3, 6, 6, device="cpu")
    return mt.program.trace(fn, x, scale=2.0), x


def saved(program, **options):
    file = io.BytesIO()
    program.save(file, **options)
    return file.getvalue()


def loaded(data, **options):
    return mt.program.load(io.BytesIO(data), **options)


def test_round_trip():
    program, x = sample()
    again = loaded(saved(program))
    assert mt.program.equal(program, again) and again.code == program.code and str(again) == str(program)
    assert again.kinds == program.kinds and again.modules == program.modules and again.releases == program.releases
    (a, b), (c, d) = program(x, scale=2.0), again(x, scale=2.0)
    assert mt.equal(a["c"], c["c"]) and mt.equal(b, d) and b.stride() == d.stride()


def test_values_bit_for_bit():
    program, x = sample()
    state = {name: t.detach().clone() for name, t in program.tensors.items()}
    again = loaded(saved(program))
    mt.manual_seed(1)
    a = program.bind(state)(x, scale=2.0)[0]["y"]
    mt.manual_seed(1)
    assert mt.equal(a, again(x, scale=2.0)[0]["y"])


def test_shared_memory_stays_shared():
    base = mt.zeros(6, device="cpu")
    left, right = base[:4], base[2:]
    program = mt.program.trace(lambda: (left.add_(1), right * 1)[1])
    again = loaded(saved(program))
    assert again().tolist() == [2, 2, 0, 0] and again().tolist() == [3, 3, 0, 0]  # the trace has added 1 already


def test_meta_parameters_are_saved_by_layout():
    with mt.device("meta"):
        model = nn.Linear(10**6, 10**6)
    program = mt.program.trace(model, mt.empty(1, 10**6, device="meta"))
    data = saved(program)
    assert len(data) < 4000
    again = loaded(data)
    assert again.tensors["weight"].is_meta and isinstance(again.tensors["weight"], nn.Parameter)
    assert again(mt.empty(1, 10**6, device="meta")).shape == (1, 10**6)


def test_without_parameters():
    program, x = sample()
    again = loaded(saved(program, parameters=False))
    assert all(t.is_meta for t in again.tensors.values())
    assert mt.equal(again.bind(program.tensors)(x, scale=2.0)[0]["c"], program(x, scale=2.0)[0]["c"])


def test_the_file_can_be_read_by_others(tmp_path):
    program, _ = sample()
    program.save(tmp_path / "model.mtp")
    with zipfile.ZipFile(tmp_path / "model.mtp") as file:
        assert file.testzip() is None
        head = json.loads(file.read("program.json"))
        calls = [json.loads(line) for line in file.read("calls.jsonl").splitlines()]
    assert head["format"] == "metatensor program" and head["version"] == 1
    assert [row[0] for row in calls] == [call.op.name for call in program.calls]


@pytest.mark.slow
def test_a_loaded_program_needs_no_source(tmp_path):
    program, _ = sample()
    program.save(tmp_path / "model.mtp")
    code = f"""
import metatensor as mt
program = mt.program.load({str(tmp_path / "model.mtp")!r})
print(program(mt.ones(1, 3, 6, 6, device="cpu"), scale=2.0)[0]["y"].shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[1, 2]" in done.stdout


def test_what_has_no_form_is_refused():
    class Odd:
        pass

    op = mt.library.define("saving_test::odd(Tensor x, any how) -> Tensor")
    mt.library.meta("saving_test::odd")(lambda x, how: mt.Spec(x.shape, x.dtype))
    program = mt.program.trace(lambda x: op(x, Odd()), mt.empty(2, device="meta"))
    with pytest.raises(TypeError, match="call 0 of saving_test::odd.*Odd"):
        saved(program)


@pytest.mark.parametrize(("change", "words"), [
    (lambda h, c: h.update(format="x"), "does not say"),
    (lambda h, c: h.update(version=99), "version"),
    (lambda h, c: h["values"][0].__setitem__(5, [-1]), "impossible layout"),
    (lambda h, c: h["values"][0].__setitem__(2, "float31"), "float31"),
    (lambda h, c: h["values"][0].__setitem__(3, "gpu?"), "not a device"),
    (lambda h, c: c[0].__setitem__(0, "os.system"), "no operator"),
    (lambda h, c: c[0].__setitem__(1, [{"value": 10**6}]), "no value"),
    (lambda h, c: c[0].__setitem__(1, [{"python": "1"}]), "kind 'python'"),
    (lambda h, c: c.reverse(), "before it is made"),
    (lambda h, c: h["held"].append(h["held"][0]), "held twice"),
    (lambda h, c: h.pop("modules"), "modules"),
    (lambda h, c: h["arguments"].append(1), "arguments"),
    (lambda h, c: c[0].pop(), "malformed"),
    (lambda h, c: [row for row in c if row[0] == "_from_host"][0][1][0].update(bytes="AAAA"), "bytes"),
    (lambda h, c: h["values"][0].__setitem__(0, 1 << 40), "impossible layout"),
])  # fmt: skip
def test_malformed_programs(change, words):
    data = io.BytesIO(saved(sample()[0]))
    with zipfile.ZipFile(data) as file:
        members = {name: file.read(name) for name in file.namelist()}
    head, calls = json.loads(members["program.json"]), [json.loads(line) for line in members["calls.jsonl"].splitlines()]
    change(head, calls)
    members["program.json"] = json.dumps(head).encode()
    members["calls.jsonl"] = "\n".join(map(json.dumps, calls)).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    with pytest.raises(CheckpointError, match=words):
        loaded(made.getvalue())


def mutated(data, rng):
    """Return a program file with some bytes of one member's text changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: bytearray(file.read(name)) for name in file.namelist()}
    content = members[rng.choice([name for name in members if name != "tensors.safetensors"])]
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(content)), rng.random()
        if kind < 0.5:
            content[at] = rng.choice(b'0123456789-{}[],"tfn')
        elif kind < 0.8:
            del content[at : at + rng.randint(1, 9)]
        else:
            content[at:at] = content[at - rng.randint(0, 30) : at]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in members.items():
            file.writestr(name, bytes(content))
    return made.getvalue()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore")
def test_mutated_files(seed):
    rng = random.Random(seed)
    program, _ = sample()
    data = saved(program)
    meta = [mt.empty(1, 3, 6, 6, device="meta")]
    for _ in range(60):
        try:
            found = loaded(mutated(data, rng), device="meta")
        except CheckpointError:
            continue
        try:
            found(*meta, scale=2.0)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, KeyError, OverflowError, AttributeError, MemoryError):
            pass


def test_constants_whose_elements_share_memory():
    row, windows = mt.arange(3.0, device="cpu").expand(2, 3), mt.arange(6.0, device="cpu").unfold(0, 3, 1)
    program = mt.program.trace(lambda x: (x + row, windows * x.sum()), mt.ones(2, 3, device="cpu"))
    again = loaded(saved(program))
    assert mt.program.equal(program, again)
    for one, other in zip(program(mt.ones(2, 3, device="cpu")), again(mt.ones(2, 3, device="cpu"))):
        assert mt.equal(one, other)
    assert [t.stride() for t in again.tensors.values()] == [row.stride(), windows.stride()]
    on_meta = loaded(saved(program), device="meta")
    assert [(t.device.type, t.stride()) for t in on_meta.tensors.values()] == [("meta", row.stride()), ("meta", windows.stride())]
