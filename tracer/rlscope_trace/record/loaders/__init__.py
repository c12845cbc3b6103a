"""The ways to get the programs of bpf/ into the OS kernel; probes.py chooses among them."""
