-- How the trace was made, what it holds, and what it lacks.

CREATE TABLE meta (key VARCHAR, value VARCHAR);
COMMENT ON TABLE meta IS 'How the trace was made: one row per fact';
COMMENT ON COLUMN meta.key IS 'Name of the fact, for example schema_version, tool_version, argv, host, kernel, cpus_allowed, loader, backends, environment (versions, limits and revision of the target), environment_variables (a fixed list), probes (how fast the machine is)';
COMMENT ON COLUMN meta.value IS 'Its value as text; JSON where the fact has parts';

CREATE TABLE clock (ts_ns BIGINT, realtime_ns BIGINT, boottime_ns BIGINT);
COMMENT ON TABLE clock IS 'Instants read on three clocks at once: turns trace times into wall-clock times';
COMMENT ON COLUMN clock.ts_ns IS 'CLOCK_MONOTONIC, the clock of every other table';
COMMENT ON COLUMN clock.realtime_ns IS 'CLOCK_REALTIME: nanoseconds since 1970-01-01 UTC';
COMMENT ON COLUMN clock.boottime_ns IS 'CLOCK_BOOTTIME: as ts_ns, but also counts suspend';

CREATE TABLE coverage (
  process_id INTEGER, kind VARCHAR, measured BOOLEAN, part BOOLEAN,
  code VARCHAR, subject VARCHAR, detail VARCHAR, count BIGINT, ts_ns BIGINT, duration_ns BIGINT
);
COMMENT ON TABLE coverage IS 'What was measured, how, and why not: by process and kind of record a row for each code that says something. No row, or measured = false: it was not, so that its absence is no zero';
COMMENT ON COLUMN coverage.process_id IS 'The process; NULL: every process of the trace that has no row of its own for this kind';
COMMENT ON COLUMN coverage.kind IS 'The kind of record, named as its table: thread_state, operation, native_call, cpu_sample, wait, gil_release, other_run, cpu_quota_wait, cuda_call, gpu_activity, gpu_memory, counter, os_counter. native_call:simulator, native_call:backend and native_call:cuda_api tell of one layer; without such a row native_call tells of all. operation:python: the Python package nvtx is loaded, so that ranges count as range_python in calibration. operation:phases: an adapter of automatic phases failed, or a library has none, a row for each; not measured: a library with phases was imported, and none could be looked for. operation:ray: methods of async actors of Ray are left out, count says of how many actors';
COMMENT ON COLUMN coverage.measured IS 'Whether it was measured: the same in all rows of a process and kind';
COMMENT ON COLUMN coverage.part IS 'Whether this row says that some of it was not measured; always false where nothing was';
COMMENT ON COLUMN coverage.code IS 'How, or why not: a code, which summarize turns into a sentence; NULL: nothing to say';
COMMENT ON COLUMN coverage.subject IS 'What the code is about: a file, an option, a counter; NULL: it needs none';
COMMENT ON COLUMN coverage.detail IS 'What the OS kernel, a driver or another program said of it';
COMMENT ON COLUMN coverage.count IS 'How many, how often; of stack_switching the pid';
COMMENT ON COLUMN coverage.ts_ns IS 'Since when, or until when';
COMMENT ON COLUMN coverage.duration_ns IS 'For how long, how exactly, or how often';

CREATE TABLE trace_stat (
  kind VARCHAR, code VARCHAR, count BIGINT, first_ns BIGINT,
  cpu INTEGER, record VARCHAR, pid INTEGER, bytes BIGINT, detail VARCHAR
);
COMMENT ON TABLE trace_stat IS 'What the trace lacks: a row for every loss, none where nothing was lost';
COMMENT ON COLUMN trace_stat.kind IS 'dropped (never reached us), truncated (still open when the trace ended), unmatched (one half of a pair is missing), rate-limited, skipped (imported from a file that holds it, but a trace has no place for it)';
COMMENT ON COLUMN trace_stat.code IS 'What was lost, and where: a code, for example ring_full; summarize turns it into a sentence, and says what to do the next time';
COMMENT ON COLUMN trace_stat.count IS 'How many records; NULL: not known';
COMMENT ON COLUMN trace_stat.first_ns IS 'When the first of them was lost; NULL: not known';
COMMENT ON COLUMN trace_stat.cpu IS 'The CPU whose ring was full; NULL: another code, or of several';
COMMENT ON COLUMN trace_stat.record IS 'Which kind of record, table or category; NULL: the code tells';
COMMENT ON COLUMN trace_stat.pid IS 'The process, where it is one';
COMMENT ON COLUMN trace_stat.bytes IS 'The size of the ring, of what was not read, or of what may be written in a second';
COMMENT ON COLUMN trace_stat.detail IS 'What the OS kernel, a file or a defect of ours said of it';

CREATE TABLE os_counter (
  ts_ns BIGINT, host VARCHAR, scope VARCHAR, process_id INTEGER, cgroup VARCHAR, name VARCHAR, value BIGINT
);
COMMENT ON TABLE os_counter IS 'Readings of what the OS kernel counts, once a second: all are sums that only grow, since the process or the machine began. Of many processes a few are read at a time, in turn';
COMMENT ON COLUMN os_counter.ts_ns IS 'When it was read';
COMMENT ON COLUMN os_counter.host IS 'The machine';
COMMENT ON COLUMN os_counter.scope IS 'Of what: system, cgroup (one with a CPU quota that the first processes are in), process';
COMMENT ON COLUMN os_counter.process_id IS 'The process; NULL: it is of no process';
COMMENT ON COLUMN os_counter.cgroup IS 'The folder of the cgroup; NULL: it is of none';
COMMENT ON COLUMN os_counter.name IS 'What: memory_stall_some and memory_stall_full (ns in which some tasks, or all, stood still for lack of memory), swapped_in and swapped_out (pages), minor_faults, major_faults (page faults; major ones read a disk), quota_periods and quota_periods_throttled (how many), quota_throttled (ns that its CPUs were not allowed to run), package_energy (uJ that the CPUs of the machine used since the first reading, where RAPL tells)';
COMMENT ON COLUMN os_counter.value IS 'The reading';
