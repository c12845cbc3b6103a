-- CUDA and HIP: calls on the CPU, activity on the GPU.

CREATE TABLE string (string_id INTEGER, value VARCHAR);
COMMENT ON TABLE string IS 'Names that occur often, stored once';
COMMENT ON COLUMN string.string_id IS 'Key of this name, counted from 1';
COMMENT ON COLUMN string.value IS 'The name';

CREATE TABLE gpu_device (
  host VARCHAR, device_id INTEGER, name VARCHAR, uuid VARCHAR,
  memory_bytes BIGINT, multiprocessors INTEGER, compute_capability VARCHAR,
  clock_hz BIGINT, memory_bandwidth BIGINT
);
COMMENT ON TABLE gpu_device IS 'The GPUs that the traced processes could use';
COMMENT ON COLUMN gpu_device.host IS 'The machine it is in; NULL: not known';
COMMENT ON COLUMN gpu_device.device_id IS 'Its number in this trace: as the program counts, or the next free one where programs count differently';
COMMENT ON COLUMN gpu_device.name IS 'Model';
COMMENT ON COLUMN gpu_device.uuid IS 'Identity of the device or of its MIG instance; NULL: not known';
COMMENT ON COLUMN gpu_device.memory_bytes IS 'Size of its memory; NULL: not known';
COMMENT ON COLUMN gpu_device.multiprocessors IS 'Streaming multiprocessors or compute units; NULL: not known';
COMMENT ON COLUMN gpu_device.compute_capability IS 'For example 9.0; NULL: not known';
COMMENT ON COLUMN gpu_device.clock_hz IS 'The highest clock of its multiprocessors, in cycles a second; NULL: not known';
COMMENT ON COLUMN gpu_device.memory_bandwidth IS 'The most that its memory can move, in bytes a second; NULL: not known';

CREATE TABLE cuda_call_coded (
  thread_id INTEGER, start_ns BIGINT, end_ns BIGINT,
  kind CUDA_CALL_KIND, name_id INTEGER, correlation_id BIGINT
);
COMMENT ON TABLE cuda_call_coded IS 'Storage behind the view cuda_call, sorted by (process, thread_id, start_ns); query the view';
COMMENT ON COLUMN cuda_call_coded.thread_id IS 'The thread';
COMMENT ON COLUMN cuda_call_coded.start_ns IS 'When the call was entered';
COMMENT ON COLUMN cuda_call_coded.end_ns IS 'When it returned';
COMMENT ON COLUMN cuda_call_coded.kind IS 'As in the view';
COMMENT ON COLUMN cuda_call_coded.name_id IS 'Name of the function: string';
COMMENT ON COLUMN cuda_call_coded.correlation_id IS 'Which GPU activity it caused, within its process; NULL: none is known';

CREATE VIEW cuda_call AS
SELECT
  t.process_id, t.pid, c.thread_id, c.start_ns, c.end_ns, c.end_ns - c.start_ns AS duration_ns,
  c.kind::VARCHAR AS kind,
  s.value AS name, c.correlation_id
FROM cuda_call_coded AS c
LEFT JOIN string AS s ON s.string_id = c.name_id
LEFT JOIN _thread_owner AS t ON t.thread_id = c.thread_id;
COMMENT ON VIEW cuda_call IS 'Calls of the CUDA or HIP runtime and driver';
COMMENT ON COLUMN cuda_call.process_id IS 'The process of the thread';
COMMENT ON COLUMN cuda_call.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN cuda_call.thread_id IS 'The thread';
COMMENT ON COLUMN cuda_call.start_ns IS 'When the call was entered';
COMMENT ON COLUMN cuda_call.end_ns IS 'When it returned';
COMMENT ON COLUMN cuda_call.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN cuda_call.kind IS 'launch, memcpy, memset, sync (it waits for the GPU), memory (it allocates or frees), graph (it launches a graph), other';
COMMENT ON COLUMN cuda_call.name IS 'Name of the function';
COMMENT ON COLUMN cuda_call.correlation_id IS 'Which GPU activity it caused, within its process; NULL: none is known';

CREATE TABLE gpu_activity_coded (
  process_id INTEGER, device_id INTEGER, context_id BIGINT, stream_id BIGINT,
  start_ns BIGINT, end_ns BIGINT, kind GPU_ACTIVITY_KIND, name_id INTEGER,
  correlation_id BIGINT, graph_id BIGINT, bytes BIGINT, peer_device_id INTEGER
);
COMMENT ON TABLE gpu_activity_coded IS 'Storage behind the view gpu_activity, sorted by (process_id, start_ns); query the view';
COMMENT ON COLUMN gpu_activity_coded.process_id IS 'The process that caused it';
COMMENT ON COLUMN gpu_activity_coded.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN gpu_activity_coded.context_id IS 'CUDA context; NULL: not known';
COMMENT ON COLUMN gpu_activity_coded.stream_id IS 'CUDA stream; NULL: not known';
COMMENT ON COLUMN gpu_activity_coded.start_ns IS 'When the GPU began';
COMMENT ON COLUMN gpu_activity_coded.end_ns IS 'When the GPU had finished';
COMMENT ON COLUMN gpu_activity_coded.kind IS 'As in the view';
COMMENT ON COLUMN gpu_activity_coded.name_id IS 'Name of the kernel or of the kind of copy: string';
COMMENT ON COLUMN gpu_activity_coded.correlation_id IS 'The call that caused it, within its process; NULL: none is known';
COMMENT ON COLUMN gpu_activity_coded.graph_id IS 'CUDA graph it was launched by; NULL: none, or not known';
COMMENT ON COLUMN gpu_activity_coded.bytes IS 'Bytes copied or set; NULL: not applicable';
COMMENT ON COLUMN gpu_activity_coded.peer_device_id IS 'Of a copy between GPUs, the one that it went to: gpu_device; NULL: not applicable, or not known';

CREATE VIEW gpu_activity AS
SELECT
  a.process_id, p.pid, a.device_id, a.context_id, a.stream_id,
  a.start_ns, a.end_ns, a.end_ns - a.start_ns AS duration_ns,
  a.kind::VARCHAR AS kind,
  s.value AS name, a.correlation_id, a.graph_id, a.bytes, a.peer_device_id
FROM gpu_activity_coded AS a
LEFT JOIN string AS s ON s.string_id = a.name_id
LEFT JOIN process AS p ON p.process_id = a.process_id;
COMMENT ON VIEW gpu_activity IS 'What the GPUs did. Activities may overlap, also on one stream: their sum is not busy time, see gpu_busy';
COMMENT ON COLUMN gpu_activity.process_id IS 'The process that caused it';
COMMENT ON COLUMN gpu_activity.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN gpu_activity.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN gpu_activity.context_id IS 'CUDA context; NULL: not known';
COMMENT ON COLUMN gpu_activity.stream_id IS 'CUDA stream; NULL: not known';
COMMENT ON COLUMN gpu_activity.start_ns IS 'When the GPU began';
COMMENT ON COLUMN gpu_activity.end_ns IS 'When the GPU had finished';
COMMENT ON COLUMN gpu_activity.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN gpu_activity.kind IS 'kernel, memcpy, memset, graph (a whole graph, recorded as one), sync (a stream waits: the GPU does not work)';
COMMENT ON COLUMN gpu_activity.name IS 'Name of the kernel or of the kind of copy';
COMMENT ON COLUMN gpu_activity.correlation_id IS 'The call that caused it, within its process; NULL: none is known';
COMMENT ON COLUMN gpu_activity.graph_id IS 'CUDA graph it was launched by; NULL: none, or not known';
COMMENT ON COLUMN gpu_activity.bytes IS 'Bytes copied or set; NULL: not applicable';
COMMENT ON COLUMN gpu_activity.peer_device_id IS 'Of a copy between GPUs, the one that it went to: gpu_device; NULL: not applicable, or not known';

CREATE TABLE gpu_event_wait (
  process_id INTEGER, correlation_id BIGINT, device_id INTEGER, stream_id BIGINT,
  event_stream_id BIGINT, event_correlation_id BIGINT
);
COMMENT ON TABLE gpu_event_wait IS 'Waits for an event that a stream had recorded; of traces of the PyTorch profiler';
COMMENT ON COLUMN gpu_event_wait.process_id IS 'The process';
COMMENT ON COLUMN gpu_event_wait.correlation_id IS 'The call that waits, or lets a stream wait, within the process; NULL: not known';
COMMENT ON COLUMN gpu_event_wait.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN gpu_event_wait.stream_id IS 'The CUDA stream that waits; NULL: none, the thread does';
COMMENT ON COLUMN gpu_event_wait.event_stream_id IS 'The CUDA stream that recorded the event; NULL: not known';
COMMENT ON COLUMN gpu_event_wait.event_correlation_id IS 'The call that recorded the event, within the process';

CREATE TABLE gpu_collective_coded (
  collective_id BIGINT, name_id INTEGER, process_group_id INTEGER, sequence BIGINT,
  process_id INTEGER, device_id INTEGER, stream_id BIGINT, start_ns BIGINT, end_ns BIGINT,
  correlation_id BIGINT
);
COMMENT ON TABLE gpu_collective_coded IS 'Storage behind the view gpu_collective; query the view';
COMMENT ON COLUMN gpu_collective_coded.collective_id IS 'As in the view';
COMMENT ON COLUMN gpu_collective_coded.name_id IS 'What it does: string';
COMMENT ON COLUMN gpu_collective_coded.process_group_id IS 'Name of the process group: string';
COMMENT ON COLUMN gpu_collective_coded.sequence IS 'As in the view';
COMMENT ON COLUMN gpu_collective_coded.process_id IS 'The process';
COMMENT ON COLUMN gpu_collective_coded.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN gpu_collective_coded.stream_id IS 'CUDA stream; NULL: not known';
COMMENT ON COLUMN gpu_collective_coded.start_ns IS 'When its GPU began';
COMMENT ON COLUMN gpu_collective_coded.end_ns IS 'When its GPU had finished';
COMMENT ON COLUMN gpu_collective_coded.correlation_id IS 'As in the view';

CREATE VIEW gpu_collective AS
SELECT
  c.collective_id, n.value AS name, g.value AS process_group, c.sequence,
  c.process_id, p.pid, c.device_id, c.stream_id,
  c.start_ns, c.end_ns, c.end_ns - c.start_ns AS duration_ns, c.correlation_id
FROM gpu_collective_coded AS c
LEFT JOIN string AS n ON n.string_id = c.name_id
LEFT JOIN string AS g ON g.string_id = c.process_group_id
LEFT JOIN process AS p ON p.process_id = c.process_id;
COMMENT ON VIEW gpu_collective IS 'Collectives in which every process waits for all others, where all of them are in the trace; of traces of the PyTorch profiler';
COMMENT ON COLUMN gpu_collective.collective_id IS 'One for all activities of one collective, of each process one';
COMMENT ON COLUMN gpu_collective.name IS 'What it does, as PyTorch calls it, for example allreduce';
COMMENT ON COLUMN gpu_collective.process_group IS 'Name of the process group';
COMMENT ON COLUMN gpu_collective.sequence IS 'Which collective of its process group it is, from 1';
COMMENT ON COLUMN gpu_collective.process_id IS 'The process';
COMMENT ON COLUMN gpu_collective.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN gpu_collective.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN gpu_collective.stream_id IS 'CUDA stream; NULL: not known';
COMMENT ON COLUMN gpu_collective.start_ns IS 'When its GPU began';
COMMENT ON COLUMN gpu_collective.end_ns IS 'When its GPU had finished';
COMMENT ON COLUMN gpu_collective.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN gpu_collective.correlation_id IS 'The call that caused it, within its process; NULL: none is known';

CREATE TABLE gpu_status (
  process_id INTEGER, ts_ns BIGINT, state VARCHAR, reason VARCHAR, subject VARCHAR, code INTEGER,
  library VARCHAR, api_version INTEGER, driver_version INTEGER,
  recorded VARCHAR, refused VARCHAR, is_late BOOLEAN, clock VARCHAR
);
COMMENT ON TABLE gpu_status IS 'How the recording of GPU activity went: a row for each process that initialised CUDA, and one more when that changed';
COMMENT ON COLUMN gpu_status.process_id IS 'The process';
COMMENT ON COLUMN gpu_status.ts_ns IS 'When it was reported';
COMMENT ON COLUMN gpu_status.state IS 'on; off: not asked for, or left to another tool; refused: it was tried';
COMMENT ON COLUMN gpu_status.reason IS 'Why not, or not all of it: a code as in coverage; NULL: nothing to say';
COMMENT ON COLUMN gpu_status.subject IS 'What the reason is about: the call of CUPTI that failed, a file, a function, the profiler that holds CUPTI; NULL: it needs none';
COMMENT ON COLUMN gpu_status.code IS 'What the call that failed returned; NULL: none failed';
COMMENT ON COLUMN gpu_status.library IS 'The libcupti that was used; NULL: none was found';
COMMENT ON COLUMN gpu_status.api_version IS 'Its version, for example 130001; NULL: not known';
COMMENT ON COLUMN gpu_status.driver_version IS 'CUDA version of the driver, for example 13000; NULL: not known';
COMMENT ON COLUMN gpu_status.recorded IS 'Kinds of CUPTI records that are recorded, with commas';
COMMENT ON COLUMN gpu_status.refused IS 'Kinds that were asked for and refused, with commas; NULL: none';
COMMENT ON COLUMN gpu_status.is_late IS 'Whether the process had run before its GPU activity was recorded';
COMMENT ON COLUMN gpu_status.clock IS 'monotonic: CUPTI took the clock of the trace; converted: its own was converted, by the pairs of readings that were taken';

CREATE TABLE gpu_overhead (process_id INTEGER, thread_id INTEGER, start_ns BIGINT, end_ns BIGINT, kind VARCHAR);
COMMENT ON TABLE gpu_overhead IS 'Time that CUPTI took for itself, as far as it tells: rare and long intervals, not what each record costs';
COMMENT ON COLUMN gpu_overhead.process_id IS 'The process';
COMMENT ON COLUMN gpu_overhead.thread_id IS 'The thread; NULL: it belongs to none, or that is not known';
COMMENT ON COLUMN gpu_overhead.start_ns IS 'When it began';
COMMENT ON COLUMN gpu_overhead.end_ns IS 'When it ended';
COMMENT ON COLUMN gpu_overhead.kind IS 'buffer_flush, instrumentation, resource, runtime_module_load, lazy_function_load, command_buffer_full, buffer_request, uvm_init, other';

CREATE TABLE gpu_memory (
  process_id INTEGER, device_id INTEGER, context_id BIGINT, ts_ns BIGINT,
  operation VARCHAR, kind VARCHAR, bytes BIGINT, address UBIGINT, correlation_id BIGINT
);
COMMENT ON TABLE gpu_memory IS 'Memory that programs allocated and freed, of which a framework hands out parts on its own; recorded on request (--cuda-memory)';
COMMENT ON COLUMN gpu_memory.process_id IS 'The process';
COMMENT ON COLUMN gpu_memory.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN gpu_memory.context_id IS 'CUDA context; NULL: not known';
COMMENT ON COLUMN gpu_memory.ts_ns IS 'When';
COMMENT ON COLUMN gpu_memory.operation IS 'allocate, free';
COMMENT ON COLUMN gpu_memory.kind IS 'pageable, pinned, device, array, managed, device_static, managed_static, other';
COMMENT ON COLUMN gpu_memory.bytes IS 'How much';
COMMENT ON COLUMN gpu_memory.address IS 'Where: what ties a free to its allocation';
COMMENT ON COLUMN gpu_memory.correlation_id IS 'The call, within its process; NULL: none is known';

CREATE TABLE gpu_stream (process_id INTEGER, device_id INTEGER, context_id BIGINT, stream_id BIGINT, name VARCHAR);
COMMENT ON TABLE gpu_stream IS 'Contexts and streams that programs made, and what they call these and their GPUs by NVTX';
COMMENT ON COLUMN gpu_stream.process_id IS 'The process';
COMMENT ON COLUMN gpu_stream.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN gpu_stream.context_id IS 'CUDA context; NULL: the row tells of the GPU';
COMMENT ON COLUMN gpu_stream.stream_id IS 'CUDA stream; NULL: the row tells of the context, or the GPU';
COMMENT ON COLUMN gpu_stream.name IS 'What the program calls it; NULL: it gave no name';

CREATE TABLE counter (
  ts_ns BIGINT, host VARCHAR, uuid VARCHAR, device_id INTEGER, name VARCHAR, value DOUBLE
);
COMMENT ON TABLE counter IS 'Readings of what the machine says about its GPUs (NVML), whoever uses them';
COMMENT ON COLUMN counter.ts_ns IS 'When it was read; of utilization, the end of the period it tells of';
COMMENT ON COLUMN counter.host IS 'The machine';
COMMENT ON COLUMN counter.uuid IS 'The GPU, or its MIG instance';
COMMENT ON COLUMN counter.device_id IS 'Its number in NVML and nvidia-smi, which a program may count differently: gpu_device has the uuid too';
COMMENT ON COLUMN counter.name IS 'What: utilization_gpu and utilization_memory (percent), sm_clock (MHz), sm_clock_max (MHz, the highest that there is; read once), memory_used (bytes), power (W), energy (J, since the driver was loaded), throttle_reasons (bits), sm_activity (percent, where GPM is allowed)';
COMMENT ON COLUMN counter.value IS 'The reading';
