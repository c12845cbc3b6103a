"""The first screen of `summarize`: what limits the run, and what to try; docs/summary.md."""
