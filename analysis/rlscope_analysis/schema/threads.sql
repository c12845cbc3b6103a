-- Processes, threads, and what each thread did at every instant.

CREATE TABLE process (
  process_id INTEGER, host VARCHAR, pid INTEGER, parent_process_id INTEGER,
  start_ns BIGINT, end_ns BIGINT, name VARCHAR, command VARCHAR, exit_code INTEGER,
  born_ns BIGINT, title VARCHAR, python_name VARCHAR
);
COMMENT ON TABLE process IS 'The traced processes, one row per life: pids are reused, process_id is not';
COMMENT ON COLUMN process.process_id IS 'Key of this process, counted from 1 in the order processes entered the trace';
COMMENT ON COLUMN process.host IS 'Name of the machine it ran on';
COMMENT ON COLUMN process.pid IS 'Process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN process.parent_process_id IS 'The traced process that created it; NULL: created outside the trace';
COMMENT ON COLUMN process.start_ns IS 'First instant it was traced: its creation, or the attach';
COMMENT ON COLUMN process.end_ns IS 'Last instant it was traced: its end, or the end of the recording';
COMMENT ON COLUMN process.name IS 'Last name of its main thread (comm, at most 15 bytes)';
COMMENT ON COLUMN process.command IS 'Command line of its last program, arguments joined by spaces, its first 512 bytes; NULL: not known';
COMMENT ON COLUMN process.exit_code IS 'As a shell shows it: the exit status, or 128 + n if signal n killed it; NULL: still alive at the end, or not known';
COMMENT ON COLUMN process.born_ns IS 'When the kernel created it, also before the trace; NULL: not known';
COMMENT ON COLUMN process.title IS 'What ps showed of it when it was last looked at, its first 512 bytes: the command line, or what the program wrote there (setproctitle; ray::PPO); of a worker of Ray that was idle then, what it did before; NULL: it ended before anybody looked';
COMMENT ON COLUMN process.python_name IS 'What multiprocessing calls it (ForkServerProcess-1), as the process that started it reported; NULL: nobody did';

CREATE TABLE thread (
  thread_id INTEGER, process_id INTEGER, tid INTEGER,
  start_ns BIGINT, end_ns BIGINT, name VARCHAR,
  ended BOOLEAN, lost_ns BIGINT, python_name VARCHAR
);
COMMENT ON TABLE thread IS 'The traced threads, one row per life: tids are reused, thread_id is not';
COMMENT ON COLUMN thread.thread_id IS 'Key of this thread, counted from 1 in the order threads entered the trace';
COMMENT ON COLUMN thread.process_id IS 'The process it belongs to';
COMMENT ON COLUMN thread.tid IS 'Thread id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN thread.start_ns IS 'First instant its states are known: its creation, or the attach';
COMMENT ON COLUMN thread.end_ns IS 'Last instant its states are known: its end, the end of the recording, or its last record if the recorder was killed';
COMMENT ON COLUMN thread.name IS 'Last name (comm, at most 15 bytes)';
COMMENT ON COLUMN thread.ended IS 'Whether it ended inside the trace';
COMMENT ON COLUMN thread.lost_ns IS 'Part of its lifetime whose records were lost: lifetime = running + runnable + sleeping + blocked + lost_ns, to the nanosecond';
COMMENT ON COLUMN thread.python_name IS 'What Python calls it (threading.Thread.name), as the thread that started it reported; NULL: nobody did';

CREATE VIEW _thread_owner AS
SELECT t.thread_id, t.process_id, p.pid
FROM thread AS t LEFT JOIN process AS p ON p.process_id = t.process_id;
COMMENT ON VIEW _thread_owner IS 'Private: may change without notice. The process of each thread, for views of intervals: one join instead of two';
COMMENT ON COLUMN _thread_owner.thread_id IS 'The thread';
COMMENT ON COLUMN _thread_owner.process_id IS 'The process it belongs to';
COMMENT ON COLUMN _thread_owner.pid IS 'The process id of that';

CREATE TABLE thread_state_coded (
  thread_id INTEGER, start_ns BIGINT, end_ns BIGINT,
  state THREAD_STATE, cpu SMALLINT, waker_kind WAKER_KIND, waker_thread_id INTEGER
);
COMMENT ON TABLE thread_state_coded IS 'Storage behind the view thread_state, sorted by (process, thread_id, start_ns); query the view';
COMMENT ON COLUMN thread_state_coded.thread_id IS 'The thread';
COMMENT ON COLUMN thread_state_coded.start_ns IS 'Start of the interval';
COMMENT ON COLUMN thread_state_coded.end_ns IS 'End of the interval';
COMMENT ON COLUMN thread_state_coded.state IS 'As in the view';
COMMENT ON COLUMN thread_state_coded.cpu IS 'CPU of a running interval, -1 for the others';
COMMENT ON COLUMN thread_state_coded.waker_kind IS 'As in the view';
COMMENT ON COLUMN thread_state_coded.waker_thread_id IS 'As in the view';

CREATE VIEW thread_state AS
SELECT
  t.process_id, t.pid, s.thread_id, s.start_ns, s.end_ns, s.end_ns - s.start_ns AS duration_ns,
  s.state::VARCHAR AS state,
  CASE WHEN s.cpu >= 0 THEN s.cpu END AS cpu,
  s.waker_thread_id, s.waker_kind::VARCHAR AS waker_kind
FROM thread_state_coded AS s LEFT JOIN _thread_owner AS t ON t.thread_id = s.thread_id;
COMMENT ON VIEW thread_state IS 'What each thread did at every instant: consecutive intervals that tile its lifetime, less thread.lost_ns';
COMMENT ON COLUMN thread_state.process_id IS 'The process of the thread';
COMMENT ON COLUMN thread_state.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN thread_state.thread_id IS 'The thread';
COMMENT ON COLUMN thread_state.start_ns IS 'Start of the interval';
COMMENT ON COLUMN thread_state.end_ns IS 'End of the interval';
COMMENT ON COLUMN thread_state.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN thread_state.state IS 'running (on a CPU), runnable (waits for a CPU: run-queue latency), sleeping (S: waits and can be interrupted; also stopped), blocked (D: uninterruptible)';
COMMENT ON COLUMN thread_state.cpu IS 'The CPU of a running interval; NULL for the others';
COMMENT ON COLUMN thread_state.waker_thread_id IS 'On a runnable interval: the traced thread whose wakeup began it; NULL: see waker_kind';
COMMENT ON COLUMN thread_state.waker_kind IS 'Who began a runnable interval: thread (a traced one), timer, device (also the network), interrupt (one of them: this capture cannot tell), outside (a thread outside the trace), unknown (this capture cannot tell); NULL: nobody, it was preempted';

CREATE TABLE other_program (program_id INTEGER, pid INTEGER, name VARCHAR);
COMMENT ON TABLE other_program IS 'Programs outside the trace that had a CPU while a traced thread waited for it; threads of the OS kernel (kworker, ksoftirqd) are programs, too';
COMMENT ON COLUMN other_program.program_id IS 'Key of this program, counted from 1';
COMMENT ON COLUMN other_program.pid IS 'Its process id on the machine (the initial pid namespace)';
COMMENT ON COLUMN other_program.name IS 'Name of its main thread (comm, at most 15 bytes); a process that takes another name is another row';

CREATE TABLE other_run_coded (
  cpu SMALLINT, start_ns BIGINT, end_ns BIGINT, program_id INTEGER
);
COMMENT ON TABLE other_run_coded IS 'Storage behind the view other_run, sorted by (cpu, start_ns); query the view';
COMMENT ON COLUMN other_run_coded.cpu IS 'The CPU';
COMMENT ON COLUMN other_run_coded.start_ns IS 'When the program got it, whether anybody waited by then or not';
COMMENT ON COLUMN other_run_coded.end_ns IS 'When it left it to another';
COMMENT ON COLUMN other_run_coded.program_id IS 'The program: other_program';

CREATE VIEW other_run AS
SELECT cpu, start_ns, end_ns, end_ns - start_ns AS duration_ns, program_id FROM other_run_coded;
COMMENT ON VIEW other_run IS 'When a program outside the trace had a CPU, as far as a traced thread that got this CPU later was runnable before the end';
COMMENT ON COLUMN other_run.cpu IS 'The CPU';
COMMENT ON COLUMN other_run.start_ns IS 'When the program got it, whether anybody waited by then or not';
COMMENT ON COLUMN other_run.end_ns IS 'When it left it to another';
COMMENT ON COLUMN other_run.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN other_run.program_id IS 'The program: other_program';

CREATE TABLE cpu_quota_wait_coded (thread_id INTEGER, ts_ns BIGINT);
COMMENT ON TABLE cpu_quota_wait_coded IS 'Storage behind the view cpu_quota_wait, sorted by (process, thread_id, ts_ns); query the view';
COMMENT ON COLUMN cpu_quota_wait_coded.thread_id IS 'The thread';
COMMENT ON COLUMN cpu_quota_wait_coded.ts_ns IS 'When it began to wait';

CREATE VIEW cpu_quota_wait AS
SELECT t.process_id, t.pid, q.thread_id, q.ts_ns
FROM cpu_quota_wait_coded AS q LEFT JOIN _thread_owner AS t ON t.thread_id = q.thread_id;
COMMENT ON VIEW cpu_quota_wait IS 'When threads began to wait for a CPU because the CPU quota of their cgroup was used up: the runnable interval of thread_state that begins there';
COMMENT ON COLUMN cpu_quota_wait.process_id IS 'The process of the thread';
COMMENT ON COLUMN cpu_quota_wait.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN cpu_quota_wait.thread_id IS 'The thread';
COMMENT ON COLUMN cpu_quota_wait.ts_ns IS 'When it began to wait';

CREATE TABLE early_message (
  thread_id INTEGER, read_ns BIGINT, sent_ns BIGINT, sender_thread_id INTEGER, channel VARCHAR
);
COMMENT ON TABLE early_message IS 'Messages that came while their reader waited for a CPU, or asked for them in a loop, so that it never slept for them, sorted by (process, thread_id, read_ns); coverage says of which channels they were recorded';
COMMENT ON COLUMN early_message.thread_id IS 'The thread that read it';
COMMENT ON COLUMN early_message.read_ns IS 'When it had read it, or the first part of it';
COMMENT ON COLUMN early_message.sent_ns IS 'When it had been sent: the first one after all before had been read';
COMMENT ON COLUMN early_message.sender_thread_id IS 'The thread that sent it';
COMMENT ON COLUMN early_message.channel IS 'pipe, socket';
