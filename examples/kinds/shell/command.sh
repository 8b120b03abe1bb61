#!/bin/sh
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
vllm serve Qwen/Qwen3-30B-A3B \
  --tensor-parallel-size=2 \
  --pipeline-parallel-size=2 \
  --data-parallel-size=2 \
  --enable-expert-parallel \
  --max-model-len=32768 \
  --quantization=fp8 \
  --kv-cache-dtype=fp8 \
  --gpu-memory-utilization=0.9
