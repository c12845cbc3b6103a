"""The ways to get the programs of bpf/ into the OS kernel; backends.py chooses among them."""
