// A 64-bit ELF file of somebody else, read piece by piece. Every count and offset in it is
// taken for a lie until it fits the file: a damaged file has fewer symbols and functions, nothing
// worse.
#pragma once

#include <elf.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "finder/process.h"

namespace rls {

struct ElfSegment {
  std::uint64_t file_offset;
  std::uint64_t file_size;
  std::uint64_t address;  // as linked, before relocation
  std::uint64_t memory_size;
  bool is_executable;
  bool is_writable;
};

struct ElfSymbol {
  std::uint64_t address;  // as linked
  std::uint64_t size;
  bool is_function;
};

class ElfFile {
 public:
  explicit ElfFile(OwnedFd fd);

  // False: not an ELF file for this kind of machine.
  bool IsValid() const { return !segments_.empty(); }
  const std::vector<ElfSegment>& segments() const { return segments_; }

  std::optional<std::uint64_t> AddressOfOffset(std::uint64_t file_offset) const;
  // Of code only: what lies in no executable segment has none.
  std::optional<std::uint64_t> OffsetOfCode(std::uint64_t address) const;
  // How far the file was moved in memory, from one of its mappings.
  std::optional<std::uint64_t> BiasOf(const Mapping& mapping) const;

  // Functions that can be unwound, by their start as linked, from .eh_frame_hdr, which strip
  // leaves, as exceptions need it.
  bool HasFunctionTable() { return !Functions().empty(); }
  bool IsFunctionStart(std::uint64_t address);
  // The bytes of the function that begins there, without padding; at most 1 MiB of it.
  std::vector<unsigned char> FunctionBytes(std::uint64_t start);

  // An exported symbol, by the hash table that the loader uses.
  std::optional<ElfSymbol> FindExported(const std::string& name);
  // The names of these functions (sorted, as linked), as far as the file tells.
  std::map<std::uint64_t, std::string> NamesOf(const std::vector<std::uint64_t>& starts);

  // The functions that are defined in the file and whose names begin so, by name: exported ones,
  // and those of the symbol table for debuggers, which strip removes.
  std::map<std::string, ElfSymbol> FunctionsNamed(const std::string& prefix) const;
  // Whether it asks another file for a symbol whose name begins so.
  bool Imports(const std::string& prefix) const;
  bool HasSection(const std::string& name) const;

  // Bytes of the file; what lies beyond its end is left out.
  std::vector<unsigned char> ReadAt(std::uint64_t offset, std::uint64_t count) const;

 private:
  struct Section {
    std::uint32_t type;
    std::uint64_t offset;
    std::uint64_t size;
    std::uint32_t link;
    std::uint32_t name;  // where it stands in the table of names
  };
  struct DynamicTables {
    std::uint64_t symbols = 0;  // addresses as linked; 0: absent
    std::uint64_t strings = 0;
    std::uint64_t string_bytes = 0;
    std::uint64_t gnu_hash = 0;
  };

  void ReadHeaders();
  std::vector<Section> Sections() const;
  using NamedVisitor =
      std::function<void(const std::string& name, bool is_defined, const ElfSymbol& symbol)>;
  // The functions and variables in the tables of this type whose names begin so.
  void VisitNamed(std::uint32_t table_type, const std::string& prefix,
                  const NamedVisitor& visit) const;
  void ReadDynamic(std::uint64_t offset, std::uint64_t size);
  struct Function {
    std::uint64_t start;
    std::uint64_t unwinding;  // the entry of .eh_frame; both as linked

    bool operator<(const Function& other) const { return start < other.start; }
  };
  const std::vector<Function>& Functions();
  std::vector<Function> ReadFunctionTable() const;
  std::optional<std::uint64_t> LengthOf(const Function& function) const;
  std::optional<std::uint64_t> OffsetOf(std::uint64_t address) const;
  std::optional<ElfSymbol> FindInChain(const std::string& name, std::uint32_t hash) const;
  std::optional<ElfSymbol> FindInSections(const std::string& name) const;
  // Those that are defined; until `visit` returns false.
  void ForEachSymbol(const Section& table,
                     const std::function<bool(const Elf64_Sym&)>& visit) const;
  template <typename T>
  std::optional<T> Get(std::uint64_t offset) const {
    T value;
    if (!ReadExactly(offset, &value, sizeof(T))) return std::nullopt;
    return value;
  }
  template <typename T>
  std::optional<T> GetAt(std::uint64_t address) const {
    const auto offset = OffsetOf(address);
    return offset ? Get<T>(*offset) : std::nullopt;
  }
  bool ReadExactly(std::uint64_t offset, void* bytes, std::size_t count) const;

  OwnedFd fd_;
  std::uint64_t size_ = 0;
  std::vector<ElfSegment> segments_;
  std::optional<ElfSegment> function_table_;
  DynamicTables dynamic_;
  std::optional<std::vector<Function>> functions_;
};

}  // namespace rls
