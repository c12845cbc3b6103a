// A set of numbers that mostly follow each other, such as correlation ids.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace rls {

class ShimGpuIds {
 public:
  void Add(std::uint32_t id) { pages_[id / kPageBits].Add(id % kPageBits); }

  bool Has(std::uint32_t id) const {
    const auto page = pages_.find(id / kPageBits);
    return page != pages_.end() && page->second.Has(id % kPageBits);
  }

 private:
  static constexpr std::uint32_t kPageBits = 1U << 15;
  // From here on a bit for each number takes less than a list of them.
  static constexpr std::size_t kMaxListed = kPageBits / 16;

  class Page {
   public:
    void Add(std::uint32_t id) {
      if (bits_ != nullptr) {
        bits_->set(id);
        return;
      }
      const auto place = std::lower_bound(listed_.begin(), listed_.end(), id);
      if (place != listed_.end() && *place == id) return;
      listed_.insert(place, static_cast<std::uint16_t>(id));
      if (listed_.size() >= kMaxListed) UseBits();
    }

    bool Has(std::uint32_t id) const {
      if (bits_ != nullptr) return bits_->test(id);
      return std::binary_search(listed_.begin(), listed_.end(), id);
    }

   private:
    void UseBits() {
      bits_ = std::make_unique<std::bitset<kPageBits>>();
      for (const std::uint16_t id : listed_) bits_->set(id);
      std::vector<std::uint16_t>().swap(listed_);
    }

    std::vector<std::uint16_t> listed_;  // in order; empty once there are bits
    std::unique_ptr<std::bitset<kPageBits>> bits_;
  };

  std::unordered_map<std::uint32_t, Page> pages_;
};

}  // namespace rls
