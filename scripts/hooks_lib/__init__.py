"""What scripts/hooks downloads and reads."""
