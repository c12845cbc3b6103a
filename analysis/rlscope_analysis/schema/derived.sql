-- What the overlap engine computed from the tables above, stored so that SQL needs no native code.
-- Written when the trace is made; a trace without it gets it for the time of a connection.

CREATE TABLE thread_overlap_coded (
  thread_id INTEGER, path_id INTEGER,
  state THREAD_STATE, layer LAYER, wait WAIT_KIND, gpu BOOLEAN,
  time_ns BIGINT, count BIGINT, first_ns BIGINT, last_ns BIGINT
);
COMMENT ON TABLE thread_overlap_coded IS 'Storage behind the view breakdown: the time of each thread by operation path, state, layer, wait and GPU. The rows of a thread add up to its lifetime';
COMMENT ON COLUMN thread_overlap_coded.thread_id IS 'The thread';
COMMENT ON COLUMN thread_overlap_coded.path_id IS 'The stack of open operations: operation_path; 0: none is open';
COMMENT ON COLUMN thread_overlap_coded.state IS 'running, runnable, sleeping, blocked, lost; NULL: not measured';
COMMENT ON COLUMN thread_overlap_coded.layer IS 'The innermost known call: python, simulator, backend, cuda_api, spin, other; NULL: inside none';
COMMENT ON COLUMN thread_overlap_coded.wait IS 'As wait.kind; NULL: none is known';
COMMENT ON COLUMN thread_overlap_coded.gpu IS 'Whether a GPU worked for the process; NULL: not measured';
COMMENT ON COLUMN thread_overlap_coded.time_ns IS 'How long all of this was so';
COMMENT ON COLUMN thread_overlap_coded.count IS 'In how many intervals';
COMMENT ON COLUMN thread_overlap_coded.first_ns IS 'Start of the first interval';
COMMENT ON COLUMN thread_overlap_coded.last_ns IS 'End of the last interval';

CREATE TABLE transition_coded (
  thread_id INTEGER, path_id INTEGER, is_probed BOOLEAN, from_layer LAYER, to_layer LAYER,
  count BIGINT
);
COMMENT ON TABLE transition_coded IS 'Storage behind the view transitions: how often a call entered one layer from another';
COMMENT ON COLUMN transition_coded.thread_id IS 'The thread';
COMMENT ON COLUMN transition_coded.path_id IS 'The stack of open operations: operation_path; 0: none is open';
COMMENT ON COLUMN transition_coded.is_probed IS 'Whether all calls into that layer were recorded since the innermost operation (outside any: the thread) began';
COMMENT ON COLUMN transition_coded.from_layer IS 'Layer that called, as in thread_overlap_coded; NULL: no known call';
COMMENT ON COLUMN transition_coded.to_layer IS 'Layer that was entered, a different one';
COMMENT ON COLUMN transition_coded.count IS 'How often';

CREATE TABLE sample_count_coded (
  thread_id INTEGER, path_id INTEGER, call_layer LAYER, gpu BOOLEAN,
  layer LAYER, count BIGINT
);
COMMENT ON TABLE sample_count_coded IS 'How many samples of each thread fell where: the base of layer_estimate_coded';
COMMENT ON COLUMN sample_count_coded.thread_id IS 'The thread';
COMMENT ON COLUMN sample_count_coded.path_id IS 'The stack of operations that was open: operation_path; 0: none';
COMMENT ON COLUMN sample_count_coded.call_layer IS 'Layer of the innermost known call they fell into; NULL: none, so that they tell of time that no call covers';
COMMENT ON COLUMN sample_count_coded.gpu IS 'As in thread_overlap_coded';
COMMENT ON COLUMN sample_count_coded.layer IS 'What they found: as in cpu_sample';
COMMENT ON COLUMN sample_count_coded.count IS 'How many';

CREATE TABLE layer_estimate_coded (
  thread_id INTEGER, path_id INTEGER, call_layer LAYER, gpu BOOLEAN,
  layer LAYER, time_ns BIGINT, stderr_ns DOUBLE, samples BIGINT, method ESTIMATE_METHOD
);
COMMENT ON TABLE layer_estimate_coded IS 'Time on a CPU split among the layers by the samples that fell into it. Of each thread, path, call_layer and gpu the rows add up to the running time in thread_overlap_coded';
COMMENT ON COLUMN layer_estimate_coded.thread_id IS 'The thread';
COMMENT ON COLUMN layer_estimate_coded.path_id IS 'The stack of open operations: operation_path; 0: none';
COMMENT ON COLUMN layer_estimate_coded.call_layer IS 'Layer of the known call that the time was in: backend, of which only spin is distinguished; NULL: none';
COMMENT ON COLUMN layer_estimate_coded.gpu IS 'As in thread_overlap_coded';
COMMENT ON COLUMN layer_estimate_coded.layer IS 'As in cpu_sample; NULL: the part whose samples are of no known layer';
COMMENT ON COLUMN layer_estimate_coded.time_ns IS 'Its part of the time';
COMMENT ON COLUMN layer_estimate_coded.stderr_ns IS 'Standard error of time_ns';
COMMENT ON COLUMN layer_estimate_coded.samples IS 'How many samples all the shares of this time are from';
COMMENT ON COLUMN layer_estimate_coded.method IS 'own (samples of this very time); where it has none, those of: path (GPU at work or not), operation (any stack with this innermost operation, in the process), thread, process';

CREATE TABLE overlap_fault (relation VARCHAR, fault VARCHAR, count BIGINT);
COMMENT ON TABLE overlap_fault IS 'Rows of other tables that were not as the schema promises when the overlaps were worked out; no row: all were';
COMMENT ON COLUMN overlap_fault.relation IS 'The table';
COMMENT ON COLUMN overlap_fault.fault IS 'outside the lifetime of their thread (left out); clipped to it; reversed: ended before they started (left out); crossing: ended after what they are inside of (the one opened last owns the time); unknown_thread (left out); no_lifetime: thread without start or end (left out); disordered: not stored in order (sorted)';
COMMENT ON COLUMN overlap_fault.count IS 'How many rows';

CREATE TABLE active_set (
  kind VARCHAR, process_id INTEGER, operation VARCHAR, members VARCHAR[],
  time_ns BIGINT, count BIGINT, first_ns BIGINT, last_ns BIGINT
);
COMMENT ON TABLE active_set IS 'Storage behind resource_overlap, operation_overlap and process_overlap: for how long exactly these were active together';
COMMENT ON COLUMN active_set.kind IS 'resource, operation or process: what the members are';
COMMENT ON COLUMN active_set.process_id IS 'The process; NULL: all of the trace together';
COMMENT ON COLUMN active_set.operation IS 'Innermost operation of the leading thread of the process; NULL where kind is not resource';
COMMENT ON COLUMN active_set.members IS 'What was active at once, sorted; empty: nothing was; NULL: all sets that are not listed, together';
COMMENT ON COLUMN active_set.time_ns IS 'How long exactly this set was active';
COMMENT ON COLUMN active_set.count IS 'In how many intervals; NULL: many sets together';
COMMENT ON COLUMN active_set.first_ns IS 'Start of the first interval';
COMMENT ON COLUMN active_set.last_ns IS 'End of the last interval';

CREATE TABLE probe_hits_coded (
  thread_id INTEGER, path_id INTEGER, layer LAYER, gpu BOOLEAN,
  event PROBE_EVENT, inside BOOLEAN, hits BIGINT
);
COMMENT ON TABLE probe_hits_coded IS 'Storage behind the view probe_hits: how many events with a cost fell on each thread, operation and layer while it ran';
COMMENT ON COLUMN probe_hits_coded.thread_id IS 'The thread';
COMMENT ON COLUMN probe_hits_coded.path_id IS 'The stack of open operations: operation_path; 0: none';
COMMENT ON COLUMN probe_hits_coded.layer IS 'Layer of the innermost known call there; NULL: none';
COMMENT ON COLUMN probe_hits_coded.gpu IS 'As in thread_overlap_coded';
COMMENT ON COLUMN probe_hits_coded.event IS 'Kind of event: as in the view';
COMMENT ON COLUMN probe_hits_coded.inside IS 'Whether it is the part inside the interval of the event that is paid here';
COMMENT ON COLUMN probe_hits_coded.hits IS 'How many';
