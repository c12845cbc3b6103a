// Where a probe goes within a function: the first instruction that the kernel can emulate.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace rls {

// Why a function can have no cheap probe.
enum class NoSite { kNoCheapInstruction, kInLoop };

// An instruction at a uprobe is emulated (nop, push, jmp, jcc, call; on aarch64 branches and adr)
// or single-stepped, which costs 18 times as much and traps twice. The probe may move from the
// start of the function to the first emulable instruction as long as the code in between runs
// straight on and leaves the stack pointer alone, and on aarch64 the link register: there the
// return address is still where a return probe looks for it. No jump within the function may lead
// to the site again, or one call would count as several.
//
// `code` holds the bytes of the function from its start. Returns the distance of the site from it.
std::variant<std::uint64_t, NoSite> FindCheapSite(const std::vector<unsigned char>& code);

// Whether a probe at the very start of the function sees each call once: the way that is left where
// no instruction is cheap.
bool IsEnteredOnce(const std::vector<unsigned char>& code);

// Whether the OS kernel takes a probe at the very start, where it has to step the instruction.
bool MayBeStepped(const std::vector<unsigned char>& code);

}  // namespace rls
