-- Calls out of Python, and why a thread waited.

CREATE TABLE site (
  site_id INTEGER, module VARCHAR, symbol VARCHAR, layer VARCHAR, file_offset BIGINT, state VARCHAR,
  probed_ns BIGINT, dropped_ns BIGINT, hits BIGINT, time_ns BIGINT,
  is_expensive BOOLEAN,
  code VARCHAR, detail VARCHAR, numbers DOUBLE[]
);
COMMENT ON TABLE site IS 'The functions that native calls entered';
COMMENT ON COLUMN site.site_id IS 'Key of this site, counted from 1';
COMMENT ON COLUMN site.module IS 'The file or package it belongs to; NULL: not known';
COMMENT ON COLUMN site.symbol IS 'Its name';
COMMENT ON COLUMN site.layer IS 'The layer it belongs to: python, simulator, backend, cuda_api';
COMMENT ON COLUMN site.file_offset IS 'Where it lies in the file of the module; NULL: not known';
COMMENT ON COLUMN site.state IS 'probed; dropped (probed until dropped_ns); not_probed; imported (from another trace)';
COMMENT ON COLUMN site.probed_ns IS 'Since when its calls were recorded; NULL: never, or imported';
COMMENT ON COLUMN site.dropped_ns IS 'Until when they were; NULL: to the end of the recording, or never';
COMMENT ON COLUMN site.hits IS 'How many calls were counted, also those whose record was lost; NULL: not counted';
COMMENT ON COLUMN site.time_ns IS 'How long the counted calls took together; NULL: not counted';
COMMENT ON COLUMN site.is_expensive IS 'Whether it has no instruction that is cheap to probe: see calibration.event call_expensive; NULL: not known';
COMMENT ON COLUMN site.code IS 'Why it was dropped, or not probed: a code, which summarize turns into a sentence; NULL: it was neither';
COMMENT ON COLUMN site.detail IS 'What the OS kernel said of it, or the library because of which probes were taken away';
COMMENT ON COLUMN site.numbers IS 'The numbers that belong to the code. Of too_expensive and too_expensive_together: seconds until it was dropped, calls, ns of one, part of the CPU time, that of all probes, the budget';

CREATE TABLE native_call_coded (
  thread_id INTEGER, start_ns BIGINT, end_ns BIGINT,
  layer LAYER, parent_layer LAYER, depth USMALLINT, site_id INTEGER, outcome CALL_OUTCOME
);
COMMENT ON TABLE native_call_coded IS 'Storage behind the view native_call, sorted by (process, thread_id, start_ns, depth); query the view';
COMMENT ON COLUMN native_call_coded.thread_id IS 'The thread';
COMMENT ON COLUMN native_call_coded.start_ns IS 'When the call was entered';
COMMENT ON COLUMN native_call_coded.end_ns IS 'When it returned, or when it was noticed that it never would';
COMMENT ON COLUMN native_call_coded.layer IS 'As in the view';
COMMENT ON COLUMN native_call_coded.parent_layer IS 'As in the view';
COMMENT ON COLUMN native_call_coded.depth IS 'How many native calls are around it: 0 is outermost';
COMMENT ON COLUMN native_call_coded.site_id IS 'What was called: site';
COMMENT ON COLUMN native_call_coded.outcome IS 'As in the view';

CREATE VIEW native_call AS
SELECT
  t.process_id, t.pid, c.thread_id, c.start_ns, c.end_ns, c.end_ns - c.start_ns AS duration_ns,
  c.layer::VARCHAR AS layer,
  c.parent_layer::VARCHAR AS parent_layer,
  c.depth, c.site_id,
  c.outcome::VARCHAR AS outcome
FROM native_call_coded AS c LEFT JOIN _thread_owner AS t ON t.thread_id = c.thread_id;
COMMENT ON VIEW native_call IS 'Calls of functions whose layer is known, properly nested on their thread';
COMMENT ON COLUMN native_call.process_id IS 'The process of the thread';
COMMENT ON COLUMN native_call.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN native_call.thread_id IS 'The thread';
COMMENT ON COLUMN native_call.start_ns IS 'When the call was entered';
COMMENT ON COLUMN native_call.end_ns IS 'When it returned, or when it was noticed that it never would';
COMMENT ON COLUMN native_call.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN native_call.layer IS 'What was entered: python, simulator, backend, cuda_api';
COMMENT ON COLUMN native_call.parent_layer IS 'Layer of the call around it; NULL: none is known';
COMMENT ON COLUMN native_call.depth IS 'How many native calls are around it: 0 is outermost';
COMMENT ON COLUMN native_call.site_id IS 'What was called: site';
COMMENT ON COLUMN native_call.outcome IS 'returned; unwound (an exception or a longjmp left it); open (still under way when the recording stopped); NULL: not known';

CREATE TABLE wait_coded (
  thread_id INTEGER, start_ns BIGINT, end_ns BIGINT, kind WAIT_KIND, lock_address BIGINT, is_mutex BOOLEAN
);
COMMENT ON TABLE wait_coded IS 'Storage behind the view wait, sorted by (process, thread_id, start_ns); query the view';
COMMENT ON COLUMN wait_coded.thread_id IS 'The thread';
COMMENT ON COLUMN wait_coded.start_ns IS 'When the wait began: the thread left the CPU';
COMMENT ON COLUMN wait_coded.end_ns IS 'When it ended: the thread was woken';
COMMENT ON COLUMN wait_coded.kind IS 'As in the view';
COMMENT ON COLUMN wait_coded.lock_address IS 'As in the view';
COMMENT ON COLUMN wait_coded.is_mutex IS 'As in the view';

CREATE VIEW wait AS
SELECT
  t.process_id, t.pid, w.thread_id, w.start_ns, w.end_ns, w.end_ns - w.start_ns AS duration_ns,
  w.kind::VARCHAR AS kind, w.lock_address, w.is_mutex
FROM wait_coded AS w LEFT JOIN _thread_owner AS t ON t.thread_id = w.thread_id;
COMMENT ON VIEW wait IS 'What a thread waited for, where that is known; waits of one thread do not overlap';
COMMENT ON COLUMN wait.process_id IS 'The process of the thread';
COMMENT ON COLUMN wait.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN wait.thread_id IS 'The thread';
COMMENT ON COLUMN wait.start_ns IS 'When the wait began';
COMMENT ON COLUMN wait.end_ns IS 'When it ended';
COMMENT ON COLUMN wait.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN wait.kind IS 'gil, gpu, io (a disk or a device), lock (a futex), pipe, socket, sleep, poll (one of several files), process (the end of a child)';
COMMENT ON COLUMN wait.lock_address IS 'Of a lock in memory its address in the process: who waits for the same one has the same; NULL: none, or not known';
COMMENT ON COLUMN wait.is_mutex IS 'Of a lock whether the OS kernel sees that one thread has it at a time, as a mutex of the C library and flock; false: it may be a signal as well (a condition, a semaphore); NULL: no lock';

CREATE TABLE python_lock (lock_address BIGINT);
COMMENT ON TABLE python_lock IS 'Locks between processes that Python made (multiprocessing.Lock, RLock, semaphores that begin with 1), where phases were looked for';
COMMENT ON COLUMN python_lock.lock_address IS 'As in wait: its address in the process that made it, and in those forked from it';

CREATE TABLE gil_release_coded (thread_id INTEGER, start_ns BIGINT, end_ns BIGINT);
COMMENT ON TABLE gil_release_coded IS 'Storage behind the view gil_release, sorted by (process, thread_id, start_ns); query the view';
COMMENT ON COLUMN gil_release_coded.thread_id IS 'The thread';
COMMENT ON COLUMN gil_release_coded.start_ns IS 'When it gave the GIL away';
COMMENT ON COLUMN gil_release_coded.end_ns IS 'When it had it again, the wait for it included';

CREATE VIEW gil_release AS
SELECT
  t.process_id, t.pid, g.thread_id, g.start_ns, g.end_ns, g.end_ns - g.start_ns AS duration_ns
FROM gil_release_coded AS g LEFT JOIN _thread_owner AS t ON t.thread_id = g.thread_id;
COMMENT ON VIEW gil_release IS 'When a thread of Python had given the GIL away; only with --gil full';
COMMENT ON COLUMN gil_release.process_id IS 'The process of the thread';
COMMENT ON COLUMN gil_release.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN gil_release.thread_id IS 'The thread';
COMMENT ON COLUMN gil_release.start_ns IS 'When it gave the GIL away';
COMMENT ON COLUMN gil_release.end_ns IS 'When it had it again, the wait for it included';
COMMENT ON COLUMN gil_release.duration_ns IS 'end_ns - start_ns';
