-- What recording cost the target, event by event, and how that is known.

CREATE TABLE calibration_measured (
  event VARCHAR, part VARCHAR, method VARCHAR, mean_ns DOUBLE, stddev_ns DOUBLE, n BIGINT,
  low_ns DOUBLE, high_ns DOUBLE, used BOOLEAN, quality VARCHAR,
  code VARCHAR, subject VARCHAR, detail VARCHAR, numbers DOUBLE[]
);
COMMENT ON TABLE calibration_measured IS 'Storage behind the view calibration: what was measured by loops on this machine (micro, program, crowded, crowded_program)';
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
COMMENT ON TABLE calibration_estimate IS 'Storage behind the view calibration: what the analysis works out from the recording itself (in_run, toggled, combined)';
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
COMMENT ON COLUMN calibration.event IS 'switch (a traced thread leaves or gets a CPU), wakeup, call (of a probed function), call_dear (of one that has no cheap instruction to probe), sample, range (NVTX, from C), range_python (the nvtx package), range_auto (a phase that was found), gil_release; names that begin with bystander_ are of programs that are not traced. Others are shown for comparison, and never subtracted';
COMMENT ON COLUMN calibration.part IS 'inside: the measured interval of the event holds it; outside: what surrounds the event holds it; NULL: both together';
COMMENT ON COLUMN calibration.method IS 'micro (a loop on this machine, see rlscope-trace calibrate); program (one run of our program in the OS kernel, in that loop, by the account of the OS kernel); crowded, crowded_program (the same two in a loop that crowds the caches); in_run (the same while this trace was recorded); toggled (probes taken away for short times of this recording); combined (what is subtracted)';
COMMENT ON COLUMN calibration.mean_ns IS 'Cost of one event (program, crowded_program, in_run: of one run of its program; a call has two); NULL: not measured';
COMMENT ON COLUMN calibration.stddev_ns IS 'Standard deviation of single measurements of the mean of many events';
COMMENT ON COLUMN calibration.n IS 'How many such measurements';
COMMENT ON COLUMN calibration.low_ns IS 'Start of the interval that holds the true mean with 95 % confidence';
COMMENT ON COLUMN calibration.high_ns IS 'End of it';
COMMENT ON COLUMN calibration.used IS 'Whether this is what the corrected times subtract: of the method combined';
COMMENT ON COLUMN calibration.quality IS 'What to think of it: ok, uncertain, doubtful (something contradicts it), not_measured';
COMMENT ON COLUMN calibration.code IS 'Why: a code, which --view overhead turns into a sentence; NULL: it is ok';
COMMENT ON COLUMN calibration.subject IS 'What the code is about: an event, a way of measuring, a file';
COMMENT ON COLUMN calibration.detail IS 'What the OS kernel, a driver or a measurement that failed said of it';
COMMENT ON COLUMN calibration.numbers IS 'The numbers that belong to the code, in the order in which its sentence has them';

CREATE TABLE calibration_window (probes VARCHAR, start_ns BIGINT, end_ns BIGINT);
COMMENT ON TABLE calibration_window IS 'Short times of the recording in which some probes were taken away, to see what they cost';
COMMENT ON COLUMN calibration_window.probes IS 'Which: samples; calls (no call is recorded that begins in it); changing (they were being taken away or brought back: neither with nor without); states, all: of benchmarks only';
COMMENT ON COLUMN calibration_window.start_ns IS 'Since when they were away';
COMMENT ON COLUMN calibration_window.end_ns IS 'Until when';

CREATE TABLE program_time (
  program VARCHAR, event VARCHAR, start_ns BIGINT, end_ns BIGINT, runs BIGINT, time_ns BIGINT
);
COMMENT ON TABLE program_time IS 'Account of the OS kernel of the recorder''s programs in it, kept for short times of the recording';
COMMENT ON COLUMN program_time.program IS 'The program, for example on_switch';
COMMENT ON COLUMN program_time.event IS 'The kind of event it belongs to: as in calibration; NULL: to none';
COMMENT ON COLUMN program_time.start_ns IS 'Start of such a time';
COMMENT ON COLUMN program_time.end_ns IS 'End of it';
COMMENT ON COLUMN program_time.runs IS 'How often the program ran, for whatever thread of the machine';
COMMENT ON COLUMN program_time.time_ns IS 'How long these runs took together';
