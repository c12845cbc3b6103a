-- What the leading thread did from the first iteration to the last.
FROM training_phase
