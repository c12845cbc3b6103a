// Numbers the paths that one thread meets, from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace rls {

class PathNumbers {
 public:
  void restart() {
    for (const int32_t path : paths_) {
      if (is_small(path)) number_of_[static_cast<std::size_t>(path)] = kNone;
    }
    large_.clear();
    paths_.clear();
  }

  uint32_t number(int32_t path) {
    if (!is_small(path)) return number_large(path);
    const auto at = static_cast<std::size_t>(path);
    if (at >= number_of_.size()) number_of_.resize(at + 1, kNone);
    if (number_of_[at] == kNone) number_of_[at] = add(path);
    return number_of_[at];
  }

  int32_t path(std::size_t number) const { return paths_[number]; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // Ids are dense in traces of ours; others must not cost memory by their size.
  static constexpr int32_t kSmall = 1 << 20;

  static bool is_small(int32_t path) { return 0 <= path && path < kSmall; }

  uint32_t number_large(int32_t path) {
    const auto found = large_.find(path);
    if (found != large_.end()) return found->second;
    return large_[path] = add(path);
  }

  uint32_t add(int32_t path) {
    paths_.push_back(path);
    return static_cast<uint32_t>(paths_.size() - 1);
  }

  std::vector<uint32_t> number_of_;
  std::unordered_map<int32_t, uint32_t> large_;
  std::vector<int32_t> paths_;
};

}  // namespace rls
