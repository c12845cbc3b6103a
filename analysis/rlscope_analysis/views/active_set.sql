-- What was active at the same time: RL-Scope's overlaps of resources, operations and processes.
CREATE OR REPLACE VIEW resource_overlap AS
SELECT process_id, operation, members AS resources, time_ns, count, first_ns, last_ns
FROM active_set WHERE kind = 'resource';
COMMENT ON VIEW resource_overlap IS 'For how long exactly these resources worked for a process at once, by operation of its leading thread; time in which nothing did is the row with no resource';
COMMENT ON COLUMN resource_overlap.process_id IS 'The process';
COMMENT ON COLUMN resource_overlap.operation IS 'Innermost operation of the leading thread, the one with the most time in operations; (unannotated): none was open';
COMMENT ON COLUMN resource_overlap.resources IS 'Sorted: cpu (a thread was on a CPU), python, simulator, backend, cuda_api (a thread was inside such a call), gpu (a GPU worked); what was not measured is in no set: see coverage';
COMMENT ON COLUMN resource_overlap.time_ns IS 'How long exactly this set was active; the rows of a process add up to its lifetime';
COMMENT ON COLUMN resource_overlap.count IS 'In how many intervals; NULL: many sets together';
COMMENT ON COLUMN resource_overlap.first_ns IS 'Start of the first interval';
COMMENT ON COLUMN resource_overlap.last_ns IS 'End of the last interval';

CREATE OR REPLACE VIEW operation_overlap AS
SELECT members AS operations, time_ns, count, first_ns, last_ns
FROM active_set WHERE kind = 'operation';
COMMENT ON VIEW operation_overlap IS 'For how long exactly these operations were innermost at once, over all threads and processes';
COMMENT ON COLUMN operation_overlap.operations IS 'Names, sorted; NULL: all sets that are not listed, together';
COMMENT ON COLUMN operation_overlap.time_ns IS 'How long exactly this set was innermost';
COMMENT ON COLUMN operation_overlap.count IS 'In how many intervals; NULL: many sets together';
COMMENT ON COLUMN operation_overlap.first_ns IS 'Start of the first interval';
COMMENT ON COLUMN operation_overlap.last_ns IS 'End of the last interval';

CREATE OR REPLACE VIEW process_overlap AS
SELECT CAST(members AS INTEGER[]) AS process_ids, time_ns, count, first_ns, last_ns
FROM active_set WHERE kind = 'process';
COMMENT ON VIEW process_overlap IS 'For how long exactly these processes worked at once, on a CPU or on a GPU; what was not measured counts for no process: see coverage';
COMMENT ON COLUMN process_overlap.process_ids IS 'The processes, sorted as text; NULL: all sets that are not listed, together';
COMMENT ON COLUMN process_overlap.time_ns IS 'How long exactly this set worked';
COMMENT ON COLUMN process_overlap.count IS 'In how many intervals; NULL: many sets together';
COMMENT ON COLUMN process_overlap.first_ns IS 'Start of the first interval';
COMMENT ON COLUMN process_overlap.last_ns IS 'End of the last interval';
