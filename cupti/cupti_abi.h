// The part of CUPTI's and the CUDA driver's binary interface that is used, in declarations of our
// own: nothing of NVIDIA's is needed to build the shim.
//
// Records are read through prefixes as they were in CUDA 11.8. Later versions have longer records,
// and no field of these has moved in any of them; CUPTI's own walker knows how long a record is.
#ifndef RLS_CUPTI_ABI_H
#define RLS_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t cupti_result;

enum {
  CUPTI_OK = 0,
  CUPTI_NOT_INITIALIZED = 15,
  CUPTI_NO_MORE_RECORDS = 12,
  CUPTI_BROKEN_RECORD = 21,
  CUPTI_MULTIPLE_SUBSCRIBERS = 39,
};

// A tool may answer a request for a buffer with none only from here on (CUDA 12.9): before, CUPTI
// may crash.
enum { CUPTI_API_TAKES_NO_BUFFER = 27 };
// CUDA 13.0 without its first update.
enum { CUPTI_API_DISABLE_DEADLOCKS = 130000 };
// From here on (CUDA 12.4) an overhead record may own memory that its reader has to free.
enum { CUPTI_API_OVERHEAD_DATA = 22 };

enum cupti_kind {
  CUPTI_KIND_MEMCPY = 1,
  CUPTI_KIND_MEMSET = 2,
  CUPTI_KIND_KERNEL = 3,
  CUPTI_KIND_DRIVER = 4,
  CUPTI_KIND_RUNTIME = 5,
  CUPTI_KIND_CONTEXT = 9,
  CUPTI_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_KIND_OVERHEAD = 17,
  CUPTI_KIND_MEMCPY_PEER = 22,
  CUPTI_KIND_STREAM = 37,
  CUPTI_KIND_SYNC = 38,
  CUPTI_KIND_MEMORY = 49,
  CUPTI_KIND_GRAPH = 51,
  CUPTI_KIND_KNOWN = 60,  // one above the last that any version up to 13.4 has
};

enum { CUPTI_DOMAIN_DRIVER = 1, CUPTI_DOMAIN_RUNTIME = 2 };
enum { CUPTI_THREAD_ID_DEFAULT = 0, CUPTI_THREAD_ID_SYSTEM = 1 };
enum { CUPTI_FLUSH_FORCED = 1 };
enum { CUPTI_OBJECT_THREAD = 2 };
enum { CUPTI_OVERHEAD_COMMAND_BUFFER = 6 };
enum { CUPTI_MEMORY_RELEASE = 2 };

typedef void (*cupti_buffer_requested)(uint8_t** buffer, size_t* bytes, size_t* max_records);
typedef void (*cupti_buffer_completed)(void* context, uint32_t stream, uint8_t* buffer,
                                       size_t bytes, size_t valid_bytes);
typedef void (*cupti_callback)(void* own, uint32_t domain, uint32_t function, const void* data);

// Of cuptiSubscribe_v2, as it was in CUDA 13.0: it goes by the size.
struct cupti_subscriber_params {
  size_t struct_bytes;
  const char* name;
  char* old_name;  // takes the name of who holds CUPTI
  size_t old_bytes;
};
enum { CUPTI_SUBSCRIBER_NAME_BYTES = 128 };  // CUPTI cuts it at 64

// Looked up by name; NULL where this version has none.
struct cupti_functions {
  cupti_result (*get_version)(uint32_t* version);
  cupti_result (*get_timestamp)(uint64_t* timestamp);
  cupti_result (*subscribe)(void** subscriber, cupti_callback callback, void* own);
  cupti_result (*subscribe_v2)(void** subscriber, cupti_callback callback, void* own,
                               struct cupti_subscriber_params* params);
  cupti_result (*unsubscribe)(void* subscriber);
  cupti_result (*register_timestamp)(uint64_t (*clock)(void));
  cupti_result (*set_thread_id_type)(uint32_t type);
  cupti_result (*register_buffers)(cupti_buffer_requested requested,
                                   cupti_buffer_completed completed);
  cupti_result (*enable)(uint32_t kind);
  cupti_result (*enable_and_dump)(uint32_t kind);
  cupti_result (*disable)(uint32_t kind);
  cupti_result (*enable_runtime_call)(uint32_t function, uint8_t enable);
  cupti_result (*enable_driver_call)(uint32_t function, uint8_t enable);
  cupti_result (*get_callback_name)(uint32_t domain, uint32_t function, const char** name);
  cupti_result (*flush_all)(uint32_t flag);
  cupti_result (*next_record)(uint8_t* buffer, size_t valid_bytes, uint8_t** record);
  cupti_result (*get_dropped)(void* context, uint32_t stream, size_t* dropped);
  cupti_result (*get_context_id)(void* context, uint32_t* id);
  cupti_result (*get_stream_id)(void* context, void* stream, uint8_t per_thread, uint32_t* id);
  cupti_result (*get_device_id)(void* context, uint32_t* id);
};

struct cupti_api_call {
  uint32_t kind;
  uint32_t function;
  uint64_t start;
  uint64_t end;
  uint32_t process;
  uint32_t thread;
  uint32_t correlation;
  uint32_t result;
};

struct cupti_kernel {
  uint32_t kind;
  uint8_t configuration[12];
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  int32_t grid[3];
  int32_t block[3];
  uint32_t memory[4];
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued;
  uint64_t submitted;
  uint8_t launch[8];
  uint64_t graph_node;
  uint32_t limit;
  uint32_t graph;
};

struct cupti_memcpy {
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t target_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t runtime_correlation;
  uint32_t reserved;
  void* reserved2;
  uint64_t graph_node;
  uint32_t graph;
};

struct cupti_memcpy_peer {
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t target_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t source_device;
  uint32_t source_context;
  uint32_t target_device;
  uint32_t target_context;
  uint32_t correlation;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};

struct cupti_memset {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint16_t flags;
  uint16_t memory_kind;
  uint32_t reserved;
  void* reserved2;
  uint64_t graph_node;
  uint32_t graph;
};

struct cupti_sync {
  uint32_t kind;
  uint32_t type;
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
};

struct cupti_graph {
  uint32_t kind;
  uint32_t correlation;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t graph;
  uint32_t context;
  uint32_t stream;
};

struct cupti_overhead {
  uint32_t kind;
  uint32_t what;  // shifted left by 16
  uint32_t object_kind;
  uint32_t object[3];  // of a thread: process, thread
  uint64_t start;
  uint64_t end;
};

// Behind it, from CUPTI_API_OVERHEAD_DATA on.
struct cupti_overhead_data {
  struct cupti_overhead overhead;
  uint32_t correlation;
  uint32_t reserved;
  void* data;
};

struct cupti_memory {
  uint32_t kind;
  uint32_t operation;
  uint32_t memory_kind;
  uint32_t correlation;
  uint64_t address;
  uint64_t bytes;
  uint64_t timestamp;
  uint64_t pc;
  uint32_t process;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
};

struct cupti_context {
  uint32_t kind;
  uint32_t context;
  uint32_t device;
  uint16_t api;
  uint16_t null_stream;
};

struct cupti_stream {
  uint32_t kind;
  uint32_t context;
  uint32_t stream;
  uint32_t priority;
  uint32_t flag;
  uint32_t correlation;
};

_Static_assert(offsetof(struct cupti_api_call, correlation) == 32, "CUpti_ActivityAPI");
_Static_assert(offsetof(struct cupti_kernel, start) == 16, "CUpti_ActivityKernel8");
_Static_assert(offsetof(struct cupti_kernel, correlation) == 92, "CUpti_ActivityKernel8");
_Static_assert(offsetof(struct cupti_kernel, name) == 104, "CUpti_ActivityKernel8");
_Static_assert(offsetof(struct cupti_kernel, graph_node) == 144, "CUpti_ActivityKernel8");
_Static_assert(offsetof(struct cupti_kernel, graph) == 156, "CUpti_ActivityKernel8");
_Static_assert(offsetof(struct cupti_memcpy, graph) == 72, "CUpti_ActivityMemcpy5");
_Static_assert(offsetof(struct cupti_memcpy_peer, graph) == 80, "CUpti_ActivityMemcpyPtoP4");
_Static_assert(offsetof(struct cupti_memset, graph) == 72, "CUpti_ActivityMemset4");
_Static_assert(sizeof(struct cupti_sync) == 40, "CUpti_ActivitySynchronization");
_Static_assert(offsetof(struct cupti_graph, stream) == 36, "CUpti_ActivityGraphTrace");
_Static_assert(offsetof(struct cupti_overhead, start) == 24, "CUpti_ActivityOverhead");
_Static_assert(sizeof(struct cupti_overhead_data) == 56, "CUpti_ActivityOverhead3");
_Static_assert(offsetof(struct cupti_memory, stream) == 60, "CUpti_ActivityMemory3");
_Static_assert(sizeof(struct cupti_context) == 16, "CUpti_ActivityContext");
_Static_assert(sizeof(struct cupti_stream) == 24, "CUpti_ActivityStream");

// The CUDA driver.
enum { CUDA_OK = 0 };
enum {
  CUDA_ATTRIBUTE_CLOCK_KHZ = 13,
  CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
  CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
  CUDA_ATTRIBUTE_MEMORY_BUS_BITS = 37,
  CUDA_ATTRIBUTE_MAJOR = 75,
  CUDA_ATTRIBUTE_MINOR = 76,
};

#endif  // RLS_CUPTI_ABI_H
