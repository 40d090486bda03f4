"""Processes started while metatensor is installed as torch import it as torch too."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import multiprocessing, sys

if __name__ == "__main__":
    from metatensor import torch_api
    {before}
    torch_api.install()
import torch

def work(x):
    return torch.__version__, float((torch.ones(2) * x).sum())

if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        print(pool.map(work, [2]))
    torch_api.uninstall()
    from multiprocessing import spawn
    print("metatensor" in spawn.get_preparation_data("x"))
"""


@pytest.mark.parametrize("before", ["pass", "import multiprocessing.spawn, multiprocessing.forkserver"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.skipif(sys.platform == "win32", reason="no forkserver")
def test_started_processes_know_torch(tmp_path, method, before):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(method=method, before=before))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[('2.13.0+metatensor', 4.0)]", "False"]
