#include "inject/loaded_object.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "inject/error.h"
#include "inject/mapped_file.h"

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

// Nothing of a file that is larger than any C library.
std::vector<unsigned char> ReadMapped(pid_t pid, const Mapping& mapping) {
  std::vector<unsigned char> content;
  const int fd = OpenMappedFile(pid, mapping);
  if (fd < 0) return content;
  struct stat status = {};
  if (fstat(fd, &status) == 0 && status.st_size > 0 && status.st_size <= kMaxFileBytes)
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

}  // namespace

LoadedObject::LoadedObject(pid_t pid, const std::vector<Mapping>& maps, const Mapping& first)
    : file_(ReadMapped(pid, first)) {
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

}  // namespace rls
