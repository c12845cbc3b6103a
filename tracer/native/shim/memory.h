// The memory that a shim shares with us. The process that owns it may write anything into it at any
// time: every number is checked before it is used.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "shim/spool.h"

namespace rls {

// Cells that lie in a ring, in two parts where they go around its end.
struct ShimSpan {
  const char* first = nullptr;
  std::size_t first_bytes = 0;
  const char* second = nullptr;
  std::size_t second_bytes = 0;
  std::uint64_t head = 0;
  bool is_damaged = false;  // the numbers make no sense: nothing can be read up to head

  std::size_t bytes() const { return first_bytes + second_bytes; }
};

class ShimTaken : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ShimMemory {
 public:
  // Maps a memfd, which stays the caller's. Throws std::runtime_error if it is no memory of a shim
  // of our version, ShimTaken if another recorder reads it.
  explicit ShimMemory(int memfd);
  ShimMemory(const ShimMemory&) = delete;
  ShimMemory& operator=(const ShimMemory&) = delete;
  ~ShimMemory();

  std::uint32_t inner_pid() const { return header()->pid; }
  std::uint64_t created_ns() const { return header()->created_ns; }

  // From now on the process records for us; children it forks announce themselves to `session`.
  // Returns the number of the reader we are.
  std::uint32_t Attach(const char* session);
  // It records no more.
  void Detach();

  // Slots that were ever used.
  std::uint32_t slots() const;
  // The thread that has it, as the process sees it; 0: none.
  std::uint32_t Owner(std::uint32_t slot) const;
  ShimSpan Peek(std::uint32_t slot);
  void Release(std::uint32_t slot, const ShimSpan& span);
  // Gives back our share of the pages; the process keeps its own, and what is in them.
  void Trim();
  ShimCounters Counters(std::uint32_t slot) const;
  ShimLost Lost() const;
  // Buffers of GPU records that CUPTI holds.
  std::uint32_t GpuBuffers() const;
  // Has them fetched, which takes a moment; then IsGpuFetched().
  void FetchGpu();
  bool IsGpuFetched() const;
  // Copies the entries of ranges that are open; returns how many.
  std::uint32_t Open(std::uint32_t slot, rls_shim_open* entries) const;

 private:
  rls_shim_header* header() const { return static_cast<rls_shim_header*>(memory_); }
  rls_shim_slot* Slot(std::uint32_t slot) const;

  void* memory_ = nullptr;
  std::array<std::optional<std::uint64_t>, RLS_SHIM_SLOTS> tails_;  // up to where we have read
};

}  // namespace rls
