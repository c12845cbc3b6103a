"""What scripts/gpu_check runs on a machine with an NVIDIA GPU, one module per step."""
