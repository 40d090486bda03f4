"""Models of timm, transformers, torchvision and diffusers match the facts recorded with PyTorch, without PyTorch installed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FACTS = json.loads((HERE / "facts.json").read_text())


class Worker:
    """A process that measures models of one library."""

    def __init__(self, library):
        path = os.pathsep.join(p for p in sys.path if p)
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "measure.py"), library], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def measure(self, name, record):
        self.process.stdin.write(json.dumps([name, record]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the worker ended with status {self.process.wait()}"
        return json.loads(answer)


@pytest.fixture(scope="module")
def workers():
    started = {}
    yield started
    for worker in started.values():
        worker.process.stdin.close()
        worker.process.wait(timeout=30)
        worker.process.stdout.close()


@pytest.mark.parametrize(("library", "name"), [(library, name) for library, cases in FACTS.items() for name in cases])
def test_a_model_is_what_it_is_with_pytorch(workers, library, name):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed; make test-libraries installs it")
    record = FACTS[library][name]
    worker = workers.get(library) or workers.setdefault(library, Worker(library))
    facts = worker.measure(name, record)
    assert "error" not in facts, facts["error"]
    wanted = {key: value for key, value in record.items() if key not in ("inputs", "forward_ctx")}
    assert {key: facts[key] for key in wanted} == wanted
