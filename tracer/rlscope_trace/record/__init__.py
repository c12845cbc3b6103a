"""Records: probes, shims, one session, and what measures and checks that."""
