"""Two nodes of Ray on this machine: prints their address, and ends when its input does.

usage: ray_nodes.py
"""

import sys

from ray.cluster_utils import Cluster

cluster = Cluster(
    initialize_head=True,
    head_node_args={"num_cpus": 2, "include_dashboard": False, "object_store_memory": 100 << 20},
)
cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
sys.stdout.write(f"{cluster.address}\n")
sys.stdout.flush()
sys.stdin.read()
cluster.shutdown()
