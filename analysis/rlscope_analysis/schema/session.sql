-- How the trace was made, what it holds, and what it lacks.

CREATE TABLE meta (key VARCHAR, value VARCHAR);
COMMENT ON TABLE meta IS 'How the trace was made: one row per fact';
COMMENT ON COLUMN meta.key IS 'Name of the fact, for example schema_version, tool_version, argv, host, kernel, cpus_allowed, loader, ladder';
COMMENT ON COLUMN meta.value IS 'Its value as text; JSON where the fact has parts';

CREATE TABLE clock (ts_ns BIGINT, realtime_ns BIGINT, boottime_ns BIGINT);
COMMENT ON TABLE clock IS 'Instants read on three clocks at once: turns trace times into wall-clock times';
COMMENT ON COLUMN clock.ts_ns IS 'CLOCK_MONOTONIC, the clock of every other table';
COMMENT ON COLUMN clock.realtime_ns IS 'CLOCK_REALTIME: nanoseconds since 1970-01-01 UTC';
COMMENT ON COLUMN clock.boottime_ns IS 'CLOCK_BOOTTIME: as ts_ns, but also counts suspend';

CREATE TABLE capture (process_id INTEGER, kind VARCHAR, measured BOOLEAN, reason VARCHAR);
COMMENT ON TABLE capture IS 'What was measured: a row per process and kind of record. No row, or measured = false: it was not, so that its absence is no zero';
COMMENT ON COLUMN capture.process_id IS 'The process; NULL: every process of the trace that has no row of its own for this kind';
COMMENT ON COLUMN capture.kind IS 'The kind of record, named as its table: thread_state, operation, native_call, cpu_sample, wait, gil_release, cuda_call, gpu_activity, gpu_memory, counter. native_call:simulator, native_call:backend and native_call:cuda_api tell of one layer; without such a row native_call tells of all. operation:python: the Python package nvtx is loaded, so that ranges count as range_python in calibration';
COMMENT ON COLUMN capture.measured IS 'Whether it was measured';
COMMENT ON COLUMN capture.reason IS 'How, or why not; begins with "in part: " where some of it was not; NULL: nothing to say';

CREATE TABLE trace_stat (kind VARCHAR, source VARCHAR, count BIGINT, first_ns BIGINT, remedy VARCHAR);
COMMENT ON TABLE trace_stat IS 'What the trace lacks: a row for every loss, none where nothing was lost';
COMMENT ON COLUMN trace_stat.kind IS 'dropped (never reached us), truncated (still open when the trace ended), unmatched (one half of a pair is missing), rate-limited, skipped (imported from a file that holds it, but a trace has no place for it)';
COMMENT ON COLUMN trace_stat.source IS 'Where, for example: ring cpu 3 cycle';
COMMENT ON COLUMN trace_stat.count IS 'How many records';
COMMENT ON COLUMN trace_stat.first_ns IS 'When the first of them was lost; NULL: not known';
COMMENT ON COLUMN trace_stat.remedy IS 'What to do about it the next time';
