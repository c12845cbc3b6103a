// A set of numbers that mostly follow each other, such as correlation ids: a bit for each.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace rls {

class ShimGpuIds {
 public:
  void Add(std::uint32_t id) {
    std::unique_ptr<Page>& page = pages_[id / kPageBits];
    if (page == nullptr) page = std::make_unique<Page>();
    page->set(id % kPageBits);
  }

  bool Has(std::uint32_t id) const {
    const auto page = pages_.find(id / kPageBits);
    return page != pages_.end() && page->second->test(id % kPageBits);
  }

 private:
  static constexpr std::uint32_t kPageBits = 1U << 15;
  using Page = std::bitset<kPageBits>;

  std::unordered_map<std::uint32_t, std::unique_ptr<Page>> pages_;
};

}  // namespace rls
