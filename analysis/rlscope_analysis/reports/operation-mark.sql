-- Instants that were marked: they take no time.
SELECT 'mark' AS scope, process_id, name AS operation, domain, category, count(*) AS instances
FROM mark
GROUP BY process_id, name, domain, category
ORDER BY process_id, instances DESC, operation, domain, category
