"""The steps of scripts/gpu_check: each answers its questions by run(context)."""
