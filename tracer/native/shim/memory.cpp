#include "shim/memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace rls {
namespace {

template <typename Value>
Value Load(const Value* value) {
  return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

rls_shim_gap LoadGap(const rls_shim_gap& gap) {
  const std::uint64_t end_ns = Load(&gap.end_ns);
  return {Load(&gap.start_ns), end_ns, Load(&gap.owner), 0};
}

// Only one recorder at a time can take records out of the rings. The lock goes with the mapping:
// the OS kernel takes it back when we end, however that happens. Throws ShimTaken.
int OpenAlone(int memfd) {
  // A lock belongs to an opening, and the one at hand is shared with the process.
  const std::string path = "/proc/self/fd/" + std::to_string(memfd);
  // It never waits: a lease of somebody else would have us do so for 45 seconds.
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) throw std::runtime_error("the memory of a shim cannot be opened");
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  throw ShimTaken("another recorder reads the memory of this shim");
}

bool IsOurs(const rls_shim_header& header) {
  return Load(&header.magic) == RLS_SHIM_MAGIC && header.version == RLS_SHIM_VERSION &&
         header.header_bytes == RLS_SHIM_HEADER_BYTES && header.file_bytes == RLS_SHIM_FILE_BYTES &&
         header.slot_count == RLS_SHIM_SLOTS && header.slot_bytes == RLS_SHIM_SLOT_BYTES &&
         header.control_bytes == RLS_SHIM_CONTROL_BYTES && header.ring_bytes == RLS_SHIM_RING_BYTES;
}

}  // namespace

ShimMemory::ShimMemory(int memfd) {
  struct stat status = {};
  // Without the seal the process could shrink the file under us, and reading would be a fault.
  const int seals = fcntl(memfd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(memfd, &status) != 0 ||
      !S_ISREG(status.st_mode) || status.st_size != static_cast<off_t>(RLS_SHIM_FILE_BYTES)) {
    throw std::runtime_error("not the memory of a shim");
  }
  const int own = OpenAlone(memfd);
  memory_ = mmap(nullptr, RLS_SHIM_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
  close(own);
  if (memory_ == MAP_FAILED) throw std::runtime_error("the memory of a shim cannot be mapped");
  if (!IsOurs(*header())) {
    munmap(memory_, RLS_SHIM_FILE_BYTES);
    throw std::runtime_error("the memory of a shim of another version");
  }
}

ShimMemory::~ShimMemory() { munmap(memory_, RLS_SHIM_FILE_BYTES); }

std::uint32_t ShimMemory::Attach(const char* session) {
  const auto bytes = std::min<std::size_t>(std::strlen(session), RLS_SHIM_MAX_SESSION - 1);
  std::memcpy(header()->session, session, bytes);
  __atomic_store_n(&header()->session_bytes, static_cast<std::uint32_t>(bytes), __ATOMIC_RELEASE);
  // The shim tells every new reader the names anew; those that wait in the rings are reported.
  const bool is_first = header()->readers == 0;
  header()->readers = is_first ? 1 : header()->readers + 1;
  __atomic_store_n(&header()->reader, header()->readers, __ATOMIC_RELEASE);
  return header()->readers;
}

void ShimMemory::Detach() {
  __atomic_store_n(&header()->session_bytes, 0U, __ATOMIC_RELEASE);
  __atomic_store_n(&header()->reader, 0U, __ATOMIC_RELEASE);
}

std::uint32_t ShimMemory::slots() const {
  return std::min<std::uint32_t>(Load(&header()->slots_used), RLS_SHIM_SLOTS);
}

rls_shim_slot* ShimMemory::Slot(std::uint32_t slot) const {
  return reinterpret_cast<rls_shim_slot*>(static_cast<char*>(memory_) + RLS_SHIM_HEADER_BYTES +
                                          std::size_t{slot} * RLS_SHIM_SLOT_BYTES);
}

ShimSpan ShimMemory::Peek(std::uint32_t slot) {
  const rls_shim_slot* control = Slot(slot);
  const std::uint64_t tail = Load(&control->tail);
  // What we have read we know ourselves, but for what was read before us.
  if (!tails_[slot].has_value()) tails_[slot] = tail;
  ShimSpan span;
  span.head = Load(&control->head);
  const std::uint64_t bytes = span.head - *tails_[slot];
  span.is_damaged = tail != *tails_[slot] || bytes > RLS_SHIM_RING_BYTES ||
                    (bytes | tail) % RLS_SHIM_CELL_BYTES != 0;
  if (span.is_damaged) return span;
  const char* ring = reinterpret_cast<const char*>(control) + RLS_SHIM_CONTROL_BYTES;
  const std::size_t offset = tail & (RLS_SHIM_RING_BYTES - 1);
  span.first = ring + offset;
  span.first_bytes = std::min<std::size_t>(bytes, RLS_SHIM_RING_BYTES - offset);
  span.second = ring;
  span.second_bytes = bytes - span.first_bytes;
  return span;
}

void ShimMemory::Release(std::uint32_t slot, const ShimSpan& span) {
  const std::uint64_t tail = span.head & ~std::uint64_t{RLS_SHIM_CELL_BYTES - 1};
  tails_[slot] = tail;
  __atomic_store_n(&Slot(slot)->tail, tail, __ATOMIC_RELEASE);
}

void ShimMemory::Trim() { madvise(memory_, RLS_SHIM_FILE_BYTES, MADV_DONTNEED); }

ShimCounters ShimMemory::Counters(std::uint32_t slot) const {
  const rls_shim_slot* control = Slot(slot);
  return {Load(&control->dropped_events), Load(&control->dropped_names),
          Load(&control->interrupted),    Load(&control->unbalanced_pops),
          Load(&control->too_deep),       Load(&control->first_loss_ns),
          LoadGap(control->gap),          LoadGap(control->former)};
}

std::uint32_t ShimMemory::Owner(std::uint32_t slot) const { return Load(&Slot(slot)->owner); }

ShimLost ShimMemory::Lost() const {
  return {Load(&header()->lost_events), Load(&header()->first_lost_ns),
          Load(&header()->refused_children)};
}

std::uint32_t ShimMemory::GpuBuffers() const { return Load(&header()->gpu_buffers); }

void ShimMemory::FetchGpu() { __atomic_fetch_add(&header()->gpu_flush, 1, __ATOMIC_RELEASE); }

bool ShimMemory::IsGpuFetched() const {
  return __atomic_load_n(&header()->gpu_flushed, __ATOMIC_ACQUIRE) == Load(&header()->gpu_flush);
}

std::uint32_t ShimMemory::Open(std::uint32_t slot, rls_shim_open* entries) const {
  const rls_shim_slot* control = Slot(slot);
  const std::uint32_t depth = std::min<std::uint32_t>(Load(&control->depth), RLS_SHIM_MAX_DEPTH);
  std::memcpy(entries, control->open, depth * sizeof(*entries));
  return depth;
}

}  // namespace rls
