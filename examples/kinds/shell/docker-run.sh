#!/bin/sh
docker run --rm --gpus 8 --shm-size 16g -p 8000:8000 vllm/vllm-openai:v0.11.2 \
  --model=Qwen/Qwen3-30B-A3B \
  --tensor-parallel-size=2 \
  --pipeline-parallel-size=2 \
  --data-parallel-size=2 \
  --enable-expert-parallel \
  --max-model-len=32768 \
  --quantization=fp8 \
  --kv-cache-dtype=fp8 \
  --gpu-memory-utilization=0.9
