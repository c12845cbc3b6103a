// The part of NVTX's binary interface that an injected tool needs, in declarations of our own.
//
// An object that was compiled with NVTX calls InitializeInjectionNvtx2 at its first NVTX call. The
// callback it passes hands out tables of pointers to its function slots; the tool stores its
// handlers there. The layouts have not changed since NVTX 2.
#ifndef RLS_NVTX_ABI_H
#define RLS_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef void (*nvtx_function)(void);
// Entry i points to slot i of the object.
typedef nvtx_function** nvtx_table;
typedef const void* (*nvtx_get_export_table)(uint32_t id);

enum { NVTX_EXPORT_CALLBACKS = 1 };

struct nvtx_export_callbacks {
  size_t struct_size;
  int (*get_function_table)(uint32_t module, nvtx_table* table, unsigned* size);
};

enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CUDA = 2, NVTX_MODULE_CUDART = 4, NVTX_MODULE_CORE2 = 5 };

enum nvtx_core {
  NVTX_MARK_EX = 1,
  NVTX_MARK_A,
  NVTX_MARK_W,
  NVTX_RANGE_START_EX,
  NVTX_RANGE_START_A,
  NVTX_RANGE_START_W,
  NVTX_RANGE_END,
  NVTX_RANGE_PUSH_EX,
  NVTX_RANGE_PUSH_A,
  NVTX_RANGE_PUSH_W,
  NVTX_RANGE_POP,
  NVTX_NAME_CATEGORY_A,
  NVTX_NAME_CATEGORY_W,
  NVTX_NAME_OS_THREAD_A,
  NVTX_NAME_OS_THREAD_W,
  NVTX_CORE_SIZE,
};

// NVTX 2 ends before NVTX_INITIALIZE.
enum nvtx_core2 {
  NVTX_DOMAIN_MARK_EX = 1,
  NVTX_DOMAIN_RANGE_START_EX,
  NVTX_DOMAIN_RANGE_END,
  NVTX_DOMAIN_RANGE_PUSH_EX,
  NVTX_DOMAIN_RANGE_POP,
  NVTX_DOMAIN_RESOURCE_CREATE,
  NVTX_DOMAIN_RESOURCE_DESTROY,
  NVTX_DOMAIN_NAME_CATEGORY_A,
  NVTX_DOMAIN_NAME_CATEGORY_W,
  NVTX_DOMAIN_REGISTER_STRING_A,
  NVTX_DOMAIN_REGISTER_STRING_W,
  NVTX_DOMAIN_CREATE_A,
  NVTX_DOMAIN_CREATE_W,
  NVTX_DOMAIN_DESTROY,
  NVTX_INITIALIZE,
  NVTX_CORE2_SIZE,
};

enum nvtx_cuda {
  NVTX_NAME_CU_DEVICE_A = 1,
  NVTX_NAME_CU_DEVICE_W,
  NVTX_NAME_CU_CONTEXT_A,
  NVTX_NAME_CU_CONTEXT_W,
  NVTX_NAME_CU_STREAM_A,
  NVTX_NAME_CU_STREAM_W,
  NVTX_NAME_CU_EVENT_A,
  NVTX_NAME_CU_EVENT_W,
  NVTX_CUDA_SIZE,
};

enum nvtx_cudart {
  NVTX_NAME_CUDA_DEVICE_A = 1,
  NVTX_NAME_CUDA_DEVICE_W,
  NVTX_NAME_CUDA_STREAM_A,
  NVTX_NAME_CUDA_STREAM_W,
  NVTX_NAME_CUDA_EVENT_A,
  NVTX_NAME_CUDA_EVENT_W,
  NVTX_CUDART_SIZE,
};

enum nvtx_message_type {
  NVTX_MESSAGE_NONE = 0,
  NVTX_MESSAGE_ASCII = 1,
  NVTX_MESSAGE_WIDE = 2,
  NVTX_MESSAGE_REGISTERED = 3,
};

enum nvtx_payload_type {
  NVTX_PAYLOAD_NONE = 0,
  NVTX_PAYLOAD_U64 = 1,
  NVTX_PAYLOAD_I64 = 2,
  NVTX_PAYLOAD_DOUBLE = 3,
  NVTX_PAYLOAD_U32 = 4,
  NVTX_PAYLOAD_I32 = 5,
  NVTX_PAYLOAD_FLOAT = 6,
};

struct nvtx_attributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;  // 0: none
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  union {
    uint64_t u64;
    int64_t i64;
    double f64;
    uint32_t u32;
    int32_t i32;
    float f32;
  } payload;
  int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* wide;
    void* registered;
  } message;
};
_Static_assert(sizeof(struct nvtx_attributes) == 48, "size of nvtxEventAttributes");
_Static_assert(offsetof(struct nvtx_attributes, message) == 40, "nvtxEventAttributes.message");

// Extensions ask for an entry point of their own. Of the payload extension we need one function:
// the Python package records nothing where it says that a domain is not enabled, and version 0.2.12
// takes a tool without the extension for one that says so.
enum { NVTX_EXTENSION_PAYLOAD = 2, NVTX_EXTENSION_DOMAIN_IS_ENABLED = 7 };

struct nvtx_extension_segment {
  size_t id;
  size_t slot_count;
  intptr_t* slots;
};

struct nvtx_extension {
  uint16_t nvtx_version;
  uint16_t struct_size;
  uint16_t module;
  uint16_t compatibility;
  size_t segment_count;
  struct nvtx_extension_segment* segments;
  const void* (*get_export)(uint32_t id);
  const void* info;
};

#endif  // RLS_NVTX_ABI_H
