-- What recording cost the target, event by event, and how that is known.

CREATE TABLE calibration_measured (
  event VARCHAR, part VARCHAR, method VARCHAR, mean_ns DOUBLE, stddev_ns DOUBLE, n BIGINT,
  low_ns DOUBLE, high_ns DOUBLE, used BOOLEAN, quality VARCHAR,
  code VARCHAR, subject VARCHAR, detail VARCHAR, numbers DOUBLE[]
);
COMMENT ON TABLE calibration_measured IS 'Storage behind the view calibration: what was measured by loops on this machine (micro)';
COMMENT ON COLUMN calibration_measured.event IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.part IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.method IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.mean_ns IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.stddev_ns IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.n IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.low_ns IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.high_ns IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.used IS 'As in calibration; always false here';
COMMENT ON COLUMN calibration_measured.quality IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.code IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.subject IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.detail IS 'As in calibration';
COMMENT ON COLUMN calibration_measured.numbers IS 'As in calibration';

CREATE TABLE calibration_estimate (
  event VARCHAR, part VARCHAR, method VARCHAR, mean_ns DOUBLE, stddev_ns DOUBLE, n BIGINT,
  low_ns DOUBLE, high_ns DOUBLE, used BOOLEAN, quality VARCHAR,
  code VARCHAR, subject VARCHAR, detail VARCHAR, numbers DOUBLE[]
);
COMMENT ON TABLE calibration_estimate IS 'Storage behind the view calibration: what the analysis works out for the recording (combined)';
COMMENT ON COLUMN calibration_estimate.event IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.part IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.method IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.mean_ns IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.stddev_ns IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.n IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.low_ns IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.high_ns IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.used IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.quality IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.code IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.subject IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.detail IS 'As in calibration';
COMMENT ON COLUMN calibration_estimate.numbers IS 'As in calibration';

CREATE VIEW calibration AS
SELECT event, part, method, mean_ns, stddev_ns, n, low_ns, high_ns, coalesce(used, FALSE) AS used, quality, code, subject, detail, numbers
FROM calibration_measured
UNION ALL
SELECT event, part, method, mean_ns, stddev_ns, n, low_ns, high_ns, used, quality, code, subject, detail, numbers
FROM calibration_estimate;
COMMENT ON VIEW calibration IS 'What one event of a kind costs the thread it happens on, in CPU time, by every method';
COMMENT ON COLUMN calibration.event IS 'switch (a traced thread leaves or gets a CPU), wakeup, call (of a probed function), call_expensive (of one that has no cheap instruction to probe), sample, range (NVTX, from C), range_python (the nvtx package), range_auto (a phase that was found), gil_release; names that begin with bystander_ are of programs that are not traced. Others are shown for comparison, and never subtracted';
COMMENT ON COLUMN calibration.part IS 'inside: the measured interval of the event holds it; outside: what surrounds the event holds it; NULL: both together';
COMMENT ON COLUMN calibration.method IS 'micro (a loop on this machine, see rlscope-trace calibrate); combined (that, times what it takes more where events of its kind come alone: what is subtracted)';
COMMENT ON COLUMN calibration.mean_ns IS 'Cost of one event; NULL: not measured';
COMMENT ON COLUMN calibration.stddev_ns IS 'Standard deviation of single measurements of the mean of many events';
COMMENT ON COLUMN calibration.n IS 'How many such measurements';
COMMENT ON COLUMN calibration.low_ns IS 'Start of the interval that holds the true mean with 95 % confidence';
COMMENT ON COLUMN calibration.high_ns IS 'End of it';
COMMENT ON COLUMN calibration.used IS 'Whether this is what the corrected times subtract: of the method combined';
COMMENT ON COLUMN calibration.quality IS 'What to think of it: ok, uncertain, doubtful (something contradicts it), not_measured';
COMMENT ON COLUMN calibration.code IS 'Why: a code, which --view overhead turns into a sentence; NULL: it is ok';
COMMENT ON COLUMN calibration.subject IS 'What the code is about: an event, a way of probing, a file';
COMMENT ON COLUMN calibration.detail IS 'What the OS kernel, a driver or a measurement that failed said of it';
COMMENT ON COLUMN calibration.numbers IS 'The numbers that belong to the code, in the order in which its sentence has them';
