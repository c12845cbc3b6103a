// The gate: where a function may be probed, and whether it may be at all.
#pragma once

#include <cstdint>
#include <optional>

#include "finder/elf.h"

namespace rls {

struct Gated {
  std::optional<std::uint64_t> site;  // file offset
  bool is_expensive;                  // the instruction there is single-stepped
  std::uint64_t start;                // of the function, as linked
  const char* reason;                 // why not; null where there is a site
};

// An address that is not the start of a function never gets a probe.
Gated PassGate(ElfFile& file, std::uint64_t function_offset);

// The same for a function that the file has a symbol of: where the table for unwinding is missing,
// the symbol tells the start and the length.
Gated PassGate(ElfFile& file, const ElfSymbol& symbol);

}  // namespace rls
