-- GPU time by the operation that launched it, and by the one open while it ran.
SELECT
  a.process_id, p.pid, a.operation,
  a.activities, a.launched_ns, a.ran_ns, a.kernels, a.kernel_launched_ns, a.kernel_ran_ns
FROM gpu_attribution AS a LEFT JOIN process AS p ON p.process_id = a.process_id
ORDER BY a.launched_ns DESC, a.ran_ns DESC, a.process_id, a.operation NULLS FIRST
