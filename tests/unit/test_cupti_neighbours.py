"""The GPU half of the shim beside another tool in the process that uses CUPTI."""

from cuda_fakes import toolkit
from cupti_programs import run_python
from cupti_ring import ON, SHARED
from rlscope_trace.record import shims

# It never subscribes, and holds a buffer when the shim starts. The address of the buffer is one
# that a buffer of the shim's could have.
NEIGHBOUR = """
import ctypes, mmap, sys
cuda, cupti, shim = map(ctypes.CDLL, ("libcuda.so.1", sys.argv[1], sys.argv[2]))
memory = mmap.mmap(-1, 1 << 20)
memory[:] = b"\\xaa" * len(memory)
records = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 64
pointer, size = ctypes.c_void_p, ctypes.c_size_t

@ctypes.CFUNCTYPE(None, ctypes.POINTER(pointer), ctypes.POINTER(size), ctypes.POINTER(size))
def requested(buffer, size, most):
    buffer[0], size[0], most[0] = records, 65536, 0

@ctypes.CFUNCTYPE(None, pointer, ctypes.c_uint32, pointer, size, size)
def completed(context, stream, buffer, size, valid):
    pass

context, made = pointer(), pointer()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cupti.cuptiActivityRegisterCallbacks(requested, completed) == 0
assert cupti.cuptiActivityEnable(4) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(made), size(10)) == 0
assert shim.InitializeInjection() == 1
cuda.cuCtxSynchronize()
assert cupti.cuptiActivityFlushAll(1) == 0
for _ in range(200):
    cuda.cuMemAlloc_v2(ctypes.byref(made), size(10))
assert cupti.cuptiActivityFlushAll(1) == 0
print(memory[:64] == b"\\xaa" * 64, memory[65600:] == b"\\xaa" * (len(memory) - 65600))
"""


def test_a_buffer_of_another_tool_is_left_alone() -> None:
    library = str(toolkit("13.0") / "libcupti.so.13")
    records, output = run_python(NEIGHBOUR, library, str(shims.LIBRARY))
    assert output == "True True\n"
    reported = records.statuses()[-1]
    assert (reported.state, reported.why) == (ON, SHARED)
    # What came after it, in buffers of the shim's.
    assert records.calls()
