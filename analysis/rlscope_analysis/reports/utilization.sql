-- What nvidia-smi says of each GPU, beside what the traced programs did on it over the same time.
SELECT
  scope, host, uuid,
  coalesce(host || ' ', '') || 'GPU ' || coalesce(device_id::VARCHAR, '?') || CASE WHEN starts_with(uuid, 'MIG-') THEN ' ' || uuid ELSE '' END || coalesce(' ' || name, '') AS gpu,
  span_ns, readings, utilization_share, full_share, sm_activity_share,
  kernel_share, busy_share, kernel_ns, busy_ns, sum_ns, concurrency
FROM gpu_utilization
ORDER BY scope = 'work', host, device_id, uuid
