"""Sweeps on executors, and the file that keeps what is done."""

import concurrent.futures
import functools
import io
import json
import sqlite3

import pytest

import metatensor as mt
from metatensor.devices.topologies import topology
from metatensor.plan import WorkerError, sweep_file
from metatensor.plan.sweep_file import SweepError, SweepFile, layout_text
from metatensor.plan.sweeping import Case, Progress, fingerprint, saved_plans, sweep


class Blocks(mt.nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        self.embed = mt.nn.Embedding(64, width)
        self.layers = mt.nn.ModuleList(mt.nn.Linear(width, width) for _ in range(depth))

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x).relu()
        return x


class Wider(Blocks):
    def forward(self, tokens):
        return super().forward(tokens) * 2


def made(width=32, kind=Blocks):
    with mt.device("meta"):
        return kind(width), (mt.empty(1, 16, dtype=mt.int64),), {}


def made_wide():
    return made(64)


SETTINGS = {"devices": "8xH100", "global_batch": 32, "recompute": ["none"], "micro_batches": [1, 2]}


def figures(plan):
    return [(str(layout.degrees), layout.seconds, layout.memory) for layout in plan.layouts]


@pytest.mark.slow
@pytest.mark.parametrize("keep", [20, None])
def test_a_sweep_finds_what_a_search_finds(tmp_path, keep):
    model, inputs, _ = made()
    expected = mt.plan.search(model, *inputs, **SETTINGS, keep=keep)
    with concurrent.futures.ProcessPoolExecutor(1) as executor:
        found = mt.plan.search(model, *inputs, **SETTINGS, keep=keep, executor=executor)
    kept = mt.plan.search(model, *inputs, **SETTINGS, keep=keep, sweep=tmp_path / "plans.sqlite", price=2.0)
    for plan in (found, kept):
        assert figures(plan)[:20] == figures(expected)[:20] and plan.memory == expected.memory
        if keep is None:  # else each part of a sweep keeps its own fastest, so more layouts are known
            assert [str(one.degrees) for one in plan.pareto()] == [str(one.degrees) for one in expected.pareto()]
            assert {str(r.degrees) for r in plan.rejected} == {str(r.degrees) for r in expected.rejected}
    assert kept.best.price > 0 and found.best.price is None


@pytest.mark.slow
def test_what_is_done_is_not_computed_again(tmp_path, monkeypatch):
    file, states = tmp_path / "plans.sqlite", []
    cases = [Case(made, SETTINGS), Case(made_wide, SETTINGS, {"width": 64})]
    first = sweep(cases, file=file, progress=lambda *state: states.append(state))
    parts, total, candidates = states[-1]
    assert parts == total == len(states) - 1 and candidates > 20

    again: list = []
    assert list(map(figures, sweep(cases, file=file, progress=lambda *state: again.append(state)))) == list(map(figures, first))
    assert again == [(total, total, 0)]
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM parts WHERE case_id = 2 AND part LIKE '%\"tensor\": [2]%'")
    again.clear()
    sweep(cases, file=file, progress=lambda *state: again.append(state))
    assert 0 < again[-1][2] < candidates
    assert [about["labels"] for about, _ in saved_plans(file)] == [{}, {"width": 64}]
    assert [figures(plan)[0] for _, plan in saved_plans(file)] == [figures(plan)[0] for plan in first]


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on(tmp_path):
    file = tmp_path / "plans.sqlite"

    def interrupted(parts, total, candidates):
        if parts == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep([Case(made, SETTINGS)], file=file, progress=interrupted)
    states = []
    sweep([Case(made, SETTINGS)], file=file, progress=lambda *state: states.append(state))
    assert states[0][0] == 2


@pytest.mark.slow
def test_changed_models_are_computed_again(tmp_path):
    file = tmp_path / "plans.sqlite"
    for kind, changes in ((Blocks, {}), (Wider, {}), (Blocks, {"global_batch": 64}), (Blocks, {"devices": "8xA100"})):
        model, inputs, _ = made(kind=kind)
        states = []
        mt.plan.search(model, *inputs, **{**SETTINGS, **changes}, sweep=file, progress=lambda *state: states.append(state))
        assert states[0][0] == 0
    assert len(saved_plans(file)) == 4


class Repeated(mt.nn.Module):
    """What it computes depends on an attribute that neither its parameters nor its text show."""

    def __init__(self, times):
        super().__init__()
        self.linear, self.times = mt.nn.Linear(16, 16), times

    def forward(self, x):
        for _ in range(self.times):
            x = self.linear(x)
        return x


def sgd(parameters, momentum):
    return mt.optim.SGD(parameters, lr=0.1, momentum=momentum)


@pytest.mark.slow
def test_attributes_and_arguments_of_functions_are_changes(tmp_path):
    def plan(times, momentum, file):
        with mt.device("meta"):
            model, x = Repeated(times), mt.empty(1, 16)
        return mt.plan.search(model, x, devices="1xH100", global_batch=4, micro_batches=[1], sweep=file,
                              optimizer=functools.partial(sgd, momentum=momentum))  # fmt: skip

    for times, momentum in ((1, 0.0), (9, 0.0), (1, 0.9)):
        own, shared = (plan(times, momentum, tmp_path / name) for name in (f"{times} {momentum}.sqlite", "shared.sqlite"))
        assert figures(own) == figures(shared)
    assert len(saved_plans(tmp_path / "shared.sqlite")) == 3
    again = fingerprint((Repeated(1), (), {}), {}, topology("1xH100")), fingerprint((Repeated(1), (), {}), {}, topology("1xH100"))
    assert again[0] == again[1]


@pytest.mark.slow
@pytest.mark.parametrize("devices", ["1xH100", "2xH100, 1 per node"])
def test_a_sweep_tries_what_a_search_tries_by_default(devices):
    with mt.device("meta"):
        model, x = mt.nn.Linear(64, 64), mt.empty(1, 64)
    settings = {"devices": devices, "global_batch": 48}
    expected = mt.plan.search(model, x, **settings)
    found = sweep([Case(lambda: (model, (x,), {}), settings)])[0]
    assert max(one.degrees.micro_batch for one in expected.layouts) > 8 and figures(found) == figures(expected)


def test_models_that_cannot_be_sent():
    class Local(Blocks):
        pass

    model, inputs, _ = made(kind=Local)
    with concurrent.futures.ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="cannot be sent to other processes"):
        mt.plan.search(model, *inputs, **SETTINGS, executor=executor)


def test_mistakes_are_found_before_anything_runs(tmp_path):
    model, inputs, _ = made()
    with pytest.raises(ValueError, match="executor 'cloud': expected one of"):
        mt.plan.search(model, *inputs, **SETTINGS, executor="cloud")
    with pytest.raises(ValueError, match="shard 7 is unknown"):
        mt.plan.search(model, *inputs, **SETTINGS, shard=[7], executor="process")


def test_files_that_are_no_sweep(tmp_path):
    text, other, empty = tmp_path / "text", tmp_path / "other.sqlite", tmp_path / "empty"
    text.write_text("not a database, but long enough to be read as one " * 20)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE notes (text)")
    empty.touch()
    for file, message in ((text, "not the file of a sweep"), (other, "another database"), (tmp_path, "not the file of a sweep")):
        with pytest.raises(SweepError, match=message):
            SweepFile(file)
    with pytest.raises(SweepError, match="there is no such file"):
        saved_plans(tmp_path / "missing")
    with pytest.raises(SweepError, match="another database"):
        saved_plans(empty)
    with SweepFile(empty) as store:
        assert store.cases() == []
    with sqlite3.connect(empty) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(SweepError, match="a sweep of format 9"):
        SweepFile(empty)


@pytest.mark.slow
def test_damaged_contents(tmp_path):
    file = tmp_path / "plans.sqlite"
    sweep([Case(made, SETTINGS)], file=file)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE candidates SET layout = '{\"degrees\": {\"color\": 1}}' WHERE layout IS NOT NULL")
    with pytest.raises(SweepError, match="its contents cannot be read"):
        saved_plans(file)


DESCRIPTION = {"model": "Blocks", "devices": "8xH100", "global_batch": 32, "precision": "fp32", "memory": 1, "labels": {}, "power": None,
               "price": None}  # fmt: skip


@pytest.mark.parametrize("description, message", [
    ({name: value for name, value in DESCRIPTION.items() if name != "power"}, "the description of case 1 lacks 'power'"),
    ({**DESCRIPTION, "memory": "much"}, "'memory' of the description of case 1 is 'much'"), ([], "the description of case 1 is no object"),
])  # fmt: skip
def test_damaged_descriptions(tmp_path, description, message):
    file = tmp_path / "plans.sqlite"
    with SweepFile(file) as store:
        store.case("key", description)
        with pytest.raises(SweepError, match=f"its contents cannot be read .*{message}"):
            saved_plans(file)
        store.case("key", DESCRIPTION)
    assert len(saved_plans(file)) == 1


def test_damaged_layouts(tmp_path):
    file = tmp_path / "plans.sqlite"
    plan = mt.plan.search(*made()[:1], *made()[1], **SETTINGS, tensor=[1], pipeline=[1], shard=[0], sweep=file)
    wrong = (({"compute": "long"}, "'compute' of a layout is 'long'"), ({"degrees": 3}, "the degrees of a layout is no object"))
    for change, message in wrong:
        text = json.dumps({**json.loads(layout_text(plan.best)), **change})
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE candidates SET layout = ? WHERE layout IS NOT NULL", (text,))
        with pytest.raises(SweepError, match=message):
            saved_plans(file)


def test_a_file_is_created_at_once_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "plans.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(sweep_file, "TABLES", sweep_file.TABLES + "CREATE TABLE cases (id INTEGER);")
        with pytest.raises(SweepError, match=r"cannot be opened or written \(table cases already exists\)"):
            SweepFile(file)
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        connection.execute(f"PRAGMA application_id = {sweep_file.APPLICATION}")  # what earlier versions may have left
    with SweepFile(file) as store:
        assert store.cases() == []


def test_several_processes_create_one_file(tmp_path):
    def opened(number):
        with SweepFile(tmp_path / "plans.sqlite") as store:
            return store.case(f"case {number}", DESCRIPTION)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(opened, range(8))) == list(range(1, 9))


def test_files_that_cannot_be_written(tmp_path, monkeypatch):
    file = tmp_path / "plans.sqlite"
    with pytest.raises(SweepError, match="there is no folder"):
        SweepFile(tmp_path / "missing" / "plans.sqlite")
    with SweepFile(file) as store:
        store.case("key", DESCRIPTION)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: connect(f"file:{path}?mode=ro", uri=True, **options))
    assert len(saved_plans(file)) == 1
    with pytest.raises(SweepError, match=r"results cannot be written \(attempt to write a readonly database\); those that it has are kept"):
        sweep([Case(made, SETTINGS)], file=file)


class Failing(concurrent.futures.Executor):
    """Runs parts at once. The second one fails."""

    def __init__(self, error):
        self.error, self.number = error, 0

    def submit(self, fn, /, *args, **kwargs):
        future = concurrent.futures.Future()
        self.number += 1
        if self.number == 2:
            future.set_exception(self.error)
        else:
            future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize("error, raised, message", [
    (OSError("no memory"), OSError, "no memory"),
    (concurrent.futures.BrokenExecutor(), WorkerError, r"has ended; .* \(6 of 7 parts are kept in .*, and the same sweep continues from"),
])  # fmt: skip
def test_what_other_workers_have_done_is_kept(tmp_path, error, raised, message):
    file, states = tmp_path / "plans.sqlite", []
    with pytest.raises(raised, match=message):
        sweep([Case(made, {**SETTINGS, "micro_batches": [1]})], file=file, executor=Failing(error))
    ((_, plan),) = saved_plans(file)
    assert plan.unfinished == "6 of 7 parts" and plan.remarks[-1] == "the sweep is not finished: 6 of 7 parts are in the file"
    (found,) = sweep([Case(made, {**SETTINGS, "micro_batches": [1]})], file=file, progress=lambda *state: states.append(state))
    assert [one[0] for one in states] == [6, 7] and saved_plans(file)[0][1].unfinished is None
    (alone,) = sweep([Case(made, {**SETTINGS, "micro_batches": [1]})])
    assert figures(found) == figures(alone)


def test_what_another_process_has_done_meanwhile_is_not_computed_again(tmp_path):
    file, states = tmp_path / "plans.sqlite", []

    def other(*state):
        if not states:
            sweep([Case(made, SETTINGS)], file=file)
        states.append(state)

    (found,) = sweep([Case(made, SETTINGS)], file=file, progress=other)
    assert states[-1][0] == states[-1][1] and states[-1][2] == 0
    assert figures(found) == figures(sweep([Case(made, SETTINGS)])[0])


def test_progress():
    stream = io.StringIO()
    progress = Progress(stream)
    progress(0, 3, 0)
    progress(3, 3, 1200)
    assert stream.getvalue().startswith("3 of 3 parts, 1,200 candidates, ")
