#!/bin/sh
set -eu

# "parallel" is misspelt, and vLLM 0.33 stops at an option that it does not know.
# expect: flag-unknown
exec docker run --rm --gpus '"device=0,1"' --ipc host vllm/vllm-openai:v0.33.0 Qwen/Qwen3-32B --tensor-paralell-size 2
