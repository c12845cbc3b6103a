#include "finder/process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "process_stat.h"

namespace rls {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kCachedPages = 8192;  // 32 MiB
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;

[[noreturn]] void Fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::uint64_t StartOfArguments(pid_t pid) {
  const std::vector<std::uint64_t> numbers = ReadStat(pid);
  return numbers.size() > kArgStart ? numbers[kArgStart] : 0;
}

std::size_t ReadVm(pid_t pid, std::uint64_t address, void* bytes, std::size_t count) {
  iovec local = {bytes, count};
  iovec remote = {reinterpret_cast<void*>(address), count};
  const ssize_t read = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  return read < 0 ? 0 : static_cast<std::size_t>(read);
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

TargetProcess::TargetProcess(pid_t pid) : pid_(pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  folder_ = OwnedFd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.IsOpen()) Fail(errno == ENOENT ? ESRCH : errno, "process " + std::to_string(pid));
  memory_ = OwnedFd(openat(folder_.get(), "mem", O_RDONLY | O_CLOEXEC));
  // Who may trace the processes of others may call for their memory, but opens their files only
  // with a right to those.
  if (!memory_.IsOpen() && errno != EACCES)
    Fail(errno == ENOENT ? ESRCH : errno, "memory of process " + std::to_string(pid));
  if (!memory_.IsOpen()) arguments_ = StartOfArguments(pid);
  pagemap_ = OwnedFd(openat(folder_.get(), "pagemap", O_RDONLY | O_CLOEXEC));
  const std::vector<Mapping> maps = ReadMaps(pid);
  served_ = ServedMemory(pid, maps);
  for (const Mapping& mapping : maps) {
    // Code without a file may be gone the next moment, but for what the OS kernel has put there.
    if (!mapping.IsExecutable() || (mapping.inode == 0 && mapping.path != "[vdso]")) continue;
    if (served_.Holds(mapping.start, 1)) continue;
    probe_address_ = mapping.start;
    break;
  }
  unsigned char byte;
  if (!memory_.IsOpen() && probe_address_ != 0 && ReadVm(pid, probe_address_, &byte, 1) != 1)
    Fail(errno, "memory of process " + std::to_string(pid));
  CheckAlive();
}

void TargetProcess::CheckAlive() const {
  // A process that is gone has no mappings, and neither has a zombie or a kernel thread.
  unsigned char byte;
  if (probe_address_ == 0 || ReadNow(probe_address_, &byte, 1) != 1 ||
      faccessat(folder_.get(), "maps", F_OK, 0) != 0 ||
      (!memory_.IsOpen() && StartOfArguments(pid_) != arguments_))
    Fail(ESRCH, "the program of process " + std::to_string(pid_) + " has ended");
}

void TargetProcess::CheckCancelled() const {
  if (is_cancelled_) Fail(ECANCELED, "reading process " + std::to_string(pid_));
}

std::vector<Mapping> TargetProcess::Maps() const {
  std::vector<Mapping> maps = ReadMaps(pid_);
  CheckAlive();  // and so it was this process, for pids are used again only after its end
  return maps;
}

bool TargetProcess::Read(std::uint64_t address, void* bytes, std::size_t count) const {
  CheckCancelled();
  return !served_.Holds(address, count) && ReadNow(address, bytes, count) == count;
}

std::size_t TargetProcess::ReadNow(std::uint64_t address, void* bytes, std::size_t count) const {
  if (!memory_.IsOpen()) return ReadVm(pid_, address, bytes, count);
  const ssize_t read = pread(memory_.get(), bytes, count, static_cast<off_t>(address));
  return read < 0 ? 0 : static_cast<std::size_t>(read);
}

std::size_t TargetProcess::ReadMost(std::uint64_t address, void* bytes, std::size_t count) const {
  CheckCancelled();
  if (served_.Holds(address, count)) return 0;
  const std::size_t read = ReadVm(pid_, address, bytes, count);
  // Some sandboxes refuse the system call but not the file.
  return read > 0 ? read : ReadNow(address, bytes, count);
}

std::vector<AddressRange> TargetProcess::Present(const AddressRange& range) const {
  std::vector<AddressRange> parts;
  std::vector<std::uint64_t> entries(16384);
  for (std::uint64_t at = range.start; at < range.end;) {
    const std::uint64_t wanted = std::min<std::uint64_t>(entries.size(), (range.end - at) / kPage);
    const ssize_t bytes = pread(pagemap_.get(), entries.data(), wanted * sizeof(entries[0]),
                                static_cast<off_t>(at / kPage * sizeof(entries[0])));
    if (bytes <= 0) break;
    const std::size_t count = static_cast<std::size_t>(bytes) / sizeof(entries[0]);
    for (std::size_t i = 0; i < count; ++i, at += kPage) {
      if ((entries[i] & kPresent) == 0) continue;
      if (!parts.empty() && parts.back().end == at)
        parts.back().end += kPage;
      else
        parts.push_back({at, at + kPage});
    }
  }
  return parts;
}

OwnedFd TargetProcess::OpenMapped(const Mapping& mapping) const {
  return OwnedFd(OpenMappedFile(pid_, mapping));
}

const PageCache::Page& PageCache::Load(std::uint64_t page) {
  auto found = pages_.find(page);
  if (found != pages_.end()) return *found->second;
  if (pages_.size() >= kCachedPages) pages_.clear();
  auto loaded = std::make_unique<Page>();
  loaded->readable = process_.Read(page * kPage, loaded->bytes, kPage);
  return *pages_.emplace(page, std::move(loaded)).first->second;
}

bool PageCache::Read(std::uint64_t address, void* bytes, std::size_t count) {
  auto* to = static_cast<unsigned char*>(bytes);
  while (count > 0) {
    const Page& page = Load(address / kPage);
    if (!page.readable) return false;
    const std::size_t within = address % kPage;
    const std::size_t now = std::min<std::size_t>(count, kPage - within);
    std::memcpy(to, page.bytes + within, now);
    to += now;
    address += now;
    count -= now;
  }
  return true;
}

std::optional<std::string> PageCache::Text(std::uint64_t address, std::size_t limit) {
  std::string text;
  while (text.size() <= limit) {
    const auto next = Get<unsigned char>(address + text.size());
    if (!next) return std::nullopt;
    if (*next == 0) return text;
    if (*next < 0x20 || *next >= 0x7f) return std::nullopt;
    text.push_back(static_cast<char>(*next));
  }
  return std::nullopt;
}

}  // namespace rls
