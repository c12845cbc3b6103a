-- Stacks of operations that differ in the frameworks' own names alone are one row of a tree.
CREATE OR REPLACE VIEW _operation_node AS
WITH RECURSIVE numbered AS (
  -- Names alone do not tell apart what is of another source, domain or category.
  SELECT
    path_id, parent_path_id,
    min(path_id) OVER (PARTITION BY name, domain, category, source) AS operation_id
  FROM operation_path
), stacked AS (
  SELECT path_id, [operation_id] AS stack FROM numbered WHERE parent_path_id IS NULL
  UNION ALL
  SELECT n.path_id, list_append(s.stack, n.operation_id)
  FROM numbered AS n JOIN stacked AS s ON s.path_id = n.parent_path_id
), merged AS (
  SELECT path_id, min(path_id) OVER (PARTITION BY stack) AS node_id FROM stacked
)
SELECT
  p.path_id, coalesce(m.node_id, p.path_id) AS node_id,
  -- Of a damaged trace, parents that nobody reaches from an outermost one.
  a.node_id AS parent_node_id, n.operation_id
FROM operation_path AS p
JOIN numbered AS n ON n.path_id = p.path_id
LEFT JOIN merged AS m ON m.path_id = p.path_id
LEFT JOIN merged AS a ON a.path_id = p.parent_path_id
UNION ALL
SELECT 0, 0, NULL, 0;
COMMENT ON VIEW _operation_node IS 'Private: may change without notice. Which row of a tree each stack of operations is, the frameworks'' own names left out';
COMMENT ON COLUMN _operation_node.path_id IS 'The stack: operation_path; 0: (unannotated)';
COMMENT ON COLUMN _operation_node.node_id IS 'The row: path_id of the first such stack';
COMMENT ON COLUMN _operation_node.parent_node_id IS 'The row around it; NULL: it is outermost';
COMMENT ON COLUMN _operation_node.operation_id IS 'path_id of the first stack whose innermost operation is the same';
