"""Cards, instance types and node labels: from what a file calls a GPU to what the GPU is."""
