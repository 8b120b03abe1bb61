#!/bin/sh
# Two KV heads, so TP 2 keeps one copy of every KV entry; four copies of the model use eight GPUs.
set -eu

MODEL=Qwen/Qwen2.5-3B-Instruct
TP=2

exec docker run --rm --gpus '"device=0,1,2,3,4,5,6,7"' --ipc host -p 8000:8000 \
  vllm/vllm-openai:v0.33.0 \
  "$MODEL" --tensor-parallel-size "$TP" --data-parallel-size 4
