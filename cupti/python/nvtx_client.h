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
// label: of rls_nvtx_label, 0: none. is_counted: it has the payload 0 until rls_nvtx_count tells
// another.
void rls_nvtx_push(void* registered_name, uint32_t label, bool is_counted);
void rls_nvtx_pop(void);

// Closes it as of a time that has passed (CLOCK_MONOTONIC); now, if the tool is not our own shim.
void rls_nvtx_pop_at(uint64_t end_ns);

// Returns the number of a label: what a framework calls the ranges that it marks, which NVTX has as
// their category. The caller keeps numbers and texts one to one.
bool rls_nvtx_label(uint32_t label, const char* text);

// Tells the payload of the range that the thread opened last; negative: it is not known. Only our
// own shim takes it.
void rls_nvtx_count(int64_t count);

// An instant with a text.
void rls_nvtx_mark(const char* text);

#endif  // RLS_NVTX_CLIENT_H
