"""Rules over paths: which layer a file's code belongs to."""

import ctypes

import pytest

from rlscope_trace.errors import UsageError
from rlscope_trace.record.layers import LAYER_CODES, TRANSPARENT, LayerRules

SITE = "/opt/venv/lib/python3.11/site-packages"
LIB = "/usr/lib/x86_64-linux-gnu"

LAYERS = {
    f"{SITE}/mujoco/_functions.cpython-311-x86_64-linux-gnu.so": "simulator",
    f"{SITE}/mujoco/libmujoco.so.3.3.0": "simulator",
    f"{SITE}/ale_py/_ale_py.cpython-311-x86_64-linux-gnu.so": "simulator",
    f"{SITE}/ale_py.libs/libpng16-0f9d3c2a.so.16": "simulator",
    f"{SITE}/Box2D/_Box2D.cpython-39-x86_64-linux-gnu.so": "simulator",
    f"{SITE}/pybullet.cpython-310-x86_64-linux-gnu.so": "simulator",
    f"{SITE}/pyspiel.so": "simulator",
    "/opt/mujoco210/bin/libmujoco210.so": "simulator",
    "/opt/mujoco/lib/libmujoco.so.2.3.7": "simulator",
    f"{SITE}/torch/lib/libtorch_cpu.so": "backend",
    f"{SITE}/torch/lib/libgomp.so.1": "backend",
    f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so": "backend",
    f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9": "backend",
    f"{SITE}/jaxlib/_jax.so": "backend",
    "/opt/libtorch/lib/libc10_cuda.so": "backend",
    f"{LIB}/libgomp.so.1.0.0": "backend",
    f"{SITE}/envpool/libgomp.so.1": "simulator",
    f"{LIB}/libcuda.so.570.124.06": "cuda_api",
    f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12": "cuda_api",
    f"{SITE}/ale_py.libs/libcudart-09529672.so.12.6.77": "cuda_api",
    "/usr/bin/python3.11": "python",
    "/opt/conda/lib/libpython3.12.so.1.0": "python",
    "/opt/py/lib/python3.13/lib-dynload/_json.cpython-313-x86_64-linux-gnu.so": "python",
    f"{SITE}/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so": None,
    f"{SITE}/scipy/linalg/_fblas.cpython-311-x86_64-linux-gnu.so": None,
    f"{LIB}/libc.so.6": None,
    f"{LIB}/libcrypto.so.3": None,
    f"{SITE}/torch/lib/libtorch_cpu.so (deleted)": "backend",
    # The project's own folder is called like a simulator; the packages in it are not one.
    "/src/mujoco/.venv/lib/python3.11/site-packages/torch/lib/libtorch.so": "backend",
    "/src/torch/lib/python3.11/site-packages/numpy/linalg/_umath_linalg.so": None,
}
TRANSPARENT_PATHS = (
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libc-2.31.so",
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/ld-2.31.so",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/x86_64-linux-gnu/libm.so.6",
    f"{SITE}/torch.libs/libgcc_s-a0d57daf.so.1",
    f"{SITE}/mujoco/libstdc++.so.6",
)


@pytest.mark.parametrize("path", sorted(LAYERS))
def test_default_rules_know(path: str) -> None:
    assert LayerRules().layer_of(path) == LAYERS[path]


def first_code(rules: LayerRules, path: str) -> int | None:
    """Apply the rules as the collector does."""
    libc = ctypes.CDLL(None)
    matching = (
        code for glob, code in rules.rules() if libc.fnmatch(glob.encode(), path.encode(), 0) == 0
    )
    return next(matching, None)


@pytest.mark.parametrize("path", TRANSPARENT_PATHS)
def test_run_time_libraries_are_transparent(path: str) -> None:
    assert first_code(LayerRules(), path) == TRANSPARENT
    assert LayerRules().layer_of(path) is None


def test_the_collector_and_python_agree() -> None:
    rules = LayerRules(["my-sim", "lib[!a]sim?.so*"], ["numpy", "*/blas[0-9]/*"])
    more = ["/x/libbsim1.so.2", "/x/libasim1.so", "/a/blas3/x.so", f"{SITE}/numpy.libs/libopen.so"]
    for path in [*LAYERS, *more]:
        code = first_code(rules, path.removesuffix(" (deleted)"))
        layer = rules.layer_of(path)
        assert (LAYER_CODES[layer] if layer else None) == (code or None), path


def test_words_of_the_user_come_first() -> None:
    path = f"{SITE}/mujoco/_functions.cpython-311-x86_64-linux-gnu.so"
    assert LayerRules(backends=["mujoco"]).layer_of(path) == "backend"
    assert LayerRules(simulators=[f"{LIB}/libc.so.6"]).layer_of(f"{LIB}/libc.so.6") == "simulator"


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("numpy", f"{SITE}/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so"),
        ("numpy", f"{SITE}/numpy.libs/libscipy_openblas64_-32a4b2a6.so"),
        ("numpy.linalg", f"{SITE}/numpy/linalg/_umath_linalg.so"),
        ("my-sim", f"{SITE}/my_sim/core.so"),
        ("mysim", "/src/build/mysim.cpython-312-x86_64-linux-gnu.so"),
        ("libphysics*.so", "/opt/physics/libphysics2.so"),
        ("libphysics.so", "/opt/physics/libphysics.so"),
        ("mysim/*", "/src/mysim/build/core.so"),
        ("/opt/physics/*", "/opt/physics/lib/deep/x.so"),
        ("*/physics/*", "/opt/physics/lib/deep/x.so"),
    ],
)
def test_a_word_means(word: str, path: str) -> None:
    assert LayerRules().layer_of(path) is None
    assert LayerRules([word]).layer_of(path) == "simulator"
    assert LayerRules(backends=[word]).layer_of(path) == "backend"


@pytest.mark.parametrize(
    "word", ["", " ", "a\nb", "./mysim/*", "~/x.so", "lib[ab.so", "a\\*b", "[^a]*", "*/[[:alpha:]]"]
)
def test_a_word_that_can_match_nothing_is_refused(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        LayerRules([word])
    assert refused.value.hint


def test_a_word_for_both_layers_is_refused() -> None:
    with pytest.raises(UsageError, match="both as --simulator and as --backend"):
        LayerRules(["mysim"], ["numpy", "mysim"])
