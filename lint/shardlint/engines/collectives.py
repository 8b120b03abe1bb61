"""What NCCL asks of a container by itself, whichever engine calls it.

Where GPUs have no peer access, it copies through files in /dev/shm: "Error while creating shared
memory segment /dev/shm/nccl-… (size 9637888)" (sgl-project/sglang issue 4259, NVIDIA/nccl issue
342), one for each rank and channel, of which a ring has two at least (NVIDIA/nccl issue 1518).
The README of huggingface/text-generation-inference asks for 1 GiB.
"""

from __future__ import annotations

from typing import Final

from shardlint.plan import Ranks, SharedMemory

SEGMENT: Final = 9_637_888
CHANNELS: Final = 2
AMPLE: Final = 1 << 30


def through_files(ranks: Ranks) -> SharedMemory | None:
    """What ranks of one container ask of /dev/shm, if their GPUs have no peer access."""
    local = ranks.gpus_per_pod
    if local is None or local < 2:
        return None
    return SharedMemory(
        processes=local,
        least=local * CHANNELS * SEGMENT,
        ample=AMPLE,
        only_without_peers=True,
        consequence="NCCL then stops with 'Error while creating shared memory segment'",
    )
