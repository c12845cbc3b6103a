"""Balance: what an environment step asks of CPUs, threads and GPU (docs/balance.md)."""
