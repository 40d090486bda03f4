"""A Cython module of another project compiles with the installed .pxd files and accesses tensors from C."""

import importlib.util
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SOURCE = """
# cython: language_level=3
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

def product_of_sizes(Tensor t not None):
    cdef dim_t n = 1
    cdef int i
    for i in range(t.ndim):
        n *= t.sizes[i]
    return n
"""


@pytest.mark.slow
def test_a_users_cimport(tmp_path):
    pytest.importorskip("Cython")
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C compiler")
    import metatensor as mt

    (tmp_path / "user_module.pyx").write_text(SOURCE)
    site = Path(mt.__file__).resolve().parent.parent
    cython = [sys.executable, "-m", "cython", "-I", str(site), "user_module.pyx"]
    done = subprocess.run(cython, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    target = tmp_path / ("user_module" + sysconfig.get_config_var("EXT_SUFFIX"))
    include = "-I" + sysconfig.get_path("include")
    command = [*compiler, "-shared", "-fPIC", "-O0", "-w", include, "user_module.c", "-o", str(target)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    spec = importlib.util.spec_from_file_location("user_module", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.product_of_sizes(mt.empty(2, 3, 4, device="meta")) == 24
    with pytest.raises(TypeError):
        module.product_of_sizes([2, 3])
