"""Makes the profiles beside this file: a PPO that is one jit, with two and with six epochs.

usage: python make.py [--split]      (pip install jax gymnax flax optax six)

--split prints how long the same program takes as two jits instead, and makes no file.
"""

import lzma
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax.linen as nn
import gymnax
import jax
import jax.numpy as jnp
import optax

HERE = pathlib.Path(__file__).parent
IS_SPLIT = "--split" in sys.argv
ENVS, STEPS, UPDATES, WIDTH = (256, 32, 8, 256) if IS_SPLIT else (8, 4, 2, 16)
ENV, PARAMETERS = gymnax.make("CartPole-v1")
OPTIMIZER = optax.adam(3e-4)


class Policy(nn.Module):
    """Two hidden layers; logits of the actions and a value."""

    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.tanh(nn.Dense(WIDTH)(x))
        return nn.Dense(2)(x), nn.Dense(1)(x)[..., 0]


POLICY = Policy()


def begin(key):
    first, second, key = jax.random.split(key, 3)
    weights = POLICY.init(first, jnp.zeros((1, 4)))
    resets = jax.random.split(second, ENVS)
    seen, state = jax.vmap(ENV.reset, (0, None))(resets, PARAMETERS)
    return weights, OPTIMIZER.init(weights), seen, state, key


def act(weights, carry):
    def step(carry, _):
        seen, state, key = carry
        key, choose, move = jax.random.split(key, 3)
        logits, value = POLICY.apply(weights, seen)
        action = jax.random.categorical(choose, logits)
        chance = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
        moves = jax.random.split(move, ENVS)
        found = jax.vmap(ENV.step, (0, 0, 0, None))(moves, state, action, PARAMETERS)
        return (found[0], found[1], key), (seen, action, chance, value, found[2], found[3])

    return jax.lax.scan(step, carry, None, STEPS)


def learn(weights, moments, last, batch, epochs):
    seen, action, chance, value, reward, done = batch

    def back(carry, row):
        advantage, after = carry
        now, gained, over = row
        advantage = gained + 0.99 * (1 - over) * (after + 0.95 * advantage) - now
        return (advantage, now), advantage

    rows = (value, reward, done.astype(jnp.float32))
    _, advantage = jax.lax.scan(back, (jnp.zeros(ENVS), last), rows, reverse=True)

    def loss(weights):
        logits, guess = POLICY.apply(weights, seen)
        now = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0]
        ratio = jnp.exp(now - chance)
        gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage)
        return -gain.mean() + 0.5 * ((guess - advantage - value) ** 2).mean()

    def epoch(carry, _):
        weights, moments = carry
        updates, moments = OPTIMIZER.update(jax.grad(loss)(weights), moments)
        return (optax.apply_updates(weights, updates), moments), None

    return jax.lax.scan(epoch, (weights, moments), None, epochs)[0]


def make(epochs):
    def train(key):
        def update(carry, _):
            weights, moments, *acting = carry
            acting, batch = act(weights, tuple(acting))
            _, last = POLICY.apply(weights, acting[0])
            weights, moments = learn(weights, moments, last, batch, epochs)
            return (weights, moments, *acting), batch[4].mean()

        return jax.lax.scan(update, begin(key), None, UPDATES)[1]

    return jax.jit(train)


def profile(folder, epochs):
    """Profile one run of the program, compiled before."""
    train = make(epochs)
    jax.block_until_ready(train(jax.random.key(0)))
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with jax.profiler.trace(folder, profiler_options=options):
        jax.block_until_ready(train(jax.random.key(1)))
    return next(pathlib.Path(folder).rglob("*.xplane.pb"))


def split():
    acting, learning = jax.jit(act), jax.jit(lambda *rest: learn(*rest, 4))
    forward = jax.jit(lambda weights, seen: POLICY.apply(weights, seen)[1])
    weights, moments, *carry = begin(jax.random.key(0))
    carry = tuple(carry)
    for turn in range(2):
        spent = [0.0, 0.0]
        for _ in range(UPDATES):
            before = time.perf_counter()
            carry, batch = jax.block_until_ready(acting(weights, carry))
            last = jax.block_until_ready(forward(weights, carry[0]))
            between = time.perf_counter()
            weights, moments = jax.block_until_ready(learning(weights, moments, last, batch))
            spent[0] += between - before
            spent[1] += time.perf_counter() - between
        if turn:
            print(f"acting {100 * spent[0] / sum(spent):.1f} % of {sum(spent):.3f} s")


if IS_SPLIT:
    split()
    kept = pathlib.Path(tempfile.mkdtemp())
    print("the profile of one jit:", profile(kept, 4))
else:
    for epochs in (2, 6):
        with tempfile.TemporaryDirectory() as folder:
            data = profile(folder, epochs).read_bytes()
        (HERE / f"epochs{epochs}.xplane.pb.xz").write_bytes(lzma.compress(data, preset=9))
