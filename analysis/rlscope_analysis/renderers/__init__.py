"""Turn an answer into text, JSON or CSV; each knows the model in result/ and nothing else."""
