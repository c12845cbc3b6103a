"""What is attached to the target while it runs: exact calls, samples, GIL windows."""
