-- What nvidia-smi says of each GPU, beside what the traced programs did on it over the same time.
SELECT
  scope, host, device_id, uuid, name,
  span_ns, readings, utilization_share, full_share, sm_activity_share,
  kernel_share, busy_share, kernel_ns, busy_ns, sum_ns, concurrency
FROM gpu_utilization
ORDER BY scope = 'work', host, device_id, uuid
