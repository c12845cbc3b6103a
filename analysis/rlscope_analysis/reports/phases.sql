-- What the leading thread did in the iterations but the first.
FROM training_phase
