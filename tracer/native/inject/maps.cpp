#include "inject/maps.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "inject/error.h"

namespace rls {
namespace {

constexpr off_t kMaxFileBytes = 256 << 20;
// Real files have less than twenty.
constexpr unsigned kMaxSegments = 64;

// One field of a header at `offset`; bytes beyond the end of the file read as zero.
template <typename T>
T ReadAt(const std::vector<unsigned char>& file, std::uint64_t offset) {
  T value = {};
  if (offset <= file.size() && file.size() - offset >= sizeof(T))
    std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

// Nothing of a file that is not regular, which could hold us, or larger than any C library.
std::vector<unsigned char> ReadFile(const std::string& path) {
  std::vector<unsigned char> content;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return content;
  struct stat status = {};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
      status.st_size <= kMaxFileBytes)
    content.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got =
        pread(fd, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  close(fd);
  return content;
}

std::string MapFile(pid_t pid, const Mapping& mapping) {
  std::ostringstream path;
  path << "/proc/" << pid << "/map_files/" << std::hex << mapping.start << '-' << mapping.end;
  return path.str();
}

std::vector<Elf64_Phdr> ProgramHeaders(const std::vector<unsigned char>& file) {
  const auto header = ReadAt<Elf64_Ehdr>(file, 0);
  std::vector<Elf64_Phdr> headers;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return headers;
  for (unsigned i = 0; i < std::min<unsigned>(header.e_phnum, kMaxSegments); ++i)
    headers.push_back(ReadAt<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr)));
  return headers;
}

bool IsText(const std::vector<unsigned char>& file, const Elf64_Shdr& strings, std::uint32_t at,
            const std::string& text) {
  const std::uint64_t offset = strings.sh_offset + at;
  return offset < file.size() && file.size() - offset > text.size() &&
         std::memcmp(file.data() + offset, text.c_str(), text.size() + 1) == 0;
}

// start-end permissions offset device inode  path. By hand: it is read while a thread is held.
std::optional<Mapping> ParseLine(const std::string& line) {
  Mapping mapping = {};
  char* at = nullptr;
  mapping.start = std::strtoull(line.c_str(), &at, 16);
  if (*at != '-') return std::nullopt;
  mapping.end = std::strtoull(at + 1, &at, 16);
  if (std::strlen(at) < 6) return std::nullopt;
  mapping.permissions.assign(at + 1, 4);
  mapping.offset = std::strtoull(at + 6, &at, 16);
  const char* device = at + std::strspn(at, " ");
  const std::size_t device_length = std::strcspn(device, " ");
  mapping.device.assign(device, device_length);
  mapping.inode = std::strtoull(device + device_length, &at, 10);
  mapping.path.assign(at + std::strspn(at, " "));
  return mapping;
}

}  // namespace

std::string Mapping::Name() const {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::vector<Mapping> ReadMaps(pid_t pid) {
  std::ifstream input("/proc/" + std::to_string(pid) + "/maps");
  return ParseMaps(input);
}

std::vector<Mapping> ParseMaps(std::istream& text) {
  std::vector<Mapping> maps;
  for (std::string line; std::getline(text, line);)
    if (auto mapping = ParseLine(line)) maps.push_back(std::move(*mapping));
  return maps;
}

const Mapping* FindMapping(const std::vector<Mapping>& maps, std::uint64_t address) {
  for (const Mapping& mapping : maps)
    if (address >= mapping.start && address < mapping.end) return &mapping;
  return nullptr;
}

LoadedObject::LoadedObject(pid_t pid, const std::vector<Mapping>& maps, const Mapping& first)
    : file_(ReadFile(MapFile(pid, first))) {
  // map_files needs a right of its own; by name is the second best.
  if (file_.empty()) file_ = ReadFile("/proc/" + std::to_string(pid) + "/root" + first.path);
  if (file_.empty()) throw InjectError("cannot read " + first.path + ", which the process uses");
  for (const Elf64_Phdr& segment : ProgramHeaders(file_)) {
    if (segment.p_type != PT_LOAD) continue;
    // Loading keeps the distance between file offset and address within a segment.
    for (const Mapping& mapping : maps) {
      if (mapping.inode != first.inode || mapping.device != first.device) continue;
      if (mapping.offset > segment.p_offset) continue;
      base_ = mapping.start + (segment.p_offset - mapping.offset) - segment.p_vaddr;
      return;
    }
  }
  throw InjectError(first.path + " is mapped in a way we do not know");
}

std::optional<std::uint64_t> LoadedObject::FindSymbol(const std::string& name) const {
  const auto header = ReadAt<Elf64_Ehdr>(file_, 0);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto table = ReadAt<Elf64_Shdr>(file_, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (table.sh_type != SHT_DYNSYM) continue;
    const auto strings =
        ReadAt<Elf64_Shdr>(file_, header.e_shoff + table.sh_link * sizeof(Elf64_Shdr));
    const std::uint64_t bytes = std::min<std::uint64_t>(table.sh_size, file_.size());
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= bytes; at += sizeof(Elf64_Sym)) {
      const auto symbol = ReadAt<Elf64_Sym>(file_, table.sh_offset + at);
      const bool is_plain = ELF64_ST_TYPE(symbol.st_info) != STT_GNU_IFUNC;
      if (symbol.st_shndx != SHN_UNDEF && is_plain && IsText(file_, strings, symbol.st_name, name))
        return AddressOf(symbol.st_value);
    }
    return std::nullopt;  // a file has one such table: who wrote more wants them read
  }
  return std::nullopt;
}

std::optional<std::uint64_t> LoadedObject::FindCode(const std::vector<unsigned char>& bytes) const {
  for (const Elf64_Phdr& segment : ProgramHeaders(file_)) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    if (segment.p_offset > file_.size() || file_.size() - segment.p_offset < segment.p_filesz)
      continue;
    const auto begin = file_.begin() + static_cast<std::ptrdiff_t>(segment.p_offset);
    const auto end = begin + static_cast<std::ptrdiff_t>(segment.p_filesz);
    const auto found = std::search(begin, end, bytes.begin(), bytes.end());
    if (found != end) return AddressOf(segment.p_vaddr + static_cast<std::uint64_t>(found - begin));
  }
  return std::nullopt;
}

std::optional<LoadedObject> FindObject(pid_t pid, const std::string& prefix) {
  const std::vector<Mapping> maps = ReadMaps(pid);
  for (const Mapping& mapping : maps)
    if (mapping.inode != 0 && mapping.Name().compare(0, prefix.size(), prefix) == 0)
      return LoadedObject(pid, maps, mapping);
  return std::nullopt;
}

ProcessMemory::ProcessMemory(pid_t pid)
    : fd_(open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR | O_CLOEXEC)) {
  if (fd_ < 0) throw InjectError("its memory cannot be opened: " + std::string(strerror(errno)));
}

ProcessMemory::~ProcessMemory() { close(fd_); }

bool ProcessMemory::Read(std::uint64_t address, void* bytes, std::size_t count) const {
  return pread(fd_, bytes, count, static_cast<off_t>(address)) == static_cast<ssize_t>(count);
}

bool ProcessMemory::Write(std::uint64_t address, const void* bytes, std::size_t count) const {
  return pwrite(fd_, bytes, count, static_cast<off_t>(address)) == static_cast<ssize_t>(count);
}

}  // namespace rls
