#include "samples/process.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

namespace rls {
namespace {

constexpr std::uint64_t kMillisecond = 1000000;
// Reading the mappings of a process with a thousand of them takes about a millisecond: often while
// it loads its libraries, seldom later. An address that is not known does not wait for that.
constexpr std::uint64_t kYoung = 10000 * kMillisecond;
constexpr std::uint64_t kIntervalYoung = 1000 * kMillisecond;
constexpr std::uint64_t kIntervalOld = 5000 * kMillisecond;
constexpr std::uint64_t kIntervalMissed = 100 * kMillisecond;

}  // namespace

bool SampledProcess::Read(std::uint64_t address, void* to, std::size_t bytes) const {
  if (served_.Holds(address, bytes)) return false;
  const iovec local = {to, bytes};
  const iovec remote = {reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

void SampledProcess::Inherit(const SampledProcess& parent, std::uint64_t now_ns) {
  if (parent.code_.empty()) return;
  code_ = parent.code_;
  served_ = parent.served_;
  first_read_ns_ = now_ns;
  last_read_ns_ = now_ns;
}

void SampledProcess::Refresh(SampleFiles* files, std::uint64_t now_ns, bool missed) {
  if (first_read_ns_ != 0) {
    const bool young = now_ns - first_read_ns_ < kYoung;
    const std::uint64_t interval = missed ? kIntervalMissed : young ? kIntervalYoung : kIntervalOld;
    if (now_ns - last_read_ns_ < interval) return;
  }
  if (first_read_ns_ == 0) first_read_ns_ = now_ns;
  last_read_ns_ = now_ns;
  std::vector<CodeRange> code;
  const std::vector<Mapping> maps = ReadMaps(pid_);
  if (!maps.empty()) served_ = ServedMemory(pid_, maps, served_);
  for (const Mapping& mapping : maps) {
    if (!mapping.IsExecutable()) continue;
    // Code without a file keeps what is known of it.
    const CodeRange* known = mapping.inode == 0 ? Find(mapping.start) : nullptr;
    const bool same = known != nullptr && known->start == mapping.start &&
                      known->end == mapping.end && known->file->fd < 0;
    code.push_back({mapping.start, mapping.end, mapping.offset,
                    same ? known->file : files->Of(pid_, mapping)});
  }
  if (!code.empty()) code_.swap(code);
}

const CodeRange* SampledProcess::Find(std::uint64_t address) const {
  const auto behind = std::upper_bound(
      code_.begin(), code_.end(), address,
      [](std::uint64_t wanted, const CodeRange& range) { return wanted < range.start; });
  if (behind == code_.begin()) return nullptr;
  const CodeRange& range = *(behind - 1);
  return address < range.end ? &range : nullptr;
}

std::size_t SampledProcess::ReadCode(const CodeRange& range, std::uint64_t address,
                                     std::size_t before, std::size_t after, std::uint8_t* to,
                                     std::size_t* at) const {
  const std::uint64_t begin = address - std::min<std::uint64_t>(before, address - range.start);
  const std::uint64_t end = address + std::min<std::uint64_t>(after, range.end - address);
  const auto bytes = static_cast<std::size_t>(end - begin);
  *at = static_cast<std::size_t>(address - begin);
  if (range.file->fd >= 0) {
    const auto offset = static_cast<off_t>(begin - range.start + range.offset);
    const ssize_t got = pread(range.file->fd, to, bytes, offset);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return Read(begin, to, bytes) ? bytes : 0;
}

}  // namespace rls
