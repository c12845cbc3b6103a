"""The parts of scripts/fuzz."""
