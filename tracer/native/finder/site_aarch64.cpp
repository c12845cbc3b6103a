#include <cstring>
#include <optional>

#include "finder/site.h"

namespace rls {
namespace {

constexpr std::uint64_t kMaxMove = 64;  // farther than any prologue goes without a branch
constexpr std::uint64_t kBytes = 4;     // of every instruction
constexpr std::uint32_t kLink = 30;     // register with the return address
constexpr std::uint32_t kStack = 31;

std::uint32_t WordAt(const std::vector<unsigned char>& code, std::uint64_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, code.data() + at, sizeof(word));
  return word;
}

std::uint32_t Bits(std::uint32_t word, unsigned low, unsigned count) {
  return word >> low & ((1U << count) - 1);
}

// A signed field, in bytes: it counts instructions.
std::int64_t Distance(std::uint32_t word, unsigned low, unsigned bits) {
  const auto shifted = static_cast<std::int32_t>(word << (32 - low - bits));
  return std::int64_t{shifted >> (32 - bits)} * 4;
}

// Where a direct jump leads, from where it stands; a call is none. nullopt: no such jump.
std::optional<std::int64_t> JumpDistance(std::uint32_t word) {
  if ((word & 0xfc000000) == 0x14000000) return Distance(word, 0, 26);  // b
  if ((word & 0xff000000) == 0x54000000) return Distance(word, 5, 19);  // b.cond
  if ((word & 0x7e000000) == 0x34000000) return Distance(word, 5, 19);  // cbz, cbnz
  if ((word & 0x7e000000) == 0x36000000) return Distance(word, 5, 14);  // tbz, tbnz
  return std::nullopt;
}

// What arch/arm64/kernel/probes/decode-insn.c emulates on every version that has uprobes. Loads
// from beside the code are left out: some versions emulate them wrongly, later ones refuse them.
bool IsEmulated(std::uint32_t word) {
  if (JumpDistance(word)) return true;
  return (word & 0xfc000000) == 0x94000000      // bl
         || (word & 0x1f000000) == 0x10000000   // adr, adrp
         || (word & 0xff9ffc1f) == 0xd61f0000;  // br, blr, ret
}

// bti, and nop: the only ones of their class that change nothing.
bool IsLandingPad(std::uint32_t word) { return (word & 0xffffff3f) == 0xd503241f; }
bool IsNop(std::uint32_t word) { return word == 0xd503201f; }

// Branches, system calls, system registers, and signing of the return address.
bool IsControl(std::uint32_t word) { return Bits(word, 26, 3) == 5; }

// Whether one of its registers may be that of the return address: what is no register in some
// instruction counts too.
bool MayUseLink(std::uint32_t word) {
  for (const unsigned low : {0U, 5U, 10U, 16U})
    if (Bits(word, low, 5) == kLink) return true;
  return false;
}

bool MayMoveStack(std::uint32_t word) {
  const bool is_load_or_store = Bits(word, 25, 1) == 0 && Bits(word, 27, 1) == 1;
  if (is_load_or_store) return Bits(word, 5, 5) == kStack;
  // add, sub, and, or, xor with a number, or with a register that is extended.
  return Bits(word, 0, 5) == kStack && Bits(word, 29, 2) != 3 &&
         !(Bits(word, 29, 1) == 1 && Bits(word, 24, 5) == 0x11);
}

std::optional<std::uint64_t> FirstEmulated(const std::vector<unsigned char>& code) {
  for (std::uint64_t at = 0; at + kBytes <= code.size() && at < kMaxMove; at += kBytes) {
    const std::uint32_t word = WordAt(code, at);
    if (IsEmulated(word)) return at;
    if (IsLandingPad(word) || IsNop(word)) continue;
    if (IsControl(word) || MayUseLink(word) || MayMoveStack(word)) return std::nullopt;
  }
  return std::nullopt;
}

bool IsInLoop(const std::vector<unsigned char>& code, std::uint64_t site) {
  for (std::uint64_t at = 0; at + kBytes <= code.size(); at += kBytes) {
    const auto distance = JumpDistance(WordAt(code, at));
    if (!distance) continue;
    const std::int64_t to = static_cast<std::int64_t>(at) + *distance;
    if (to >= 0 && to <= static_cast<std::int64_t>(site)) return true;
  }
  return false;
}

}  // namespace

std::variant<std::uint64_t, NoSite> FindCheapSite(const std::vector<unsigned char>& code) {
  const auto site = FirstEmulated(code);
  if (!site) return NoSite::kNoCheapInstruction;
  if (IsInLoop(code, *site)) return NoSite::kInLoop;
  return *site;
}

bool IsEnteredOnce(const std::vector<unsigned char>& code) {
  return code.size() >= kBytes && !IsInLoop(code, 0);
}

bool MayBeStepped(const std::vector<unsigned char>& code) {
  if (code.size() < kBytes) return false;
  const std::uint32_t word = WordAt(code, 0);
  const bool is_literal = (word & 0x3b000000) == 0x18000000;    // ldr, ldrsw, prfm
  const bool is_exclusive = (word & 0x3f000000) == 0x08000000;  // ldxr, stxr, and with order
  return !is_literal && !is_exclusive;
}

}  // namespace rls
