-- Instants that were marked: they take no time.
SELECT
  'mark' AS scope, t.process_id, m.name AS operation, m.domain, m.category, count(*) AS instances
FROM mark AS m LEFT JOIN thread AS t ON t.thread_id = m.thread_id
GROUP BY t.process_id, m.name, m.domain, m.category
ORDER BY t.process_id, instances DESC, operation, domain, category
