// The buffers that CUPTI fills.
#ifndef RLS_CUPTI_BUFFERS_H
#define RLS_CUPTI_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

struct rls_buffer {
  struct rls_buffer* next;
  uint64_t valid_bytes;
  uint8_t reserved[48];
  uint8_t records[];
};
void rls_buffers_prepare(void);
void rls_buffer_requested(uint8_t** buffer, size_t* bytes, size_t* max_records);
void rls_buffer_completed(void* context, uint32_t stream, uint8_t* buffer, size_t bytes,
                          size_t valid_bytes);
// How many are in CUPTI's hands.
uint32_t rls_buffers_outstanding(void);
// Requests that could not be met since the last call.
uint64_t rls_buffers_refused(void);
// How many came that are not ours; they were left alone.
uint64_t rls_buffers_foreign(void);
// The completed ones, oldest first; each has to be given back.
struct rls_buffer* rls_buffers_take(void);
void rls_buffer_give_back(struct rls_buffer* buffer);

#endif  // RLS_CUPTI_BUFFERS_H
