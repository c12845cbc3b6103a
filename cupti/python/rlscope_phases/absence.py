"""Tells the recorder that a program has no phases, and why, where the native half cannot.

A client of the NVTX tool as nvtx_client.c is one, for a single mark. It needs ctypes, and is only
loaded where there are no phases. Nothing of ours is imported: the package may be what is broken.
"""

import os

# As in tracer/rlscope_trace/ingest/store/phase_failures.py.
PREFIX = "no phases"
DOMAIN = b"rlscope"
MAX_TEXT = 200
# As in cupti/nvtx_abi.h.
EXPORT_CALLBACKS, MODULE_CORE2, CORE2_SIZE = 1, 5, 16
DOMAIN_MARK_EX, DOMAIN_CREATE_A = 1, 12
NVTX_VERSION, ATTRIBUTES_SIZE, MESSAGE_ASCII = 3, 48, 1
is_reported = False


def report(status):
    """Tell it, once in a process, with a status as the package has it; no error gets out."""
    global is_reported
    path = os.environ.get("NVTX_INJECTION64_PATH")
    if is_reported or not path:
        return
    is_reported = True
    try:
        _mark(path, (PREFIX + "\t" + status)[:MAX_TEXT].encode("utf-8", "replace"))
    except Exception:
        # Nobody is there to be told.
        return


def _mark(path, text):
    import ctypes

    slots = _slots(ctypes, ctypes.CDLL(path))
    if not slots[DOMAIN_CREATE_A] or not slots[DOMAIN_MARK_EX]:
        return
    create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(slots[DOMAIN_CREATE_A])
    mark = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(slots[DOMAIN_MARK_EX])
    message = ctypes.create_string_buffer(text)
    attributes = (ctypes.c_uint64 * (ATTRIBUTES_SIZE // 8))()
    # version and size; message_type; message.
    attributes[0] = NVTX_VERSION | ATTRIBUTES_SIZE << 16
    attributes[4] = MESSAGE_ASCII
    attributes[5] = ctypes.addressof(message)
    mark(create(DOMAIN), ctypes.addressof(attributes))


def _slots(ctypes, tool):
    """Return the handlers that the tool gives a client, by their numbers."""
    pointer = ctypes.c_void_p
    slots = (pointer * CORE2_SIZE)()
    # Behind the last there is none: some tools look for the end.
    table = (pointer * (CORE2_SIZE + 1))()
    for number in range(1, CORE2_SIZE):
        table[number] = ctypes.addressof(slots) + number * ctypes.sizeof(pointer)

    @ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(pointer), ctypes.POINTER(ctypes.c_uint)
    )
    def get_function_table(module, found, size):
        if module != MODULE_CORE2:
            return 0
        if found:
            found[0] = ctypes.addressof(table)
        if size:
            size[0] = CORE2_SIZE
        return 1

    callbacks = (pointer * 2)(2 * ctypes.sizeof(pointer))
    callbacks[1] = ctypes.cast(get_function_table, pointer)

    @ctypes.CFUNCTYPE(pointer, ctypes.c_uint32)
    def get_export_table(number):
        return ctypes.addressof(callbacks) if number == EXPORT_CALLBACKS else None

    tool.InitializeInjectionNvtx2(get_export_table)
    return list(slots)
