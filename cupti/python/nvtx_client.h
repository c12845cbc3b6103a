// What a program compiled with NVTX's headers does to reach an injected tool: one domain, ranges
// named by registered strings.
#ifndef RLS_NVTX_CLIENT_H
#define RLS_NVTX_CLIENT_H

#include <stdbool.h>

// Loads the tool that NVTX_INJECTION64_PATH names, once per process; false: there is none.
bool rls_nvtx_available(void);

// Returns the tool's handle of a name, NULL where there is no tool.
void* rls_nvtx_register(const char* name);

// Open and close a range of the calling thread. Nothing happens where there is no tool.
void rls_nvtx_push(void* registered_name);
void rls_nvtx_pop(void);

// An instant with a text.
void rls_nvtx_mark(const char* text);

#endif  // RLS_NVTX_CLIENT_H
