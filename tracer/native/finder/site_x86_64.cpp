#include <Zydis/Zydis.h>

#include <optional>

#include "finder/site.h"

namespace rls {
namespace {

constexpr std::uint64_t kMaxMove = 64;  // farther than any prologue goes without a push or a jump

struct Instruction {
  ZydisDecodedInstruction head;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

class Decoder {
 public:
  Decoder() { ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64); }

  bool Decode(const std::vector<unsigned char>& code, std::uint64_t at, Instruction* out) const {
    return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, code.data() + at, code.size() - at,
                                               &out->head, out->operands));
  }

 private:
  ZydisDecoder decoder_;
};

// What arch/x86/kernel/uprobes.c emulates, on every version since 4.18. It looks at bytes, so do
// we; forms with a prefix differ between versions and are left out.
bool IsEmulated(const unsigned char* byte, std::size_t length) {
  if (byte[0] == 0x90 || (length == 2 && byte[0] == 0x66 && byte[1] == 0x90)) return true;  // nop
  if (byte[0] >= 0x50 && byte[0] <= 0x57) return true;                                      // push
  if (length == 2 && byte[0] == 0x41 && byte[1] >= 0x50 && byte[1] <= 0x57) return true;  // r8-r15
  if (byte[0] == 0xe8 || byte[0] == 0xe9 || byte[0] == 0xeb) return true;  // call, jmp
  if (byte[0] >= 0x70 && byte[0] <= 0x7f) return true;                     // jcc
  return length == 6 && byte[0] == 0x0f && byte[1] >= 0x80 && byte[1] <= 0x8f;
}

bool RunsStraightOn(const Instruction& instruction) {
  switch (instruction.head.meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_SYSTEM:
      return false;
    default:
      return true;
  }
}

bool MovesStack(const Instruction& instruction) {
  for (unsigned i = 0; i < instruction.head.operand_count; ++i) {
    const ZydisDecodedOperand& operand = instruction.operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
        (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0 &&
        ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand.reg.value) ==
            ZYDIS_REGISTER_RSP)
      return true;
  }
  return false;
}

std::optional<std::uint64_t> FirstEmulated(const Decoder& decoder,
                                           const std::vector<unsigned char>& code) {
  Instruction instruction;
  for (std::uint64_t at = 0; at < code.size() && at < kMaxMove; at += instruction.head.length) {
    if (!decoder.Decode(code, at, &instruction)) return std::nullopt;
    if (IsEmulated(code.data() + at, instruction.head.length)) return at;
    if (!RunsStraightOn(instruction) || MovesStack(instruction)) return std::nullopt;
  }
  return std::nullopt;
}

// Whether a direct jump of the function leads to its start, its site, or in between, or may do so.
// A jump through a register into the middle of straight code does not occur in compiled code.
bool IsInLoop(const Decoder& decoder, const std::vector<unsigned char>& code, std::uint64_t site) {
  Instruction instruction;
  for (std::uint64_t at = 0; at < code.size(); at += instruction.head.length) {
    // Data within code: nobody knows what comes after it.
    if (!decoder.Decode(code, at, &instruction)) return true;
    const auto category = instruction.head.meta.category;
    if (category != ZYDIS_CATEGORY_COND_BR && category != ZYDIS_CATEGORY_UNCOND_BR) continue;
    const ZydisDecodedOperand& target = instruction.operands[0];
    if (target.type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !target.imm.is_relative) continue;
    const std::int64_t to =
        static_cast<std::int64_t>(at + instruction.head.length) + target.imm.value.s;
    if (to >= 0 && to <= static_cast<std::int64_t>(site)) return true;
  }
  return false;
}

}  // namespace

std::variant<std::uint64_t, NoSite> FindCheapSite(const std::vector<unsigned char>& code) {
  const Decoder decoder;
  const auto site = FirstEmulated(decoder, code);
  if (!site) return NoSite::kNoCheapInstruction;
  if (IsInLoop(decoder, code, *site)) return NoSite::kInLoop;
  return *site;
}

bool IsEnteredOnce(const std::vector<unsigned char>& code) {
  return !code.empty() && !IsInLoop(Decoder(), code, 0);
}

bool MayBeStepped(const std::vector<unsigned char>&) { return true; }

}  // namespace rls
