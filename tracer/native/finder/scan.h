// A pass over the writable memory of a process, in search of objects of given types.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "finder/objects.h"
#include "finder/process.h"

namespace rls {

struct ScanBytes {
  std::uint64_t scanned = 0;
  std::uint64_t left_out = 0;  // beyond the budget, or not known to be in memory
  bool is_cut = false;         // more objects than a real program has
};

class MemoryScan {
 public:
  // Private writable memory, small mappings first: objects live there, tensors in the large ones.
  // What is not in memory (never touched, or swapped out) holds nothing and stays as it is.
  MemoryScan(const TargetProcess& process, const std::vector<Mapping>& maps,
             std::uint64_t budget_bytes);

  using Found = std::function<void(std::uint64_t object, std::uint64_t type, ObjectRole role)>;
  // Calls `found` for each 8-byte word that is the address of one of the types; `type_field` is the
  // place of the type in an object. Instances are not looked for among the variables of modules:
  // they are made at run time.
  void ForEach(const std::map<std::uint64_t, ObjectRole>& types, std::uint64_t type_field,
               const Found& found);

  const ScanBytes& bytes() const { return bytes_; }

 private:
  struct Part {
    AddressRange range;
    bool is_of_file;
  };

  const TargetProcess& process_;
  std::vector<Part> parts_;
  ScanBytes bytes_;
};

}  // namespace rls
