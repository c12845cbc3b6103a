"""What one event of a recording costs on this machine: `rlscope-trace calibrate`."""
