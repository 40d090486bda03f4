"""Settings of PyTorch's compiler backend. They are stored and have no effect. Any other attribute can be set as well.
"""

from __future__ import annotations

from types import SimpleNamespace

coordinate_descent_tuning = False
coordinate_descent_check_all_directions = False
epilogue_fusion = True
fx_graph_cache = True
force_fuse_int_mm_with_mul = False
use_mixed_mm = True
max_autotune = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
conv_1x1_as_mm = False
freezing = False
shape_padding = True
fallback_random = False
compile_threads = 1
debug = False
cpp_wrapper = False
reorder_for_compute_comm_overlap = False
triton = SimpleNamespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=False, cudagraph_skip_dynamic_graphs=False)
cpp = SimpleNamespace(threads=-1, simdlen=None, enable_kernel_profile=False)
trace = SimpleNamespace(enabled=False, graph_diagram=False)
