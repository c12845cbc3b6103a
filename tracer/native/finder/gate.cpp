#include "finder/gate.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "finder/site.h"

namespace rls {
namespace {

constexpr std::uint64_t kMaxFunctionBytes = 1 << 20;

Gated Rejected(const char* reason) { return {{}, false, 0, reason}; }

Gated SiteIn(const std::vector<unsigned char>& code, std::uint64_t offset, std::uint64_t start) {
  const auto found = FindCheapSite(code);
  if (const auto* distance = std::get_if<std::uint64_t>(&found))
    return {offset + *distance, false, start, nullptr};
  if (!IsEnteredOnce(code)) return Rejected("in a loop");
  if (!MayBeStepped(code)) return Rejected("cannot be stepped");
  return {offset, true, start, nullptr};
}

}  // namespace

Gated PassGate(ElfFile& file, std::uint64_t function_offset) {
  const auto start = file.AddressOfOffset(function_offset);
  if (!file.IsValid()) return Rejected("file unreadable");
  if (!start) return Rejected("not in the file's text");
  if (!file.HasFunctionTable()) return Rejected("no function table");
  if (!file.IsFunctionStart(*start)) return Rejected("not a function start");
  return SiteIn(file.FunctionBytes(*start), function_offset, *start);
}

Gated PassGate(ElfFile& file, const ElfSymbol& symbol) {
  const auto offset = file.OffsetOfCode(symbol.address);
  if (!offset) return Rejected("not in the file's text");
  if (file.HasFunctionTable()) return PassGate(file, *offset);
  if (!symbol.is_function || symbol.size == 0) return Rejected("no function table");
  const auto code = file.ReadAt(*offset, std::min(symbol.size, kMaxFunctionBytes));
  return SiteIn(code, *offset, symbol.address);
}

}  // namespace rls
