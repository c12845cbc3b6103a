# Two nodes of Ray on this machine, each in a network of its own.

NODES=(rlscope-a rlscope-b)
_BRIDGE=rlscope-br

# Start both; nodes_down ends them. $1: the folder of the virtual environment.
nodes_up() {
  local number=1 node
  export RAY_AUTH_MODE=disabled RAY_ADDRESS=10.77.0.1:6399
  nodes_down
  ip link add "$_BRIDGE" type bridge
  ip link set "$_BRIDGE" up
  for node in "${NODES[@]}"; do
    ip netns add "$node"
    ip link add "rlscope-v$number" type veth peer name eth0 netns "$node"
    ip link set "rlscope-v$number" master "$_BRIDGE" up
    ip -n "$node" addr add "10.77.0.$number/24" dev eth0
    ip -n "$node" link set eth0 up
    ip -n "$node" link set lo up
    number=$((number + 1))
  done
  on_node 0 "$1/bin/ray" start --head --node-ip-address=10.77.0.1 --port=6399 --num-cpus=1 \
    --include-dashboard=false --disable-usage-stats --object-store-memory=200000000 >/dev/null 2>&1
  on_node 1 "$1/bin/ray" start --address="$RAY_ADDRESS" --node-ip-address=10.77.0.2 --num-cpus=1 \
    --disable-usage-stats --object-store-memory=200000000 >/dev/null 2>&1
}

# Run a command on a node: 0, the head, or 1.
on_node() { ip netns exec "${NODES[$1]}" "${@:2}"; }

# End what runs there, and take the networks away.
nodes_down() {
  local node
  for node in "${NODES[@]}"; do
    ip netns pids "$node" 2>/dev/null | xargs --no-run-if-empty kill -9 2>/dev/null || true
    ip netns delete "$node" 2>/dev/null || true
  done
  ip link delete "$_BRIDGE" 2>/dev/null || true
}
