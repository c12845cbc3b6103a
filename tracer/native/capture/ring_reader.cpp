#include "capture/ring_reader.h"

#include <bpf/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "spool/format.h"

namespace rls {
namespace {

std::uint32_t FrameLength(const char* frame) {
  // Acquire: a header that is no longer busy vouches for the record behind it.
  return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(frame), __ATOMIC_ACQUIRE);
}

std::size_t FrameBytes(std::uint32_t length) {
  return (kFrameHeaderBytes + (length & kFrameLengthMask) + 7U) & ~std::size_t{7};
}

void CountRecord(const char* record, RingSpan* span) {
  std::uint16_t kind = 0;
  std::memcpy(&kind, record, sizeof(kind));
  if (kind >= RLS_REC_KINDS) kind = RLS_REC_NONE;
  ++span->records[kind];
  if (kind == RLS_REC_EXEC) {
    rls_rec_exec exec;
    std::memcpy(&exec, record, sizeof(exec));
    // The others say what a process runs that was there before us.
    if (exec.thread_id != 0) span->replaced.push_back(exec.tid);
  }
  if (kind != RLS_REC_THREAD) return;
  rls_rec_thread thread;
  std::memcpy(&thread, record, sizeof(thread));
  if (thread.tid == thread.tgid)
    span->pids.push_back(thread.ns_tgid != 0 ? thread.ns_tgid : thread.tgid);
}

}  // namespace

RingReader::RingReader(int ring_fd) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
  bpf_map_info info = {};
  std::uint32_t bytes = sizeof(info);
  if (bpf_obj_get_info_by_fd(ring_fd, &info, &bytes) != 0)
    throw std::system_error(errno, std::generic_category(), "asking for the ring size");
  capacity_ = info.max_entries;
  void* consumer = mmap(nullptr, page_, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);
  if (consumer == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mapping the ring");
  // The OS kernel maps the data twice in a row, so that no record is ever broken at the end.
  void* producer = mmap(nullptr, page_ + 2 * capacity_, PROT_READ, MAP_SHARED, ring_fd,
                        static_cast<off_t>(page_));
  if (producer == MAP_FAILED) {
    const int error = errno;
    munmap(consumer, page_);
    throw std::system_error(error, std::generic_category(), "mapping the ring");
  }
  consumer_ = static_cast<char*>(consumer);
  producer_ = static_cast<const char*>(producer);
}

RingReader::~RingReader() {
  munmap(consumer_, page_);
  munmap(const_cast<char*>(producer_), page_ + 2 * capacity_);
}

RingSpan RingReader::Peek(std::size_t max_bytes) const {
  const std::uint64_t begin = *reinterpret_cast<const std::uint64_t*>(consumer_);
  const std::uint64_t end =
      __atomic_load_n(reinterpret_cast<const std::uint64_t*>(producer_), __ATOMIC_ACQUIRE);
  RingSpan span;
  span.data = producer_ + page_ + (begin & (capacity_ - 1));
  while (begin + span.bytes < end && span.bytes < max_bytes) {
    const char* frame = span.data + span.bytes;
    const std::uint32_t length = FrameLength(frame);
    if ((length & kFrameBusy) != 0) break;
    if ((length & kFrameDiscarded) == 0) CountRecord(frame + kFrameHeaderBytes, &span);
    span.bytes += FrameBytes(length);
  }
  return span;
}

std::size_t RingReader::waiting_bytes() const {
  const std::uint64_t end =
      __atomic_load_n(reinterpret_cast<const std::uint64_t*>(producer_), __ATOMIC_ACQUIRE);
  return static_cast<std::size_t>(end - *reinterpret_cast<const std::uint64_t*>(consumer_));
}

void RingReader::Release(const RingSpan& span) {
  auto* position = reinterpret_cast<std::uint64_t*>(consumer_);
  __atomic_store_n(position, *position + span.bytes, __ATOMIC_RELEASE);
}

}  // namespace rls
