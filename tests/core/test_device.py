"""Names of devices, and the default device."""

import copy
import pickle
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt


def test_devices_are_interned():
    assert mt.device("cuda:1") is mt.device("cuda", 1) is mt.device(mt.device("cuda:1"))
    assert mt.device("meta") is not mt.device("meta:0")
    d = mt.device("cuda:3")
    assert (d.type, d.index, str(d), repr(d)) == ("cuda", 3, "cuda:3", "device(type='cuda', index=3)")
    assert mt.device("cpu").index is None
    assert pickle.loads(pickle.dumps(d)) is d and copy.deepcopy(d) is d
    assert mt.device(2) is mt.device("cuda:2")
    assert isinstance(d, mt.device)


@pytest.mark.parametrize("name", ["", "cuda:", "cuda:-1", "cuda:01", "CUDA 0", "cuda:1:2", ":1", "a b", "cuda:999999"])
def test_malformed_names(name):
    with pytest.raises(RuntimeError):
        mt.device(name)


@pytest.mark.parametrize("args", [(), (None,), (1.5,), ("cuda", "0"), ("cuda", True), (b"cpu",), (True,)])
def test_wrong_types(args):
    with pytest.raises(TypeError):
        mt.device(*args)


@pytest.mark.parametrize("args", [("cuda", -1), ("cuda:0", 1), (-1,)])
def test_wrong_indices(args):
    with pytest.raises(RuntimeError):
        mt.device(*args)


@given(st.text(max_size=12))
def test_any_text_is_a_device_or_a_runtime_error(text):
    try:
        d = mt.device(text)
    except RuntimeError:
        return
    assert str(d) == text


def test_making_a_device_loads_nothing():
    code = ("import sys, metatensor as mt; mt.device('cuda:3'); mt.device('npu:1'); "
            "assert 'pluggy' not in sys.modules and 'cupy' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_devices_fail_when_used_and_list_the_known():
    with pytest.raises(RuntimeError, match="meta"):
        mt.empty(2, device="nosuchdevice")


def test_with_blocks_nest():
    with mt.device("meta"):
        assert mt.empty(2).device is mt.device("meta")
        with mt.device("cuda:1"):
            assert mt.get_default_device() is mt.device("cuda:1")
            with mt.device("meta"):
                assert mt.empty(1).is_meta
        assert mt.get_default_device() is mt.device("meta")


def test_one_device_object_may_be_entered_again():
    d = mt.device("meta")
    with d, mt.device("cuda"), d:
        assert mt.get_default_device() is d
    with pytest.raises(ValueError), d:
        raise ValueError
    assert mt.get_default_device() is not d


def test_leaving_what_was_not_entered():
    with pytest.raises(RuntimeError):
        mt.device("npu").__exit__(None, None, None)


def test_default_device_as_decorator():
    @mt.device("meta")
    def build():
        return mt.empty(3)

    assert build().is_meta


def test_set_default_device():
    try:
        mt.set_default_device("meta")
        assert mt.empty(1).is_meta
        with mt.device("cuda:0"):
            assert str(mt.get_default_device()) == "cuda:0"
        assert str(mt.get_default_device()) == "meta"
    finally:
        mt.set_default_device(None)


def test_default_devices_belong_to_their_thread():
    seen, entered, leave = [], threading.Event(), threading.Event()

    def other():
        with mt.device("meta"):
            entered.set()
            leave.wait(10)
            seen.append(str(mt.get_default_device()))

    thread = threading.Thread(target=other)
    before = mt.get_default_device()
    with mt.device("cuda:7"):
        thread.start()
        entered.wait(10)
        assert str(mt.get_default_device()) == "cuda:7"
        with mt.device("meta"):  # the same object that the other thread has entered
            leave.set()
            thread.join()
            assert mt.get_default_device() is mt.device("meta")
        assert str(mt.get_default_device()) == "cuda:7"
    assert seen == ["meta"] and mt.get_default_device() is before


def test_the_environment_names_a_default():
    code = "import metatensor as mt; print(mt.empty(2).device)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                         env={**__import__("os").environ, "METATENSOR_DEFAULT_DEVICE": "meta"})
    assert out.stdout.strip() == "meta"


def test_there_is_one_meta_device():
    """An index is accepted and ignored, as in PyTorch."""
    assert mt.empty(2, device="meta:0").device is mt.device("meta")
    assert mt.empty(2, device="meta").to("meta:1").device is mt.device("meta")
    assert mt.empty_like(mt.empty(2, device="meta"), device=mt.device("meta", 3)).is_meta
    with mt.device("meta:0"):
        assert mt.ones(2).device is mt.device("meta") and (mt.ones(2) + mt.empty(2, device="meta")).is_meta


def test_a_decorated_generator_runs_on_the_device():
    @mt.device("meta")
    def blocks(count):
        heard = []
        try:
            for _ in range(count):
                try:
                    heard.append((yield mt.empty(2)))
                except KeyError:
                    heard.append("error")
            return heard, mt.empty(1).device.type
        finally:
            left.append(mt.empty(1).device.type)

    left = []
    running = blocks(3)
    assert left == [] and next(running).device.type == "meta"
    assert mt.empty(1).device.type == "cpu"
    assert running.send("one").is_meta and running.throw(KeyError()).is_meta
    with pytest.raises(StopIteration) as end:
        running.send("last")
    assert end.value.value == (["one", "error", "last"], "meta") and left == ["meta"]
    stopped = blocks(2)
    next(stopped)
    stopped.close()
    assert left == ["meta", "meta"] and mt.empty(1).device.type == "cpu"
