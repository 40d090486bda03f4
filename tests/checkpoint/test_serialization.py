"""Classes that users allow, and those that cannot be allowed."""

# ruff: noqa: E501

import builtins
import collections
import io
import os
import pickle
import subprocess
import sys

import pytest

import metatensor as mt
from metatensor import serialization
from metatensor.checkpoint import CheckpointError
from metatensor.checkpoint._pickle import Machine

from .hostile import P2, arguments, name, storage, tensor, text, zipped


class Config:
    """A class with an instance dictionary."""

    def __init__(self, width=0):
        self.width = width

    def __eq__(self, other):
        return vars(self) == vars(other)


class Slotted:
    __slots__ = ("a", "b")


class WithState:
    def __getstate__(self):
        return [1, 2]

    def __setstate__(self, state):
        self.state = state


class Keywords:
    def __new__(cls, *, size):
        made = object.__new__(cls)
        made.size = size
        return made

    def __getnewargs_ex__(self):
        return (), {"size": 7}


class Raises:
    def __setstate__(self, state):
        raise KeyError("no")

    def __getstate__(self):
        return 1


class Outer:
    class Inner:
        pass


Pair = collections.namedtuple("Pair", "a b")


@pytest.fixture(autouse=True)
def as_it_was():
    before = serialization.get_safe_globals()
    yield
    serialization.clear_safe_globals()
    serialization.add_safe_globals(before)


def load(value, protocol=2):
    return mt.load(io.BytesIO(zipped(pickle.dumps(value, protocol))), "meta")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_instances_of_allowed_classes(protocol):
    slotted = Slotted()
    slotted.a, slotted.b = 1, [2]
    value = [Config(3), slotted, WithState(), Keywords(size=1), Pair(1, 2), Outer.Inner()]
    with pytest.raises(CheckpointError, match="Config.*Slotted.*WithState.*Keywords.*Pair"):
        load(value, protocol)
    with serialization.safe_globals([Config, Slotted, WithState, Keywords, Pair, Outer.Inner]):
        found = load(value[: 5 + (protocol >= 4)], protocol) if protocol >= 4 else load(value[:3] + value[4:5], protocol)
        assert found[0] == Config(3) and (found[1].a, found[1].b) == (1, [2]) and found[2].state == [1, 2]
        if protocol >= 4:
            assert found[3].size == 1 and type(found[5]) is Outer.Inner
        assert any(isinstance(item, Pair) and item == (1, 2) for item in found)
    assert serialization.get_safe_globals() == []


def test_functions_and_other_names():
    pickled = P2 + name("some.module", "make") + b"(K\x05tR."
    with serialization.safe_globals([(Config, "some.module.make")]):
        assert serialization.get_safe_globals() == [(Config, "some.module.make")]
        assert mt.load(io.BytesIO(zipped(pickled)), "meta") == Config(5)
    with pytest.raises(CheckpointError, match=r"some\.module\.make"):
        mt.load(io.BytesIO(zipped(pickled)), "meta")


def test_modules_are_allowed_under_their_names_in_pytorch():
    file = io.BytesIO()
    relu = mt.nn.functional.relu
    mt.save([mt.nn.Sequential(mt.nn.Linear(2, 3)), relu], file)
    with serialization.safe_globals([mt.nn.Sequential, mt.nn.Linear, relu]):
        model, function = mt.load(io.BytesIO(file.getvalue()), "meta")
    assert type(model[0]) is mt.nn.Linear and model[0].weight.shape == (3, 2) and function is relu
    with serialization.safe_globals([mt.nn.Sequential, relu]), pytest.raises(CheckpointError, match=r"names torch\.nn\.modules\.linear\.Linear,"):
        mt.load(io.BytesIO(file.getvalue()), "meta")


def test_only_what_the_pickle_names_is_called():
    # Allowing the class `Config` does not make a string callable.
    with serialization.safe_globals([Config]):
        with pytest.raises(CheckpointError, match="not callable"):
            mt.load(io.BytesIO(zipped(P2 + text("x") + b")R.")), "meta")


def test_errors_of_allowed_classes_name_the_place():
    with serialization.safe_globals([Raises]), pytest.raises(CheckpointError, match=r"at byte \d+: Raises: KeyError: 'no'") as caught:
        load(Raises())
    assert isinstance(caught.value.__cause__, KeyError)


def test_arguments_of_allowed_classes_are_values():
    pickled = P2 + name(Config.__module__, "Config") + b"((" + name("collections", "OrderedDict") + b")R" + name("collections", "OrderedDict") + b"ttR."
    with serialization.safe_globals([Config]):
        assert mt.load(io.BytesIO(zipped(pickled)), "meta").width == (collections.OrderedDict(), collections.OrderedDict)


NEVER = [os.system, builtins.eval, builtins.exec, builtins.getattr, builtins.open, builtins.__import__, subprocess.Popen, sys.exit, pickle.loads, type]


@pytest.mark.parametrize("never", NEVER, ids=str)
def test_what_cannot_be_allowed(never):
    for item in (never, (never, "harmless.name")):
        with pytest.raises(ValueError, match="anything"):
            serialization.add_safe_globals([Config, item])
    assert serialization.get_safe_globals() == []


def test_what_is_no_callable():
    for item in (3, "os.system", (Config,), (Config, 3)):
        with pytest.raises(TypeError):
            serialization.add_safe_globals([item])
    with pytest.raises(ValueError, match="no module"):
        serialization.add_safe_globals([(Config, "name")])


def test_a_memo_that_is_asked_for_what_was_skipped():
    """The reader decodes a whole tensor call at once and does not build its argument tuples.

    If a later part of the pickle refers to such a tuple through the memo, it must still get it.
    """
    call = name("torch._utils", "_rebuild_tensor_v2") + b"q\x00"
    first = (
        b"((" + text("storage") + b"q\x01" + name("torch", "FloatStorage") + b"q\x02" + text("0") + b"q\x03" + text("cpu") + b"q\x04K\x04tq\x05QK\x00K\x04\x85q\x06"
        b"K\x01\x85q\x07\x89" + name("collections", "OrderedDict") + b"q\x08)Rq\x09tq\x0aRq\x0b"
    )  # fmt: skip
    again = b"h\x00((h\x01h\x02h\x03h\x04K\x04tq\x0cQK\x01K\x02\x85q\x0dK\x01\x85q\x0e\x89h\x08)Rq\x0ftq\x10R"
    plain = mt.load(io.BytesIO(zipped(P2 + b"(" + call + first + again + b"t.")), "meta")
    assert [tuple(tensor.shape) for tensor in plain] == [(4,), (2,)]
    assert plain[0].untyped_storage() is plain[1].untyped_storage() and plain[1].storage_offset() == 1
    asked = mt.load(io.BytesIO(zipped(P2 + b"(" + call + first + again + b"h\x0dh\x0fh\x0eq\x0dh\x0dt.")), "meta")
    assert asked[0].untyped_storage() is asked[1].untyped_storage()
    assert asked[2:] == ((2,), collections.OrderedDict(), (1,), (1,))
    with pytest.raises(CheckpointError, match="memo index 99 was never set"):
        mt.load(io.BytesIO(zipped(P2 + b"(" + call + first + again + b"h\x63t.")), "meta")


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_a_call_that_is_almost_as_usual(cut):
    whole = name("torch._utils", "_rebuild_tensor_v2") + b"q\x00" + arguments(storage()) + b"R"
    at = len(whole) - 60 + cut
    for byte in b"(tRKQ\x85)\x89":
        content = zipped(P2 + whole[:at] + bytes([byte]) + whole[at + 1 :] + b".")
        try:
            found = mt.load(io.BytesIO(content), "meta")
        except CheckpointError:
            continue
        assert found.untyped_storage().nbytes() == 16


def test_the_machine_by_itself():
    machine = Machine("the file", {}, persist=lambda machine, id: ("id", id))
    assert machine.load(b"\x80\x02K\x05Q.rest") == (("id", 5), 6)
    for protocol in range(6):
        value = [{"a": (1, 2.5, None, True, 10**30, "ä\n'\"", [[]])}, -5, 70000, 2**40, -0.0]
        assert Machine("x", {}).load(pickle.dumps(value, protocol))[0] == value
    with pytest.raises(CheckpointError, match="the file: at byte 100"):
        Machine("the file", {}).load(b"\xff", 100)


def test_old_texts():
    assert Machine("x", {}).load(b"\x80\x02U\x03abcT\x02\x00\x00\x00\xff\xfe\x86.")[0] == ("abc", b"\xff\xfe")
    assert Machine("x", {}).load(b"(S'a\\x41'\nV\\u00e4\nI01\nL5L\nF1.5\nt.")[0] == ("aA", "ä", True, 5, 1.5)


def test_threads_load_side_by_side():
    import threading

    content = zipped(P2 + b"(" + tensor() * 50 + b"t.")
    found = []

    def work():
        for _ in range(20):
            found.append(len(mt.load(io.BytesIO(content), "meta")))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    import gc

    assert found == [50] * 80 and gc.isenabled()


