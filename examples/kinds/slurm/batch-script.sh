#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=h100:8

srun vllm serve Qwen/Qwen3-30B-A3B \
  --tensor-parallel-size=4 \
  --pipeline-parallel-size=2 \
  --data-parallel-size=2 \
  --enable-expert-parallel \
  --max-model-len=32768 \
  --quantization=fp8 \
  --kv-cache-dtype=fp8 \
  --gpu-memory-utilization=0.9 \
  --nnodes $SLURM_NNODES --node-rank $SLURM_NODEID --master-addr "$HEAD"
