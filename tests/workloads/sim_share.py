"""Steps a simulator with a small policy in between; every native call is timed by a clock in C.

--env cartpole (native_cartpole.c), halfcheetah, humanoid (MuJoCo) or pong (ALE), for --seconds of
CPU time; --policy numpy or torch. The folder of the compiled native modules is on PYTHONPATH.

Truth, of the main thread between start_ns and end_ns (CLOCK_MONOTONIC):
  cpu_ns         CPU time of the thread
  stolen_ns      what a hypervisor had of all CPUs meanwhile, which is not in cpu_ns
  simulator_ns   of it inside native code of the simulator; what the clock adds is taken out
  attributes_ns  the part of it that reads and writes attributes of MuJoCo's objects: makes arrays
  calls          exact: function -> calls, of all that the program called in there
  steps          of the environment
  clock_ns       what the clock adds to one call (it is other CPU time, not the simulator's)
The range `window` (NVTX) holds exactly this time.
"""

import time
from typing import TYPE_CHECKING, Any

import layer_clock
import numpy as np
import nvtx
from handshake import finish, parser, stolen_ns
from warm_up import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    Action = np.ndarray | int
    Step = Callable[[Action], tuple[np.ndarray, bool]]
    Reset = Callable[[], np.ndarray]

arguments = parser(__doc__)
arguments.add_argument("--env", choices=("cartpole", "halfcheetah", "humanoid", "pong"))
arguments.add_argument("--policy", choices=("numpy", "torch"), default="numpy")
arguments.add_argument("--seconds", type=float, default=2.0)
arguments.add_argument("--substeps", type=int, default=1000)
options = arguments.parse_args()
timed: dict[str, Any] = {}


def clocked(name: str, function: "Callable[..., Any]") -> "Callable[..., Any]":
    """Return the function with the clock around it."""
    timed[name] = layer_clock.timed(function)
    return timed[name]


def make_cartpole() -> "tuple[Step, Reset, int, int]":
    import native_cartpole

    step = clocked("step", native_cartpole.step)
    reset = clocked("reset", native_cartpole.reset)

    def move(action: "Action") -> tuple[np.ndarray, bool]:
        state = step(int(action), options.substeps)
        return np.asarray(state[:4], np.float32), bool(state[4])

    return move, lambda: np.asarray(reset(7)[:4], np.float32), 4, 2


def clock_properties(owner: type) -> None:
    """Time the getters and setters of a type: they are calls into native code as well."""
    for name, value in list(vars(owner).items()):
        if isinstance(value, property) and not name.startswith("_"):
            functions = [value.fget, value.fset]
            names = [f"{owner.__name__}.{name}", f"{owner.__name__}.{name}="]
            made = [
                f and clocked(reported, f) for reported, f in zip(names, functions, strict=True)
            ]
            setattr(owner, name, property(*made))


def make_mujoco(name: str) -> "tuple[Step, Reset, int, int]":
    import gymnasium
    import mujoco

    for function in ("mj_step", "mj_forward", "mj_resetData", "mj_rnePostConstraint"):
        setattr(mujoco, function, clocked(function, getattr(mujoco, function)))
    for owner in (mujoco.MjData, mujoco.MjModel, mujoco.MjOption):
        clock_properties(owner)
    environment = gymnasium.make(name).unwrapped
    low, high = environment.action_space.low, environment.action_space.high

    def move(action: "Action") -> tuple[np.ndarray, bool]:
        state, _, terminated, _, _ = environment.step(np.clip(action, low, high))
        return state, terminated

    observations, actions = environment.observation_space.shape, environment.action_space.shape
    return move, lambda: environment.reset(seed=7)[0], observations[0], actions[0]


class Clocked:
    """An object whose methods are timed."""

    def __init__(self, inner: object) -> None:
        for name in dir(inner):
            if not name.startswith("_") and callable(getattr(inner, name)):
                setattr(self, name, clocked(name, getattr(inner, name)))


def make_pong() -> "tuple[Step, Reset, int, int]":
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    environment = gymnasium.make("ALE/Pong-v5", obs_type="ram").unwrapped
    environment.ale = Clocked(environment.ale)

    def move(action: "Action") -> tuple[np.ndarray, bool]:
        state, _, terminated, _, _ = environment.step(int(action))
        return state, terminated

    return move, lambda: environment.reset(seed=7)[0], 128, int(environment.action_space.n)


def make_policy(observations: int, actions: int) -> "Callable[[np.ndarray], Action]":
    """Return a policy with one hidden layer of 64, seeded; discrete where actions are chosen."""
    is_discrete = options.env in ("cartpole", "pong")
    if options.policy == "torch":
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(7)
        net = torch.nn.Sequential(
            torch.nn.Linear(observations, 64), torch.nn.Tanh(), torch.nn.Linear(64, actions)
        )

        def act(state: np.ndarray) -> "Action":
            with torch.no_grad():
                output = net(torch.as_tensor(state, dtype=torch.float32))
            return int(output.argmax()) if is_discrete else output.numpy()

        return act
    generator = np.random.default_rng(7)
    first = generator.normal(size=(observations, 64)) * 0.1
    second = generator.normal(size=(64, actions)) * 0.1

    def act_numpy(state: np.ndarray) -> "Action":
        output = np.tanh(state @ first) @ second
        return int(output.argmax()) if is_discrete else output

    return act_numpy


def main() -> None:
    names = {"halfcheetah": "HalfCheetah-v5", "humanoid": "Humanoid-v5"}
    if options.env in names:
        move, reset, observations, actions = make_mujoco(names[options.env])
    else:
        move, reset, observations, actions = {"cartpole": make_cartpole, "pong": make_pong}[
            options.env
        ]()
    act = make_policy(observations, actions)
    state = reset()

    def steps(count: int) -> None:
        nonlocal state
        for _ in range(count):
            state, over = move(act(state))
            if over:
                state = reset()

    clock_ns = min(layer_clock.cost_ns(2000) for _ in range(20))
    steps(50)
    warm_up(options, lambda: steps(20))
    before = {name: (clock.calls, clock.cpu_ns) for name, clock in timed.items()}
    done = 0
    with nvtx.annotate("window"):
        before_stolen_ns = stolen_ns()
        start_ns, start_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        while time.thread_time_ns() - start_cpu_ns < options.seconds * 1e9:
            steps(10)
            done += 10
        cpu_ns, end_ns = time.thread_time_ns() - start_cpu_ns, time.monotonic_ns()
        taken_ns = stolen_ns() - before_stolen_ns
    calls = {name: clock.calls - before[name][0] for name, clock in timed.items()}
    inside_ns = {
        name: clock.cpu_ns - before[name][1] - clock_ns * calls[name]
        for name, clock in timed.items()
    }
    finish(
        options,
        start_ns=start_ns,
        end_ns=end_ns,
        cpu_ns=cpu_ns,
        stolen_ns=taken_ns,
        simulator_ns=round(sum(inside_ns.values())),
        attributes_ns=round(sum(ns for name, ns in inside_ns.items() if "." in name)),
        calls={name: number for name, number in calls.items() if number},
        steps=done,
        clock_ns=clock_ns,
    )


main()
