"""`torch.distributed.pipelining`: models as stages on several ranks, which run microbatches one after the other.

A stage is a module (`PipelineStage`), or a part of a traced model (`pipeline`). A schedule says in which order the passes run.
"""

from __future__ import annotations

from metatensor.distributed.pipelining._balancing import balanced_stages
from metatensor.distributed.pipelining._pipe import Pipe, SplitPoint, build_stage, pipe_split, pipeline
from metatensor.distributed.pipelining._timing import Timeline, timeline
from metatensor.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    get_schedule_class,
)
from metatensor.distributed.pipelining.stage import PipelineStage

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "Timeline", "balanced_stages",
    "build_stage", "get_schedule_class", "pipe_split", "pipeline", "timeline",
]
