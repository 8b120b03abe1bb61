# Python: engines that a program starts, Ray Serve applications and Modal among them.
from vllm import LLM

llm = LLM(model="Qwen/Qwen3-32B", tensor_parallel_size=2)
