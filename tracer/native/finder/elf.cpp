#include "finder/elf.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "machine.h"

namespace rls {
namespace {

// Segments that are loaded: real files have less than twenty. Each address is looked up in all.
constexpr std::size_t kMaxSegments = 64;
constexpr std::uint64_t kMaxFunctions = 8 << 20;
constexpr std::uint64_t kMaxFunctionBytes = 1 << 20;
// DWARF pointer encodings, as every linker writes them into .eh_frame_hdr.
constexpr unsigned char kCountUdata4 = 0x03;
constexpr unsigned char kTableDatarelSdata4 = 0x3b;

struct FunctionTableHead {
  unsigned char version;
  unsigned char frame_encoding;
  unsigned char count_encoding;
  unsigned char table_encoding;
  std::int32_t frame;
  std::uint32_t count;
};

struct FunctionTableEntry {
  std::int32_t function;  // from the start of the table
  std::int32_t unwinding;
};

std::uint64_t After(std::uint64_t address, std::int32_t distance) {
  return address + static_cast<std::uint64_t>(std::int64_t{distance});
}

}  // namespace

ElfFile::ElfFile(OwnedFd fd) : fd_(std::move(fd)) {
  struct stat status = {};
  if (fd_.IsOpen() && fstat(fd_.get(), &status) == 0 && status.st_size > 0)
    size_ = static_cast<std::uint64_t>(status.st_size);
  ReadHeaders();
}

std::vector<unsigned char> ElfFile::ReadAt(std::uint64_t offset, std::uint64_t count) const {
  std::vector<unsigned char> bytes;
  if (offset >= size_) return bytes;
  bytes.resize(std::min(count, size_ - offset));
  const ssize_t read = pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
  bytes.resize(read < 0 ? 0 : static_cast<std::size_t>(read));
  return bytes;
}

bool ElfFile::ReadExactly(std::uint64_t offset, void* bytes, std::size_t count) const {
  return offset < size_ && size_ - offset >= count &&
         pread(fd_.get(), bytes, count, static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
}

void ElfFile::ReadHeaders() {
  const auto header = Get<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kElfMachine)
    return;
  std::optional<Elf64_Phdr> dynamic;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto program = Get<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!program) break;
    const ElfSegment segment = {program->p_offset,
                                program->p_filesz,
                                program->p_vaddr,
                                program->p_memsz,
                                (program->p_flags & PF_X) != 0,
                                (program->p_flags & PF_W) != 0};
    if (program->p_type == PT_LOAD && segments_.size() < kMaxSegments) segments_.push_back(segment);
    if (program->p_type == PT_GNU_EH_FRAME) function_table_ = segment;
    if (program->p_type == PT_DYNAMIC) dynamic = program;
  }
  if (dynamic) ReadDynamic(dynamic->p_offset, dynamic->p_filesz);
}

void ElfFile::ReadDynamic(std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t count = std::min<std::uint64_t>(size / sizeof(Elf64_Dyn), 4096);
  const auto bytes = ReadAt(offset, count * sizeof(Elf64_Dyn));
  for (std::size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.size(); at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    std::memcpy(&entry, bytes.data() + at, sizeof(entry));
    if (entry.d_tag == DT_NULL) return;
    if (entry.d_tag == DT_SYMTAB) dynamic_.symbols = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRTAB) dynamic_.strings = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) dynamic_.string_bytes = entry.d_un.d_val;
    if (entry.d_tag == DT_GNU_HASH) dynamic_.gnu_hash = entry.d_un.d_ptr;
  }
}

std::optional<std::uint64_t> ElfFile::OffsetOf(std::uint64_t address) const {
  for (const ElfSegment& segment : segments_)
    if (address >= segment.address && address - segment.address < segment.file_size)
      return segment.file_offset + (address - segment.address);
  return std::nullopt;
}

std::optional<std::uint64_t> ElfFile::OffsetOfCode(std::uint64_t address) const {
  for (const ElfSegment& segment : segments_)
    if (segment.is_executable && address >= segment.address &&
        address - segment.address < segment.file_size)
      return segment.file_offset + (address - segment.address);
  return std::nullopt;
}

std::optional<std::uint64_t> ElfFile::AddressOfOffset(std::uint64_t file_offset) const {
  for (const ElfSegment& segment : segments_)
    if (segment.is_executable && file_offset >= segment.file_offset &&
        file_offset - segment.file_offset < segment.file_size)
      return segment.address + (file_offset - segment.file_offset);
  return std::nullopt;
}

std::optional<std::uint64_t> ElfFile::BiasOf(const Mapping& mapping) const {
  // The mapping begins at a page, the segment within it.
  const std::uint64_t pages = (mapping.end - mapping.start);
  for (const ElfSegment& segment : segments_)
    if (segment.is_executable == mapping.IsExecutable() && segment.file_offset >= mapping.offset &&
        segment.file_offset - mapping.offset < pages)
      return mapping.start + (segment.file_offset - mapping.offset) - segment.address;
  return std::nullopt;
}

const std::vector<ElfFile::Function>& ElfFile::Functions() {
  if (!functions_) functions_ = ReadFunctionTable();
  return *functions_;
}

std::vector<ElfFile::Function> ElfFile::ReadFunctionTable() const {
  std::vector<Function> functions;
  if (!function_table_) return functions;
  const auto head = Get<FunctionTableHead>(function_table_->file_offset);
  if (!head || head->version != 1 || head->count_encoding != kCountUdata4 ||
      head->table_encoding != kTableDatarelSdata4)
    return functions;
  const std::uint64_t count = std::min<std::uint64_t>(head->count, kMaxFunctions);
  const auto bytes = ReadAt(function_table_->file_offset + sizeof(FunctionTableHead),
                            count * sizeof(FunctionTableEntry));
  functions.reserve(bytes.size() / sizeof(FunctionTableEntry));
  for (std::size_t at = 0; at + sizeof(FunctionTableEntry) <= bytes.size();
       at += sizeof(FunctionTableEntry)) {
    FunctionTableEntry entry;
    std::memcpy(&entry, bytes.data() + at, sizeof(entry));
    const std::uint64_t start = After(function_table_->address, entry.function);
    if (OffsetOfCode(start))
      functions.push_back({start, After(function_table_->address, entry.unwinding)});
  }
  std::sort(functions.begin(), functions.end());
  return functions;
}

bool ElfFile::IsFunctionStart(std::uint64_t address) {
  return std::binary_search(Functions().begin(), Functions().end(), Function{address, 0});
}

// The entry names its function again, in the encoding that all compilers use for code within 2 GiB;
// one that does not is not understood.
std::optional<std::uint64_t> ElfFile::LengthOf(const Function& function) const {
  struct {
    std::uint32_t length;
    std::uint32_t common;
    std::int32_t start;  // from this field
    std::uint32_t code_bytes;
  } entry;
  const auto offset = OffsetOf(function.unwinding);
  if (!offset || !ReadExactly(*offset, &entry, sizeof(entry))) return std::nullopt;
  if (After(function.unwinding + 8, entry.start) != function.start) return std::nullopt;
  return entry.code_bytes;
}

std::vector<unsigned char> ElfFile::FunctionBytes(std::uint64_t start) {
  const auto function =
      std::lower_bound(Functions().begin(), Functions().end(), Function{start, 0});
  const auto offset = OffsetOfCode(start);
  if (!offset || function == Functions().end() || function->start != start) return {};
  std::uint64_t bytes = kMaxFunctionBytes;
  const auto next = std::upper_bound(function, Functions().cend(), *function);
  if (next != Functions().end()) bytes = std::min(bytes, next->start - start);
  if (const auto length = LengthOf(*function)) bytes = std::min(bytes, *length);
  for (const ElfSegment& segment : segments_)
    if (segment.is_executable && *offset - segment.file_offset < segment.file_size)
      bytes = std::min(bytes, segment.file_size - (*offset - segment.file_offset));
  return ReadAt(*offset, bytes);
}

}  // namespace rls
