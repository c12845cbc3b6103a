// The symbols of an ELF file by the beginning of their names.
#include <elf.h>

#include <algorithm>
#include <cstring>

#include "finder/elf.h"

namespace rls {
namespace {

// Of a table: larger ones are those of whole frameworks, which the disk would be busy with.
constexpr std::uint64_t kMaxTableBytes = 64 << 20;
constexpr std::size_t kMaxName = 256;
// Of one file: the libraries of CUDA export some hundreds.
constexpr std::size_t kMaxFunctions = 65536;

bool BeginsWith(const std::vector<unsigned char>& strings, std::uint64_t at,
                const std::string& prefix) {
  return at < strings.size() && strings.size() - at > prefix.size() &&
         std::memcmp(strings.data() + at, prefix.data(), prefix.size()) == 0;
}

bool IsPlain(const char* name, std::size_t length) {
  return std::all_of(name, name + length, [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

void ElfFile::VisitNamed(std::uint32_t table_type, const std::string& prefix,
                         const NamedVisitor& visit) const {
  const auto sections = Sections();
  for (const Section& table : sections) {
    if (table.type != table_type) continue;
    // A file has one table of each type: who wrote more wants them read.
    if (table.link >= sections.size()) return;
    const Section& text = sections[table.link];
    if (table.size > kMaxTableBytes || text.size > kMaxTableBytes) return;
    const auto symbols = ReadAt(table.offset, table.size);
    const auto strings = ReadAt(text.offset, text.size);
    for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, symbols.data() + at, sizeof(symbol));
      if (!BeginsWith(strings, symbol.st_name, prefix)) continue;
      const auto* name = reinterpret_cast<const char*>(strings.data() + symbol.st_name);
      const std::size_t room = strings.size() - symbol.st_name;
      const std::size_t length = strnlen(name, room);
      if (length == room || length > kMaxName || !IsPlain(name, length)) continue;
      visit(std::string(name, length), symbol.st_shndx != SHN_UNDEF,
            {symbol.st_value, symbol.st_size, ELF64_ST_TYPE(symbol.st_info) == STT_FUNC});
    }
    return;
  }
}

std::map<std::string, ElfSymbol> ElfFile::FunctionsNamed(const std::string& prefix) const {
  std::map<std::string, ElfSymbol> found;
  for (const std::uint32_t type : {SHT_DYNSYM, SHT_SYMTAB})
    VisitNamed(type, prefix,
               [&](const std::string& name, bool is_defined, const ElfSymbol& symbol) {
                 if (is_defined && symbol.is_function && found.size() < kMaxFunctions)
                   found.emplace(name, symbol);
               });
  return found;
}

bool ElfFile::Imports(const std::string& prefix) const {
  bool found = false;
  VisitNamed(SHT_DYNSYM, prefix,
             [&](const std::string&, bool is_defined, const ElfSymbol&) { found |= !is_defined; });
  return found;
}

bool ElfFile::HasSection(const std::string& name) const {
  const auto header = Get<Elf64_Ehdr>(0);
  const auto sections = Sections();
  if (!header || header->e_shstrndx >= sections.size()) return false;
  const Section& names = sections[header->e_shstrndx];
  for (const Section& section : sections) {
    if (section.name >= names.size) continue;
    const auto text = ReadAt(names.offset + section.name, name.size() + 1);
    if (text.size() == name.size() + 1 && std::memcmp(text.data(), name.c_str(), text.size()) == 0)
      return true;
  }
  return false;
}

}  // namespace rls
