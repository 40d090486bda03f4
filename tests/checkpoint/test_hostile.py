"""Malicious pickles are refused with the reason, in every format that contains them, and nothing in them is executed."""

import io
import os
import sys
import time
import tracemalloc

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError
from metatensor.serialization import get_unsafe_globals_in_checkpoint

from .hostile import CALLABLES, CANARY, CASES, ROUTES, legacy, zipped

IDS = [case[0] for case in CASES]


@pytest.fixture(autouse=True)
def nothing_happens():
    """Check that the canary file remains, no module is imported, and no process is started."""
    for module in ("antigravity", "this", "webbrowser.open"):
        sys.modules.pop(module, None)
    before = {module for module in sys.modules if not module.startswith(("metatensor", "numpy"))}
    limit = sys.getrecursionlimit()
    yield
    assert not os.path.exists(CANARY)
    new = {module for module in sys.modules if not module.startswith(("metatensor", "numpy", "encodings"))} - before
    assert not new & {"antigravity", "this", "webbrowser", "pty", "runpy", "code", "pip", "dill", "joblib", "cProfile", "smtplib"}
    assert sys.getrecursionlimit() == limit


def test_there_are_enough_of_them():
    assert len(CASES) >= 250 and len(set(IDS)) == len(IDS)
    assert len(CALLABLES) >= 100 and len(ROUTES) >= 50


@pytest.mark.slow
@pytest.mark.parametrize(("pickle", "words"), [case[1:] for case in CASES], ids=IDS)
@pytest.mark.parametrize("pack", [zipped, legacy])
def test_refused(pack, pickle, words):
    content = pack(pickle)
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(CheckpointError) as caught:
            mt.load(io.BytesIO(content), "meta")
        took = time.perf_counter() - began
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert all(any(part in message for part in word.split("|")) for word in words), message
    assert "the open file" in message and "byte" in message and len(message) < 3000
    assert took < 10  # tracemalloc slows it by an order of magnitude
    assert peak < (64 << 20) + 600 * len(content)


@pytest.mark.parametrize(("pickle", "words"), [case[1:] for case in CASES], ids=IDS)
def test_looking_for_unknown_names_runs_nothing_either(pickle, words):
    try:
        found = get_unsafe_globals_in_checkpoint(io.BytesIO(zipped(pickle)))
    except CheckpointError:
        return
    assert isinstance(found, list)


def test_all_unknown_names_are_listed():
    from .hostile import P2, name

    pickle = P2 + b"(" + name("posix", "system") + name("a.b", "C") + name("posix", "system") + name("torch", "Size") + b"t."
    assert get_unsafe_globals_in_checkpoint(io.BytesIO(zipped(pickle))) == ["posix.system", "a.b.C"]
    with pytest.raises(CheckpointError, match=r"posix\.system, a\.b\.C"):
        mt.load(io.BytesIO(legacy(pickle)), "meta")
