// The symbols of an ELF file: by name for the few we need, by address for those we found.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "finder/elf.h"

namespace rls {
namespace {

constexpr std::uint64_t kMaxTableBytes = 64 << 20;
// Tables are read in pieces: a file may claim more than it takes on disk.
constexpr std::uint64_t kSymbolsAtOnce = 1 << 15;
constexpr std::uint64_t kMaxStringBytes = 64 << 20;
// Functions have a few names each.
constexpr std::size_t kMaxNames = 16;
// Linkers make about as many chains as there are symbols: real ones have some entries.
constexpr std::uint32_t kMaxChain = 1 << 12;
constexpr std::size_t kMaxName = 1024;

struct HashHead {
  std::uint32_t buckets;
  std::uint32_t first_symbol;
  std::uint32_t bloom_words;
  std::uint32_t bloom_shift;
};

std::uint32_t GnuHash(const std::string& name) {
  std::uint32_t hash = 5381;
  for (const char letter : name) hash = hash * 33 + static_cast<unsigned char>(letter);
  return hash;
}

std::optional<ElfSymbol> AsSymbol(const Elf64_Sym& symbol) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  // The address of an indirect function is that of its resolver.
  if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT)) return std::nullopt;
  return ElfSymbol{symbol.st_value, symbol.st_size, type == STT_FUNC};
}

std::string TextAt(const std::vector<unsigned char>& strings, std::uint64_t at) {
  if (at >= strings.size()) return {};
  const auto* text = reinterpret_cast<const char*>(strings.data() + at);
  return std::string(text, strnlen(text, std::min(strings.size() - at, kMaxName)));
}

bool IsPrintable(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

std::optional<ElfSymbol> ElfFile::FindExported(const std::string& name) {
  if (dynamic_.gnu_hash != 0 && dynamic_.symbols != 0 && dynamic_.strings != 0)
    return FindInChain(name, GnuHash(name));
  return FindInSections(name);
}

// The table is: head, bloom filter (8 bytes a word), buckets, then one hash for each symbol from
// `first_symbol` on, whose lowest bit marks the end of its bucket.
std::optional<ElfSymbol> ElfFile::FindInChain(const std::string& name, std::uint32_t hash) const {
  const auto head = GetAt<HashHead>(dynamic_.gnu_hash);
  if (!head || head->buckets == 0 || head->bloom_words == 0) return std::nullopt;
  const std::uint64_t bloom = dynamic_.gnu_hash + sizeof(HashHead);
  const auto word = GetAt<std::uint64_t>(bloom + hash / 64 % head->bloom_words * 8);
  const std::uint32_t second = head->bloom_shift < 32 ? hash >> head->bloom_shift : 0;
  if (!word || (*word >> hash % 64 & *word >> second % 64 & 1) == 0) return std::nullopt;
  const std::uint64_t buckets = bloom + std::uint64_t{head->bloom_words} * 8;
  const auto first = GetAt<std::uint32_t>(buckets + std::uint64_t{hash % head->buckets} * 4);
  if (!first || *first < head->first_symbol) return std::nullopt;
  const std::uint64_t chain = buckets + std::uint64_t{head->buckets} * 4;
  for (std::uint32_t step = 0; step < kMaxChain; ++step) {
    const std::uint64_t index = std::uint64_t{*first} + step;
    const auto other = GetAt<std::uint32_t>(chain + (index - head->first_symbol) * 4);
    if (!other) return std::nullopt;
    if ((*other | 1) == (hash | 1)) {
      const auto symbol = GetAt<Elf64_Sym>(dynamic_.symbols + index * sizeof(Elf64_Sym));
      const auto text = symbol ? OffsetOf(dynamic_.strings + symbol->st_name) : std::nullopt;
      if (text && TextAt(ReadAt(*text, name.size() + 2), 0) == name) return AsSymbol(*symbol);
    }
    if ((*other & 1) != 0) return std::nullopt;
  }
  return std::nullopt;
}

std::vector<ElfFile::Section> ElfFile::Sections() const {
  std::vector<Section> sections;
  const auto header = Get<Elf64_Ehdr>(0);
  for (unsigned i = 0; header && i < header->e_shnum; ++i) {
    const auto section = Get<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) break;
    sections.push_back({section->sh_type, section->sh_offset, section->sh_size, section->sh_link,
                        section->sh_name});
  }
  return sections;
}

void ElfFile::ForEachSymbol(const Section& table,
                            const std::function<bool(const Elf64_Sym&)>& visit) const {
  const std::uint64_t size = std::min(table.size, kMaxTableBytes);
  for (std::uint64_t done = 0; done < size; done += kSymbolsAtOnce * sizeof(Elf64_Sym)) {
    const auto part =
        ReadAt(table.offset + done, std::min(size - done, kSymbolsAtOnce * sizeof(Elf64_Sym)));
    for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= part.size(); at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, part.data() + at, sizeof(symbol));
      if (symbol.st_shndx != SHN_UNDEF && !visit(symbol)) return;
    }
  }
}

std::optional<ElfSymbol> ElfFile::FindInSections(const std::string& name) const {
  const auto sections = Sections();
  for (const Section& table : sections) {
    if (table.type != SHT_DYNSYM) continue;
    // A file has one table of each type: who wrote more wants them read.
    if (table.link >= sections.size()) return std::nullopt;
    const Section& text = sections[table.link];
    const auto strings = ReadAt(text.offset, std::min(text.size, kMaxStringBytes));
    std::optional<ElfSymbol> found;
    ForEachSymbol(table, [&](const Elf64_Sym& symbol) {
      const bool is_it = TextAt(strings, symbol.st_name) == name;
      if (is_it) found = AsSymbol(symbol);
      return !is_it;
    });
    return found;
  }
  return std::nullopt;
}

std::map<std::uint64_t, std::string> ElfFile::NamesOf(const std::vector<std::uint64_t>& starts) {
  std::map<std::uint64_t, std::string> names;
  std::set<std::uint32_t> seen;
  std::size_t left = starts.size() * kMaxNames;
  const auto sections = Sections();
  for (const Section& table : sections) {
    if ((table.type != SHT_SYMTAB && table.type != SHT_DYNSYM) || table.link >= sections.size() ||
        !seen.insert(table.type).second)
      continue;
    const Section& text = sections[table.link];
    ForEachSymbol(table, [&](const Elf64_Sym& symbol) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || names.count(symbol.st_value) != 0 ||
          !std::binary_search(starts.begin(), starts.end(), symbol.st_value))
        return true;
      if (left == 0) return false;
      --left;
      if (symbol.st_name >= text.size) return true;
      const auto room = std::min<std::uint64_t>(text.size - symbol.st_name, kMaxName);
      const std::string name = TextAt(ReadAt(text.offset + symbol.st_name, room), 0);
      if (IsPrintable(name)) names.emplace(symbol.st_value, name);
      return true;
    });
  }
  return names;
}

}  // namespace rls
