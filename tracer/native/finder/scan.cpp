#include "finder/scan.h"

#include <algorithm>
#include <bitset>

namespace rls {
namespace {

constexpr std::size_t kChunkWords = 1 << 17;                        // 1 MiB
constexpr std::uint64_t kMaxMappingBytes = std::uint64_t{1} << 36;  // 64 GiB: reserved, not used
constexpr std::uint64_t kMaxObjects = 1 << 20;

bool HoldsObjects(const Mapping& mapping) {
  const bool is_private =
      mapping.permissions.compare(0, 2, "rw") == 0 && mapping.permissions[3] == 'p';
  return is_private && mapping.path != "[stack]" && mapping.end - mapping.start <= kMaxMappingBytes;
}

// Tells most words that are no type's address from the few that may be, in two loads.
class TypeFilter {
 public:
  explicit TypeFilter(const std::map<std::uint64_t, ObjectRole>& types)
      : lowest_(types.begin()->first), span_(types.rbegin()->first - lowest_) {
    for (const auto& [type, role] : types) bits_.set(Index(type));
  }

  bool MayBe(std::uint64_t word) const { return word - lowest_ <= span_ && bits_[Index(word)]; }

 private:
  // Types are aligned to 8 or 16 bytes.
  static std::size_t Index(std::uint64_t word) { return (word >> 3 ^ word >> 19) & 0xffff; }

  std::uint64_t lowest_;
  std::uint64_t span_;
  std::bitset<65536> bits_;
};

}  // namespace

MemoryScan::MemoryScan(const TargetProcess& process, const std::vector<Mapping>& maps,
                       std::uint64_t budget_bytes)
    : process_(process) {
  std::vector<const Mapping*> mappings;
  for (const Mapping& mapping : maps)
    if (HoldsObjects(mapping)) mappings.push_back(&mapping);
  std::stable_sort(mappings.begin(), mappings.end(), [](const Mapping* a, const Mapping* b) {
    return a->end - a->start < b->end - b->start;
  });
  for (const Mapping* mapping : mappings) {
    if (!process.knows_present()) bytes_.left_out += mapping->end - mapping->start;
    for (AddressRange range : process.Present({mapping->start, mapping->end})) {
      const std::uint64_t size = range.end - range.start;
      const std::uint64_t taken = std::min(size, budget_bytes - bytes_.scanned);
      bytes_.scanned += taken;
      bytes_.left_out += size - taken;
      range.end = range.start + taken;
      if (taken > 0) parts_.push_back({range, mapping->inode != 0});
    }
  }
}

void MemoryScan::ForEach(const std::map<std::uint64_t, ObjectRole>& types, std::uint64_t type_field,
                         const Found& found) {
  if (types.empty()) return;
  const TypeFilter filter(types);
  std::vector<std::uint64_t> words(kChunkWords);
  std::uint64_t objects = 0;
  for (const auto& [range, is_of_file] : parts_) {
    for (std::uint64_t at = range.start; at < range.end;) {
      const std::uint64_t wanted = std::min<std::uint64_t>(range.end - at, kChunkWords * 8);
      const std::size_t count = process_.ReadMost(at, words.data(), wanted) / 8;
      for (std::size_t i = 0; i < count; ++i) {
        if (!filter.MayBe(words[i])) continue;
        const auto type = types.find(words[i]);
        if (type == types.end()) continue;
        if (is_of_file && type->second == ObjectRole::kVectorcallInstance) continue;
        if (++objects > kMaxObjects) {
          bytes_.is_cut = true;
          return;
        }
        found(at + i * 8 - type_field, type->first, type->second);
      }
      at += wanted;
    }
  }
}

}  // namespace rls
