"""`torch.distributed.pipelining`, whose functions and classes raise: a world of one process has a single stage."""

from metatensor._core.absent import functions, kinds

_WHY = "metatensor has no communication between processes; run the stages one after the other"

globals().update(functions("distributed.pipelining", "build_stage pipe_split pipeline", _WHY))
globals().update(kinds(
    "distributed.pipelining",
    "Pipe PipelineStage Schedule1F1B ScheduleDualPipeV ScheduleGPipe ScheduleInterleaved1F1B ScheduleInterleavedZeroBubble "
    "ScheduleLoopedBFS ScheduleZBVZeroBubble",
    _WHY,
))  # fmt: skip
