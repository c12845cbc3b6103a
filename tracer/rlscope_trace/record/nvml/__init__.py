"""Readings of the GPUs as the driver tells them (NVML): utilization, clocks, power, memory."""
