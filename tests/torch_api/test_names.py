"""Names that model libraries import from compatibility modules."""

import importlib

import pytest

from metatensor.interchange.torch_modules import target_of

NAMES = """
_dynamo _dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex _dynamo.allow_in_graph _dynamo.assume_constant_result
_dynamo.config.automatic_dynamic_shapes _dynamo.config.optimize_ddp _dynamo.is_compiling _dynamo.mark_static_address
_dynamo.utils.is_compile_supported _higher_order_ops.associative_scan _inductor.config _inductor.config.coordinate_descent_tuning
_inductor.config.triton _inductor.cpp_builder.get_cpp_compiler accelerator accelerator.current_accelerator
accelerator.device_count accelerator.is_available ao.nn.quantized.modules.functional_modules.FloatFunctional
ao.quantization.DeQuantStub ao.quantization.QConfig ao.quantization.QuantStub ao.quantization.convert
ao.quantization.default_observer ao.quantization.default_per_channel_weight_observer ao.quantization.default_weight_observer
ao.quantization.fuse_modules ao.quantization.fuse_modules_qat ao.quantization.get_default_qat_qconfig ao.quantization.prepare
ao.quantization.prepare_qat ao.quantization.stubs.DeQuantStub ao.quantization.stubs.QuantStub backends
backends.cuda.enable_flash_sdp backends.cuda.enable_mem_efficient_sdp backends.cuda.matmul backends.cuda.sdp_kernel
backends.cudnn.allow_tf32 backends.cudnn.benchmark backends.cudnn.deterministic backends.cudnn.enabled backends.cudnn.flags
backends.fp32_precision backends.mkldnn.enabled backends.mkldnn.is_available backends.mps backends.mps.is_available
backends.mps.is_built backends.mps.is_macos_or_newer backends.nnpack.set_flags backends.quantized.engine
backends.quantized.supported_engines cuda cuda.CUDAGraph cuda.FloatTensor cuda.HalfTensor cuda.LongTensor cuda.Stream
cuda.StreamContext cuda.amp cuda.amp.GradScaler cuda.amp.autocast cuda.amp.custom_bwd cuda.amp.custom_fwd cuda.current_device
cuda.default_generators cuda.default_stream cuda.device cuda.device_count cuda.empty_cache cuda.get_device_capability
cuda.get_device_name cuda.get_device_properties cuda.graph cuda.is_available cuda.is_bf16_supported
cuda.is_current_stream_capturing cuda.is_initialized cuda.manual_seed cuda.manual_seed_all cuda.max_memory_allocated
cuda.memory_allocated cuda.memory_reserved cuda.reset_max_memory_allocated cuda.set_device cuda.stream cuda.synchronize
distributed distributed.ProcessGroup distributed.ReduceOp distributed.ReduceOp.AVG distributed.ReduceOp.MAX
distributed.ReduceOp.MIN distributed.ReduceOp.SUM distributed._functional_collectives
distributed._functional_collectives.AsyncCollectiveTensor distributed._functional_collectives.all_gather_tensor
distributed._functional_collectives.all_reduce distributed._functional_collectives.all_to_all_single
distributed._functional_collectives.all_to_all_single_autograd distributed._functional_collectives.permute_tensor
distributed._functional_collectives.wait_tensor distributed._remote_device distributed._shard._utils.narrow_tensor_by_index
distributed._shard.metadata.ShardMetadata distributed._shard.sharded_tensor.ShardedTensor distributed._tensor.distribute_tensor
distributed.all_gather distributed.all_gather_into_tensor distributed.all_reduce distributed.all_to_all_single distributed.barrier
distributed.broadcast distributed.broadcast_object_list distributed.checkpoint.FileSystemWriter distributed.checkpoint.LoadPlan
distributed.checkpoint.LoadPlanner distributed.checkpoint.SavePlan distributed.checkpoint.SavePlanner
distributed.checkpoint.StorageReader distributed.checkpoint.filesystem.WriteResult distributed.checkpoint.filesystem._StorageInfo
distributed.checkpoint.load_state_dict distributed.checkpoint.metadata.Metadata distributed.checkpoint.metadata.MetadataIndex
distributed.checkpoint.optimizer.load_sharded_optimizer_state_dict distributed.checkpoint.planner.LoadItemType
distributed.checkpoint.planner.LoadItemType.BYTE_IO distributed.checkpoint.planner.ReadItem distributed.checkpoint.save_state_dict
distributed.destroy_process_group distributed.device_mesh distributed.device_mesh.DeviceMesh
distributed.device_mesh.init_device_mesh distributed.fsdp.CPUOffloadPolicy distributed.fsdp.FullyShardedDataParallel
distributed.fsdp.FullyShardedDataParallel.optim_state_dict distributed.fsdp.FullyShardedDataParallel.optim_state_dict_to_load
distributed.fsdp.FullyShardedDataParallel.state_dict_type distributed.fsdp.MixedPrecision distributed.fsdp.MixedPrecisionPolicy
distributed.fsdp.ShardingStrategy distributed.fsdp.ShardingStrategy.FULL_SHARD distributed.fsdp.StateDictType
distributed.fsdp.StateDictType.FULL_STATE_DICT distributed.fsdp.StateDictType.SHARDED_STATE_DICT
distributed.fsdp._flat_param.FlatParamHandle distributed.fsdp._runtime_utils._lazy_init
distributed.fsdp.api.FullOptimStateDictConfig distributed.fsdp.api.FullStateDictConfig
distributed.fsdp.api.ShardedOptimStateDictConfig distributed.fsdp.api.ShardedStateDictConfig distributed.fsdp.flat_param
distributed.fsdp.wrap.size_based_auto_wrap_policy distributed.gather_object distributed.get_backend distributed.get_global_rank
distributed.get_process_group_ranks distributed.get_rank distributed.get_world_size distributed.init_process_group
distributed.is_available distributed.is_initialized distributed.is_nccl_available distributed.is_xccl_available
distributed.new_group distributed.nn.functional.all_gather distributed.recv distributed.reduce distributed.reduce_scatter_tensor
distributed.send distributed.tensor.DTensor distributed.tensor.DTensor.from_local distributed.tensor.Partial
distributed.tensor.Replicate distributed.tensor.Shard distributed.tensor._utils.compute_local_shape_and_global_offset
distributed.tensor.distribute_tensor distributed.tensor.placement_types.Shard distributed.tensor.placement_types._StridedShard
export.Dim export.Dim.AUTO export.ExportedProgram export.export futures.Future fx fx.Graph fx.GraphModule fx.Proxy fx.Tracer
fx._pytree.register_pytree_flatten_spec fx.graph_module._CodeOnlyModule fx.graph_module._USER_PRESERVED_ATTRIBUTES_KEY
fx.graph_module._copy_attr fx.node.Node fx.node.Target fx.proxy.Proxy fx.wrap hub.HASH_REGEX hub._get_torch_home
hub.download_url_to_file hub.get_dir hub.load_state_dict_from_url hub.urlparse mps.driver_allocated_memory mps.empty_cache
multiprocessing.get_context multiprocessing.get_start_method multiprocessing.set_start_method multiprocessing.spawn onnx
onnx.TensorProtoDataType onnx.TensorProtoDataType.FLOAT onnx.TensorProtoDataType.INT64 onnx.export onnx.is_in_onnx_export
onnx.operators onnx.operators.shape_as_tensor onnx.register_custom_op_symbolic onnx.symbolic_helper.cast_pytorch_to_onnx
onnx.symbolic_helper.parse_args onnx.symbolic_opset11 onnx.symbolic_opset11.select onnx.symbolic_opset11.squeeze
onnx.symbolic_opset11.unsqueeze onnx.symbolic_opset12 onnx.symbolic_opset12.dropout onnx.symbolic_opset9.masked_fill
onnx.symbolic_opset9.softmax profiler.record_function xpu xpu.device_count xpu.get_device_properties xpu.is_available
xpu.is_bf16_supported xpu.is_current_stream_capturing xpu.memory_allocated xpu.memory_reserved Stream Event
nn.quantized.FloatFunctional
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_libraries_use(name):
    if name.startswith("cuda.amp"):
        pytest.importorskip("metatensor.torch_api.torch.amp")
    found, path = importlib.import_module("metatensor.torch_api.torch"), "metatensor.torch_api.torch"
    for part in name.split("."):
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(path)


@pytest.mark.parametrize("module", ["distributed", "fx", "cuda", "backends", "onnx", "export", "ao", "testing", "fx.experimental"])
def test_nothing_answers_to_any_name(module):
    found = importlib.import_module(target_of(f"torch.{module}"))
    assert not hasattr(found, "no_such_name")
    with pytest.raises(AttributeError, match="no_such_name"):
        found.no_such_name


@pytest.mark.parametrize("name", [
    "distributed.fsdp.FullyShardedDataParallel", "distributed.tensor.DTensor", "distributed._shard.sharded_tensor.ShardedTensor",
    "distributed._functional_collectives.AsyncCollectiveTensor", "cuda.CUDAGraph", "cuda.Stream", "export.ExportedProgram",
    "fx.GraphModule", "fx.Proxy", "distributed.ProcessGroup", "_dynamo.eval_frame.OptimizedModule",
])  # fmt: skip
def test_nothing_is_an_instance(name):
    import metatensor as mt

    found = importlib.import_module("metatensor.torch_api.torch")
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, type)
    assert not isinstance(mt.empty(2, device="meta"), found) and not isinstance(mt.nn.Linear(1, 1), found)


@pytest.mark.parametrize("name, error", [
    ("distributed.fsdp._flat_param.FlatParameter", NotImplementedError),
    ("distributed.checkpoint.load_sharded_optimizer_state_dict", NotImplementedError), ("distributed.rpc.init_rpc", NotImplementedError),
    ("cuda.CUDAGraph", RuntimeError), ("cuda.graph", RuntimeError), ("export.draft_export", NotImplementedError),
    ("export.unflatten", NotImplementedError), ("onnx.dynamo_export", NotImplementedError),
    ("nested.nested_tensor", NotImplementedError),
    ("sparse.mm", NotImplementedError), ("onnx.symbolic_opset11.select", NotImplementedError),
    ("ao.quantization.convert", NotImplementedError), ("package.PackageImporter", NotImplementedError),
    ("_inductor.cpp_builder.get_cpp_compiler", RuntimeError), ("_inductor.compile", NotImplementedError),
])  # fmt: skip
def test_what_raises_when_it_is_used(name, error):
    found = importlib.import_module("metatensor.torch_api.torch")
    for part in name.split("."):
        found = getattr(found, part)
    with pytest.raises(error, match=f"torch.{name}: "):
        found() if name.endswith("get_cpp_compiler") else found(None)
    assert found.__doc__


def test_a_class_that_raises_can_be_subclassed():
    from metatensor import distributed
    from metatensor.distributed._shard.sharded_tensor import ShardedTensor

    class Own(ShardedTensor):
        pass

    assert isinstance(Own(), ShardedTensor)
    assert isinstance(distributed.checkpoint.DefaultSavePlanner(), distributed.checkpoint.SavePlanner)
