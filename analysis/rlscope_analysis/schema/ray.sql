-- Ray: where a trace was recorded, and whose each process is.

CREATE TABLE node (
  node_id VARCHAR, address VARCHAR, host VARCHAR, is_head BOOLEAN, cluster VARCHAR
);
COMMENT ON TABLE node IS 'The node of a Ray cluster that this was recorded on: one row, none where it is not known';
COMMENT ON COLUMN node.node_id IS 'What Ray calls it';
COMMENT ON COLUMN node.address IS 'Its address in the cluster';
COMMENT ON COLUMN node.host IS 'Its name';
COMMENT ON COLUMN node.is_head IS 'Whether it is the head of the cluster; NULL: not known';
COMMENT ON COLUMN node.cluster IS 'Address of the cluster; NULL: not known';

CREATE TABLE ray_process (
  process_id INTEGER, kind VARCHAR, job_id VARCHAR, worker_id VARCHAR,
  actor_id VARCHAR, actor_class VARCHAR, actor_name VARCHAR
);
COMMENT ON TABLE ray_process IS 'Processes of a Ray cluster: whose they are, by the cluster where it was asked (fleet record), else by their titles. What an actor did is in operation, with source ray';
COMMENT ON COLUMN ray_process.process_id IS 'The process';
COMMENT ON COLUMN ray_process.kind IS 'raylet, driver, actor, worker (runs tasks), or idle (did nothing while it was recorded)';
COMMENT ON COLUMN ray_process.job_id IS 'The job; NULL: not known, or none';
COMMENT ON COLUMN ray_process.worker_id IS 'What Ray calls the worker; NULL: not known';
COMMENT ON COLUMN ray_process.actor_id IS 'What Ray calls the actor; NULL: not known, or none';
COMMENT ON COLUMN ray_process.actor_class IS 'Class of the actor; NULL: none';
COMMENT ON COLUMN ray_process.actor_name IS 'Name that the program gave the actor; NULL: none';
