-- What recording cost each process in wall time, and which part of the overhead was hidden.
SELECT
  w.process_id, p.pid, p.name AS process,
  t.name AS leading_thread, t.tid AS leading_tid, w.thread_id AS leading_thread_id,
  w.wall_ns, w.overhead_ns, w.exposed_ns, w.under_gpu_ns, w.other_threads_ns,
  w.corrected_wall_ns, w.corrected_low_ns, w.corrected_high_ns
FROM overhead_wall AS w
LEFT JOIN process AS p ON p.process_id = w.process_id
LEFT JOIN thread AS t ON t.thread_id = w.thread_id
ORDER BY w.wall_ns DESC NULLS LAST, w.process_id
