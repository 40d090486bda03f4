"""CUDA graphs, which metatensor does not support."""

from metatensor.torch_api.torch.cuda import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]
