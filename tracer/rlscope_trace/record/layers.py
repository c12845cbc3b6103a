"""To which layer native code belongs: rules over the paths of the files it was loaded from.

A rule is a glob as fnmatch(3) takes it without flags: `*` and `?` match slashes too. The first rule
that matches decides. Words of the user stand before the defaults.
"""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from typing import TYPE_CHECKING, Literal

from rlscope_trace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Layer = Literal["python", "simulator", "backend", "cuda_api"]

LAYER_CODES: dict[Layer, int] = {"python": 1, "simulator": 2, "backend": 3, "cuda_api": 4}
"""As in enum rls_layer of the wire format."""
TRANSPARENT = 0
"""The code of a library that works for whoever calls it: its caller's layer is meant."""

# The C and C++ run-time libraries, the loader, allocators, libffi. Under wheels they carry a hash:
# libstdc++-5d53d1e1.so.6.0.30. The kernel's vdso has no path and is not here.
_TRANSPARENT_LIBRARIES = (
    "libc", "libm", "libmvec", "libpthread", "libdl", "librt", "libutil", "libresolv", "libstdc++",
    "libc++", "libc++abi", "libgcc_s", "libgfortran", "libquadmath", "libffi", "libjemalloc",
    "libtcmalloc", "libtcmalloc_minimal", "libmimalloc",
)  # fmt: skip
_TRANSPARENT_GLOBS = ("*/ld-linux*.so*", "*/ld-[0-9]*.so", "*/ld-musl-*.so*", "*/libc.musl-*.so*")

# Libraries that run several stacks on one thread.
_STACK_SWITCHERS = ("*/_greenlet*.so", "*/libboost_context*.so*", "*/libboost_coroutine*.so*")

_PYTHON_GLOBS = (
    "*/libpython[23]*.so*",
    "*/libpypy*.so*",
    "*/bin/python[0-9.]*",
    "*/bin/python",
    "*/bin/pypy*",
    "*/lib-dynload/*",
)
# Before the packages: wheels of backends and of simulators carry copies.
_CUDA_API_LIBRARIES = ("libcuda", "libcudart", "libcupti", "libnvidia-ptxjitcompiler")

_SIMULATOR_PACKAGES = (
    "mujoco", "mujoco_py", "dm_control", "ale_py", "atari_py", "multi_agent_ale_py", "Box2D",
    "box2d", "pybullet", "pybullet_envs", "envpool", "procgen", "gym3", "brax", "gymnasium", "gym",
    "gymnasium_robotics", "nle", "minihack", "crafter", "jumanji", "highway_env", "isaacgym",
    "isaacsim", "isaaclab", "omni", "open_spiel", "pyspiel", "gym_microrts", "vizdoom", "minerl",
    "deepmind_lab", "nes_py", "retro", "stable_retro", "pufferlib", "pettingzoo", "magent2",
    "metadrive", "panda3d", "pymunk", "raisimpy", "habitat_sim", "sapien", "warp", "griddly",
    "nocturne_cpp", "carla", "pysc2", "jsbsim", "pydrake",
)  # fmt: skip
_SIMULATOR_EXTENSIONS = ("pybullet", "pyspiel", "carla", "raisimpy", "mujoco_py.cymj")
_SIMULATOR_LIBRARIES = (
    "libmujoco*", "libale", "libbox2d", "libBulletDynamics", "libBulletCollision", "libLinearMath",
    "libPhysX", "libPhysXFoundation", "libPhysXCommon", "libPhysXGpu", "libPhysXCooking",
    "libPhysX_64", "libPhysXGpu_64", "libomni.physx*", "libraisim", "libdart", "libopen_spiel",
)  # fmt: skip

_BACKEND_PACKAGES = (
    "torch", "functorch", "torchvision", "torchaudio", "torch_xla", "torchrl", "tensordict",
    "tensorflow", "jaxlib", "jax_plugins", "jax_cuda12_plugin", "jax_cuda13_plugin", "jax",
    "onnxruntime", "paddle", "mxnet", "triton", "nvidia", "tensorrt", "tensorrt_libs",
    "tensorrt_bindings", "intel_extension_for_pytorch", "transformer_engine", "flash_attn",
    "xformers", "apex", "bitsandbytes", "cupy", "cupy_backends", "openvino", "mlx",
)  # fmt: skip
# OpenMP works for the backend, unless it lies in the folder of a simulator.
_BACKEND_LIBRARIES = (
    "libtorch", "libtorch_*", "libc10", "libc10_*", "libtensorflow*", "libxla*", "libonnxruntime*",
    "libcudnn*", "libcublas*", "libcusparse*", "libcusolver*", "libcufft*", "libcurand*",
    "libnccl*", "libnvrtc*", "libnvinfer*", "libmkl_*", "libdnnl*", "libgomp", "libiomp5", "libomp",
)  # fmt: skip

_PACKAGE_NAME = re.compile(r"[^\W\d][\w-]*(\.[^\W\d]\w*)*")
_HINT = (
    "name a package (--simulator mysim) or give a pattern for the paths of its files"
    " (--simulator '*/mysim/*.so')"
)


class LayerRules:
    """The rules of one recording."""

    def __init__(self, simulators: Sequence[str] = (), backends: Sequence[str] = ()) -> None:
        """Put the words of the user, each a package or a glob over paths, before the defaults.

        Raises UsageError for a word that can match no file, or that stands in both lists.
        """
        for word in simulators:
            if word in backends:
                raise UsageError(
                    f"{word!r} is given both as --simulator and as --backend", hint="leave out one"
                )
        self._rules = [
            *_coded("simulator", (glob for word in simulators for glob in _globs_of(word))),
            *_coded("backend", (glob for word in backends for glob in _globs_of(word))),
            *_DEFAULT_RULES,
        ]

    def layer_of(self, path: str) -> Layer | None:
        """Return the layer of a mapped file, None for other and for transparent ones."""
        path = path.removesuffix(" (deleted)")
        for glob, code in self._rules:
            if _compiled(glob).match(path):
                return _NAMES.get(code)
        return None

    def rules(self) -> list[tuple[str, int]]:
        """Return (glob, layer code or TRANSPARENT) in order of priority, for fnmatch(3)."""
        return list(self._rules)


def switches_stacks(path: str) -> bool:
    """Tell whether a library lets a thread switch between stacks, as greenlet does.

    The OS kernel ends a program that does so inside a call whose return is probed.
    """
    return any(_compiled(glob).match(path) for glob in _STACK_SWITCHERS)


@cache
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))


def _globs_of(word: str) -> list[str]:
    """Return the globs that a word of the user stands for."""
    if not word.strip() or not word.isprintable():
        raise UsageError(f"{word!r} names no package and no files", hint=_HINT)
    if _PACKAGE_NAME.fullmatch(word) and not re.search(r"\.so(\.|$)", word):
        name = word.replace("-", "_")
        return [*_package_globs(name), *_extension_globs(name)]
    if word.startswith(("./", "../", "~")):
        raise UsageError(f"the pattern {word!r} is not absolute", hint=_HINT)
    # Where fnmatch(3) and Python disagree, the tables of calls and of samples would.
    if "\\" in word or re.search(r"\[[\^\[]", word) or not _brackets_close(word):
        raise UsageError(
            f"the pattern {word!r} is not understood: it may hold *, ?, [abc] and [!abc]",
            hint=_HINT,
        )
    return [word if word[0] in "/*" else f"*/{word}"]


def _brackets_close(glob: str) -> bool:
    """Return whether each [ has its ]."""
    return "[" not in re.sub(r"\[!?\]?[^\]]*\]", "", glob)


def _package_globs(name: str) -> list[str]:
    """Return the globs of an installed package (site-packages, dist-packages) and its libraries.

    A folder of that name elsewhere is not meant: a project called mujoco may hold all of torch.
    """
    return [f"*-packages/{name.replace('.', '/')}/*", f"*/{name}.libs/*"]


def _extension_globs(name: str) -> list[str]:
    """Return the globs of a module that is one file."""
    inside = name.replace(".", "/")
    return [f"*/{inside}.so", *(f"*/{inside}.{tag}.so" for tag in ("cpython-*", "abi3", "pypy*"))]


def _library_globs(names: Iterable[str]) -> list[str]:
    """Return the globs of shared libraries, with a version or a wheel's hash in the name or not."""
    return [
        glob for name in names for glob in (f"*/{name}.so*", f"*/{name}-[0-9a-f]*.so*")
    ]  # fmt: skip


def _coded(layer: Layer, globs: Iterable[str]) -> list[tuple[str, int]]:
    return [(glob, LAYER_CODES[layer]) for glob in globs]


_NAMES = {code: layer for layer, code in LAYER_CODES.items()}
_DEFAULT_RULES = [
    *((glob, TRANSPARENT) for glob in _library_globs(_TRANSPARENT_LIBRARIES)),
    *((glob, TRANSPARENT) for glob in _TRANSPARENT_GLOBS),
    *_coded("cuda_api", _library_globs(_CUDA_API_LIBRARIES)),
    *_coded("python", _PYTHON_GLOBS),
    *_coded("simulator", (glob for name in _SIMULATOR_PACKAGES for glob in _package_globs(name))),
    *_coded(
        "simulator", (glob for name in _SIMULATOR_EXTENSIONS for glob in _extension_globs(name))
    ),
    *_coded("simulator", _library_globs(_SIMULATOR_LIBRARIES)),
    *_coded("backend", (glob for name in _BACKEND_PACKAGES for glob in _package_globs(name))),
    *_coded("backend", _library_globs(_BACKEND_LIBRARIES)),
]
