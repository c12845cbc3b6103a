"""What `summarize` tells of a trace as a whole: its values, findings and renderings."""
