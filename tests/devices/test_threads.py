"""The number of threads, and loops that are divided among them."""

import os
import sys

import numpy as np
import pytest

import metatensor as mt
from metatensor._core import philox
from metatensor.devices import threads

N = 3 * threads.LEAST + 5


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    before, threads._chosen, threads._limited = threads._chosen, None, None
    yield
    monkeypatch.undo()
    threads._from_environment.cache_clear()
    threads._chosen = before
    threads.set_num_threads(threads.get_num_threads())  # BLAS has its number back
    threads._chosen, threads._limited = before, None


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("draw", [
    lambda: mt.empty(N, device="cpu").normal_(1, 2), lambda: mt.rand(N, device="cpu"), lambda: mt.rand(N, device="cpu", dtype=mt.float64),
    lambda: mt.empty(N, device="cpu").uniform_(-1, 3), lambda: mt.empty(N, device="cpu").exponential_(),
    lambda: mt.randint(0, 10, (N,), device="cpu"), lambda: mt.empty(N, device="cpu", dtype=mt.bfloat16).normal_(),
    lambda: mt.randperm(N, device="cpu"), lambda: mt.empty(N, device="cpu").bernoulli_(0.3),
    lambda: mt.linspace(-1, 1, N, device="cpu").erfinv(), lambda: mt.linspace(-4, 4, N, device="cpu").erf(),
    lambda: mt.nn.functional.gelu(mt.linspace(-4, 4, N, device="cpu")),
])  # fmt: skip
def test_results_do_not_depend_on_the_number_of_threads(draw, n):
    results = []
    for number in (1, n):
        threads.set_num_threads(number)
        mt.manual_seed(3)
        results.append(draw().view(mt.uint8).numpy())
    assert np.array_equal(*results)


def test_parts_are_shared_out():
    threads.set_num_threads(3)
    seen = []
    threads.share_out(lambda first, count: seen.append((first, count)), N)
    seen.sort()
    assert len(seen) == 3 and [first for first, _ in seen] == [0, seen[0][1], seen[0][1] + seen[1][1]]
    assert sum(count for _, count in seen) == N and all(first % 4 == 0 for first, _ in seen)
    seen.clear()
    threads.share_out(lambda first, count: seen.append((first, count)), 2 * threads.LEAST - 1)
    assert seen == [(0, 2 * threads.LEAST - 1)]


@pytest.mark.parametrize("bad", [0, -1])
def test_numbers_that_are_refused(bad):
    with pytest.raises(RuntimeError, match="positive"):
        threads.set_num_threads(bad)
    for wrong in (True, 1.5, None):
        with pytest.raises(TypeError):
            threads.set_num_threads(wrong)


def test_an_error_in_a_thread_is_raised():
    def work(first, count):
        if first:
            raise ValueError("here")

    threads.set_num_threads(2)
    with pytest.raises(ValueError, match="here"):
        threads.share_out(work, N)


def test_blas_has_the_number_of_threads():
    control = pytest.importorskip("threadpoolctl")
    mt.ones(2, device="cpu").sum()
    for n in (2, 1):
        threads.set_num_threads(n)
        assert threads.get_num_threads() == n
        numbers = [library["num_threads"] for library in control.threadpool_info() if library["user_api"] == "blas"]
        assert numbers and all(number == min(n, os.cpu_count()) for number in numbers)


def test_the_environment_sets_the_default(monkeypatch):
    threads._from_environment.cache_clear()
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads.get_num_threads() == 5


@pytest.mark.skipif(not hasattr(os, "fork") or sys.version_info >= (3, 12), reason="forking beside threads warns from 3.12 on")
def test_a_forked_process_has_threads_of_its_own():
    threads.set_num_threads(2)
    x = mt.empty(N, device="cpu").normal_()
    child = os.fork()
    if not child:
        os._exit(0 if x.normal_().shape[0] == N else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 511, 512, 513, 5000, 200_000])
def test_permutations_sort_the_words_of_a_stream(n):
    for seed in range(5):
        words, order = np.empty(n, np.uint64), np.empty(n, np.int64)
        philox.fill_bits(words, seed, 7, 0)
        philox.fill_permutation(order, seed, 7)
        assert np.array_equal(order, words.argsort(kind="stable"))


def test_erfinv_is_rounded_correctly_or_nearly_so():
    special = pytest.importorskip("scipy.special")
    near = 1 - 2.0 ** -np.arange(1, 25)
    x = np.concatenate([np.linspace(-1, 1, 20_001), near, -near, 2.0 ** -np.arange(1, 150), [0, -0.0, 1.5, -2, np.inf, np.nan]])
    x = x.astype("f4")
    found, exact = mt.from_numpy(x).erfinv().numpy(), special.erfinv(x.astype("f8"))
    finite = np.isfinite(exact)
    assert np.array_equal(found[~finite], exact[~finite].astype("f4"), equal_nan=True)
    ulp = np.spacing(np.abs(exact[finite]).astype("f4"))
    assert (np.abs(found[finite] - exact[finite]) < 0.52 * ulp).all()
    assert np.array_equal(np.signbit(found[finite]), np.signbit(x[finite]))
