// What a program compiled with NVTX's headers does to reach an injected tool: one domain, ranges
// named by registered strings.
#ifndef RLS_NVTX_CLIENT_H
#define RLS_NVTX_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

// Loads the tool that NVTX_INJECTION64_PATH names, once per process; false: there is none.
bool rls_nvtx_available(void);

// Returns the tool's handle of a name, NULL where there is no tool.
void* rls_nvtx_register(const char* name);

// Open and close a range of the calling thread. Nothing happens where there is no tool.
// is_counted: it has the payload 0 until rls_nvtx_count tells another.
void rls_nvtx_push(void* registered_name, bool is_counted);
void rls_nvtx_pop(void);

// Tells the payload of the range that the thread opened last; negative: it is not known. Only our
// own shim takes it.
void rls_nvtx_count(int64_t count);

// An instant with a text.
void rls_nvtx_mark(const char* text);

#endif  // RLS_NVTX_CLIENT_H
