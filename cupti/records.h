// What the shim shares with the collector: the layout of its memory and every record, byte by byte.
//
// Included by the shim, which lives in the target, and by the collector. One sealed memfd per
// process, named RLS_SHIM_MEMFD:
//
//   rls_shim_header   one page: geometry, identity, counters of the process
//   rls_shim_slot     slot_count times, slot_bytes apart: one thread each, and behind it its ring
//
// A ring has one writer (the thread that owns the slot) and one reader (the collector). It holds
// cells of 64 bytes. `head` and `tail` count bytes from the beginning of time; a record is there
// once `head` is past it. A full ring drops the newest record and counts it. Times are
// CLOCK_MONOTONIC nanoseconds. A change of anything here bumps RLS_SHIM_VERSION.
#ifndef RLS_SHIM_RECORDS_H
#define RLS_SHIM_RECORDS_H

#include <stdint.h>

#define RLS_SHIM_MAGIC 0x31474e49524c5352ULL  // "RSLRING1"
#define RLS_SHIM_VERSION 5
#define RLS_SHIM_MEMFD "rlscope-ring"
// The NVTX domain of the phases that are found without marks: its ranges get source 'auto'.
#define RLS_AUTO_DOMAIN "rlscope"

#define RLS_SHIM_HEADER_BYTES 4096
#define RLS_SHIM_SLOTS 128
#define RLS_SHIM_CONTROL_BYTES 4096
#define RLS_SHIM_RING_BYTES (1U << 21)
#define RLS_SHIM_SLOT_BYTES (RLS_SHIM_CONTROL_BYTES + RLS_SHIM_RING_BYTES)
#define RLS_SHIM_FILE_BYTES (RLS_SHIM_HEADER_BYTES + (uint64_t)RLS_SHIM_SLOTS * RLS_SHIM_SLOT_BYTES)
#define RLS_SHIM_CELL_BYTES 64
#define RLS_SHIM_MAX_DEPTH 64
#define RLS_SHIM_MAX_TEXT 1024
// Of the name of the abstract unix socket on which collectors take new memfds.
#define RLS_SHIM_MAX_SESSION 100

// The shim's half and the reader's half lie on cache lines of their own. Fields that both sides
// touch are read and written with the __atomic builtins.
struct rls_shim_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint32_t slot_count;
  uint32_t slot_bytes;
  uint32_t control_bytes;
  uint32_t ring_bytes;
  uint32_t pid;         // as the process itself sees it
  uint32_t slots_used;  // no slot from here on was ever owned
  uint64_t created_ns;
  uint64_t lost_events;  // of threads that found no free slot
  uint64_t first_lost_ns;
  uint64_t refused_children;  // forked, and without memory of their own: seccomp, limits
  uint32_t gpu_buffers;       // that CUPTI holds, or that are not reported yet: lost if we end now
  uint32_t gpu_flushed;       // the last gpu_flush that was carried out
  uint8_t reserved[RLS_SHIM_HEADER_BYTES / 2 - 88];
  // Written by the collector: changes with every collector that attaches; 0: nobody reads.
  uint32_t reader;
  uint32_t readers;  // there were so far
  uint32_t session_bytes;
  char session[RLS_SHIM_MAX_SESSION];  // where forked children announce themselves
  uint32_t gpu_flush;                  // another number: fetch what CUPTI holds
  uint8_t reserved2[RLS_SHIM_HEADER_BYTES / 2 - 16 - RLS_SHIM_MAX_SESSION];
};

// A range that is open: the entry of a thread's stack, the outermost first.
struct rls_shim_open {
  uint64_t start_ns;  // 0: it began while nobody read
  uint64_t name;
  uint64_t domain;
  uint64_t payload;
  uint32_t category;
  uint32_t color;
  uint8_t payload_type;
  uint8_t reserved[7];
};

// Ranges that were dropped: when the first of them began, and the last ended; 0: none were.
struct rls_shim_gap {
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t owner;
  uint32_t reserved;
};

struct rls_shim_slot {
  uint64_t head;
  uint64_t tail_seen;       // the writer's copy of tail
  uint32_t owner;           // tid as the process sees it; 0: free
  uint32_t depth;           // entries of `open` in use; deeper ranges are counted, not kept
  uint64_t dropped_events;  // the ring was full
  uint64_t dropped_names;
  uint64_t interrupted;        // made by a signal handler that interrupted the shim
  uint64_t unbalanced_pops;    // nothing was open
  uint64_t too_deep;           // ranges opened above RLS_SHIM_MAX_DEPTH
  uint64_t first_loss_ns;      // of any of the above
  struct rls_shim_gap gap;     // of the owner, since its last GAP record
  struct rls_shim_gap former;  // what the owner before could not tell any more
  uint8_t reserved[8];
  uint64_t tail;  // the reader's
  uint8_t reserved2[120];
  struct rls_shim_open open[RLS_SHIM_MAX_DEPTH];
  uint8_t reserved3[RLS_SHIM_CONTROL_BYTES - 256 - 48 * RLS_SHIM_MAX_DEPTH];
};

// Of any two at least two bits differ: one changed bit makes an unknown record, which is counted,
// and never another one.
enum rls_shim_kind {
  RLS_SHIM_NONE = 0,
  RLS_SHIM_THREAD = 3,     // from here on the slot is another thread's
  RLS_SHIM_RANGE = 5,      // a push/pop range, written when it ended
  RLS_SHIM_START = 6,      // a start/end range began
  RLS_SHIM_END = 9,        // ... and ended, perhaps on another thread
  RLS_SHIM_MARK = 10,      // an instant
  RLS_SHIM_STRING = 12,    // the text behind a name; takes several cells
  RLS_SHIM_CATEGORY = 15,  // the name of a category
  RLS_SHIM_OPEN = 17,      // a push/pop range that was open when its thread ended
  // Of the GPU. The thread that owns the ring is the one that CUPTI gave the records to, and has
  // nothing to do with them: the thread that called stands in the record.
  RLS_SHIM_GPU_CALL = 18,      // a call of the CUDA runtime or driver
  RLS_SHIM_GPU_ACTIVITY = 20,  // what a GPU did
  RLS_SHIM_GPU_OVERHEAD = 23,  // what CUPTI took for itself
  RLS_SHIM_GPU_MEMORY = 24,    // memory was allocated or freed
  RLS_SHIM_GPU_STATUS = 27,    // whether GPU activity is recorded, and why not
  RLS_SHIM_GPU_DEVICE = 29,    // a GPU that the process can use
  RLS_SHIM_GPU_NAMED = 30,     // a context or stream, and what it is called
  RLS_SHIM_GPU_CLOCK = 33,     // the clocks, all at once
  RLS_SHIM_GPU_LOST = 34,      // what CUPTI or the shim could not keep
  RLS_SHIM_GAP = 36,           // ranges of the thread were dropped: nothing of it lies outside
  RLS_SHIM_KINDS = 37,
};

// Of rls_shim_event.payload.
enum rls_shim_payload {
  RLS_SHIM_NO_PAYLOAD = 0,
  RLS_SHIM_UNSIGNED = 1,
  RLS_SHIM_SIGNED = 2,
  RLS_SHIM_DOUBLE = 3,
};

// Of rls_shim_event.flags, RANGE: no range of the thread was open any more when it had ended, so
// that whatever comes behind it in the ring began later.
#define RLS_SHIM_LAST 1

// name and domain are hashes of their texts, which a STRING record reported before; 0: none (of a
// domain: the default one).
struct rls_shim_event {
  uint16_t kind;  // RANGE, START, END, MARK, OPEN, GAP (of which the times alone count)
  uint8_t depth;  // RANGE: how many ranges of the thread are open around it
  uint8_t payload_type;
  uint32_t category;
  uint64_t start_ns;  // 0: it began while nobody read; of END not used
  uint64_t end_ns;    // of RANGE, END, OPEN and GAP; 0: it is not known when the thread ended
  uint64_t name;
  uint64_t domain;
  uint64_t payload;
  uint32_t color;  // ARGB; 0: none
  uint32_t flags;  // RLS_SHIM_LAST
  uint64_t id;     // START, END: what joins the two within the process
};

struct rls_shim_thread {
  uint16_t kind;
  uint16_t reserved;
  uint32_t tid;  // as the process sees it
  uint64_t ts_ns;
  uint8_t reserved2[48];
};

struct rls_shim_string {
  uint16_t kind;
  uint16_t length;  // bytes of the text
  uint32_t cut;     // 1: the text was longer
  uint64_t hash;
  char text[48];  // goes on in the cells behind, zeros behind it
};

struct rls_shim_category {
  uint16_t kind;
  uint16_t reserved;
  uint32_t category;
  uint64_t domain;
  uint64_t name;
  uint8_t reserved2[40];
};

// Times of GPU records are as CUPTI gave them: CLOCK_MONOTONIC where it took our timestamp
// callback, else CLOCK_REALTIME, which is recognised by its size (GPU_CLOCK converts). 0: not
// known.

// Of rls_shim_gpu_call.api: CUPTI's activity kinds.
enum rls_shim_gpu_api {
  RLS_SHIM_GPU_DRIVER = 4,
  RLS_SHIM_GPU_RUNTIME = 5,
};

struct rls_shim_gpu_call {
  uint16_t kind;
  uint16_t api;  // enum rls_shim_gpu_api
  uint32_t tid;  // of the caller, as the process sees it
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t name;  // hash; 0: CUPTI has no name for it
  uint32_t correlation;
  uint32_t function;  // CUPTI's number of it (cbid)
  uint32_t result;    // what it returned; 0: success
  uint8_t reserved[20];
};

// Of rls_shim_gpu_activity.work.
enum rls_shim_gpu_work {
  RLS_SHIM_GPU_KERNEL = 1,
  RLS_SHIM_GPU_MEMCPY = 2,
  RLS_SHIM_GPU_MEMSET = 3,
  RLS_SHIM_GPU_GRAPH = 4,  // a whole graph, recorded as one
  RLS_SHIM_GPU_SYNC = 5,   // somebody waits: the GPU does not work
};

struct rls_shim_gpu_activity {
  uint16_t kind;
  uint8_t work;    // enum rls_shim_gpu_work
  uint8_t detail;  // MEMCPY: CUPTI's copy kind (1 HtoD, 2 DtoH, ...); SYNC: its type
  uint32_t device;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t name;  // hash, of a KERNEL
  uint64_t bytes;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t graph;        // 0: none
  uint32_t peer_device;  // MEMCPY between devices: where it went
  uint32_t reserved;
};

struct rls_shim_gpu_overhead {
  uint16_t kind;
  uint16_t what;  // CUPTI's overhead kind, without its lower 16 bits: 1 buffer flush, 2 ...
  uint32_t tid;   // 0: it belongs to no thread
  uint64_t start_ns;
  uint64_t end_ns;
  uint8_t reserved[40];
};

struct rls_shim_gpu_memory {
  uint16_t kind;
  uint8_t is_release;
  uint8_t memory_kind;  // CUPTI's: 3 device, 2 pinned, ...
  uint32_t device;
  uint64_t ts_ns;
  uint64_t bytes;
  uint64_t address;
  uint32_t correlation;
  uint32_t context;
  uint8_t reserved[24];
};

// Of rls_shim_gpu_status.state.
enum rls_shim_gpu_state {
  RLS_SHIM_GPU_ON = 1,
  RLS_SHIM_GPU_OFF = 2,      // not asked for, or left to another tool
  RLS_SHIM_GPU_REFUSED = 3,  // it was tried
};

// Of rls_shim_gpu_status.why: why GPU activity is not recorded, or not all of it.
enum rls_shim_gpu_why {
  RLS_SHIM_GPU_NO_REASON = 0,
  RLS_SHIM_GPU_NOT_ASKED = 1,       // --cupti off
  RLS_SHIM_GPU_YIELDED = 2,         // --cupti yield
  RLS_SHIM_GPU_NO_DRIVER = 3,       // libcuda is not loaded
  RLS_SHIM_GPU_NOT_STARTED = 4,     // nor was CUDA, when the recorder came to the process
  RLS_SHIM_GPU_NO_LIBRARY = 5,      // subject: the name of the libcupti that was looked for
  RLS_SHIM_GPU_LIBRARY_FAILED = 6,  // subject: what the loader says of the one that was asked for
  RLS_SHIM_GPU_LIBRARY_LACKS = 7,   // subject: a function
  RLS_SHIM_GPU_NO_THREAD = 8,       // a limit of the process is in the way
  RLS_SHIM_GPU_SHARED = 9,          // a buffer of another tool came to us
  RLS_SHIM_GPU_CALL_FAILED = 10,    // subject: a call of CUPTI, with its argument in parentheses
  RLS_SHIM_GPU_HELD = 11,           // subject: the profiler that holds CUPTI, if it tells
};

// Reported once for each process in which the driver was initialised, and again when it changes.
struct rls_shim_gpu_status {
  uint16_t kind;
  uint16_t state;  // enum rls_shim_gpu_state
  uint32_t code;   // what the call that failed returned; 0: none did
  uint64_t ts_ns;
  uint32_t api;       // cuptiGetVersion; 0: not known
  uint32_t driver;    // cuDriverGetVersion; 0: not known
  uint64_t subject;   // hash of what `why` is about; 0: nothing
  uint64_t library;   // hash of the path of libcupti; 0: none was found
  uint64_t recorded;  // bit N: CUPTI's activity kind N is recorded
  uint64_t refused;   // bit N: ... was refused
  uint8_t is_late;    // 1: the process ran before CUPTI was started in it
  uint8_t has_clock;  // 1: CUPTI took our timestamp callback
  uint16_t why;       // enum rls_shim_gpu_why
  uint8_t reserved[4];
};

struct rls_shim_gpu_device {
  uint16_t kind;
  uint8_t major;  // compute capability
  uint8_t minor;
  uint32_t device;  // as the process counts
  uint64_t name;    // hash
  uint64_t memory_bytes;
  uint8_t uuid[16];  // of the GPU, or of its MIG instance
  uint32_t multiprocessors;
  uint8_t is_mig;
  uint8_t reserved[3];
  uint32_t clock_khz;  // the highest, of its multiprocessors; 0: not known, as those below
  uint32_t memory_clock_khz;
  uint32_t memory_bus_bits;
  uint8_t more[4];
};

struct rls_shim_gpu_named {
  uint16_t kind;
  uint16_t is_stream;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint64_t name;  // hash; 0: none
  uint8_t reserved[40];
};

// Taken at one instant, as nearly as that can be done; about every second.
struct rls_shim_gpu_clock {
  uint16_t kind;
  uint16_t reserved;
  uint32_t width_ns;  // within which all three were read
  uint64_t monotonic_ns;
  uint64_t realtime_ns;
  uint64_t cupti_ns;  // cuptiGetTimestamp; 0: it cannot be had
  uint8_t reserved2[32];
};

// Of rls_shim_gpu_lost.what.
enum rls_shim_gpu_loss {
  RLS_SHIM_GPU_DROPPED = 1,      // by CUPTI, which had no buffer left
  RLS_SHIM_GPU_UNREADABLE = 2,   // records of a kind or size that is not known
  RLS_SHIM_GPU_NO_BUFFER = 3,    // CUPTI asked for a buffer, and there was no memory
  RLS_SHIM_GPU_NOT_FETCHED = 4,  // a process, not a record: CUPTI held some when it ended
};

struct rls_shim_gpu_lost {
  uint16_t kind;
  uint16_t what;      // enum rls_shim_gpu_loss
  uint32_t activity;  // CUPTI's kind, of UNREADABLE
  uint64_t count;     // since the last such record
  uint64_t ts_ns;
  uint8_t reserved[40];
};

#ifdef __cplusplus
#define RLS_SHIM_ASSERT(condition) static_assert(condition, #condition)
#else
#define RLS_SHIM_ASSERT(condition) _Static_assert(condition, #condition)
#endif
RLS_SHIM_ASSERT(sizeof(struct rls_shim_header) == RLS_SHIM_HEADER_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_slot) == RLS_SHIM_CONTROL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_open) == 48);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_event) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_thread) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_string) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_category) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_call) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_activity) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_overhead) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_memory) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_status) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_device) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_named) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_clock) == RLS_SHIM_CELL_BYTES);
RLS_SHIM_ASSERT(sizeof(struct rls_shim_gpu_lost) == RLS_SHIM_CELL_BYTES);

#endif  // RLS_SHIM_RECORDS_H
