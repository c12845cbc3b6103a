"""What a recording leaves on the disk: its files and their formats."""
