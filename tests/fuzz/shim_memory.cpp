// The memory that a process shares with the recorder: it may write anything there at any time.
#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "shim/memory.h"
#include "shim/watch.h"
#include "support.h"

namespace rls::fuzz {
namespace {

constexpr std::uint32_t kSlots = 2;  // more would be the same again

std::uint32_t Word(std::size_t value) { return static_cast<std::uint32_t>(value); }

rls_shim_header GoodHeader() {
  rls_shim_header header = {};
  header.magic = RLS_SHIM_MAGIC;
  header.version = RLS_SHIM_VERSION;
  header.header_bytes = RLS_SHIM_HEADER_BYTES;
  header.file_bytes = RLS_SHIM_FILE_BYTES;
  header.slot_count = RLS_SHIM_SLOTS;
  header.slot_bytes = RLS_SHIM_SLOT_BYTES;
  header.control_bytes = RLS_SHIM_CONTROL_BYTES;
  header.ring_bytes = RLS_SHIM_RING_BYTES;
  return header;
}

// The memfd of the process, and its own mapping of it.
class Victim {
 public:
  Victim() : fd_(memfd_create(RLS_SHIM_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    Claim(ftruncate(fd_, static_cast<off_t>(RLS_SHIM_FILE_BYTES)) == 0 &&
              fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
          "a memfd can be sealed");
    memory_ = static_cast<char*>(
        mmap(nullptr, RLS_SHIM_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    Claim(memory_ != MAP_FAILED, "it can be mapped");
  }

  int fd() const { return fd_; }

  void WriteHeader(FuzzedDataProvider* input) {
    rls_shim_header header = GoodHeader();
    header.slots_used = input->ConsumeIntegral<std::uint32_t>();
    header.pid = Word(input->ConsumeIntegral<std::uint16_t>());
    // Seldom: such a memory is refused.
    if (input->ConsumeProbability<float>() > 0.95F) {
      const std::size_t at = input->ConsumeIntegralInRange<std::size_t>(0, 64);
      reinterpret_cast<char*>(&header)[at] = input->ConsumeIntegral<char>();
    }
    std::memcpy(memory_, &header, sizeof(header));
  }

  void WriteSlot(std::uint32_t number, FuzzedDataProvider* input) {
    char* base = memory_ + RLS_SHIM_HEADER_BYTES + number * std::size_t{RLS_SHIM_SLOT_BYTES};
    rls_shim_slot slot = {};
    // Near the end of a ring, so that records go around it.
    slot.tail = input->ConsumeBool() ? RLS_SHIM_RING_BYTES - 4 * RLS_SHIM_CELL_BYTES
                                     : input->ConsumeIntegral<std::uint64_t>();
    const auto cells = input->ConsumeBytes<char>(input->ConsumeIntegralInRange<int>(0, 4096));
    const std::size_t whole = cells.size() / RLS_SHIM_CELL_BYTES * RLS_SHIM_CELL_BYTES;
    slot.head = input->ConsumeBool() ? input->ConsumeIntegral<std::uint64_t>() : slot.tail + whole;
    slot.depth = input->ConsumeIntegral<std::uint32_t>();
    slot.owner = input->ConsumeIntegral<std::uint32_t>();
    std::memcpy(base, &slot, sizeof(slot));
    for (std::size_t at = 0; at < cells.size(); ++at)
      base[RLS_SHIM_CONTROL_BYTES + ((slot.tail + at) & (RLS_SHIM_RING_BYTES - 1))] = cells[at];
  }

 private:
  int fd_;
  char* memory_;
};

void Read(ShimMemory* memory, bool is_nested) {
  ShimWatch watch(static_cast<std::uint32_t>(getpid()), is_nested);
  (void)memory->Attach("fuzz");
  const std::uint32_t slots = std::min(memory->slots(), kSlots);
  Claim(memory->slots() <= RLS_SHIM_SLOTS, "there are no more slots than there can be");
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    const ShimSpan span = memory->Peek(slot);
    Claim(span.bytes() <= RLS_SHIM_RING_BYTES, "no more lies in a ring than fits");
    for (const ShimTid& tid : watch.Look(span)) watch.Forget(tid);
    memory->Release(slot, span);
    Claim(memory->Peek(slot).bytes() < RLS_SHIM_CELL_BYTES || memory->Peek(slot).is_damaged,
          "what was read is not there any more");
    (void)memory->Counters(slot);
    rls_shim_open open[RLS_SHIM_MAX_DEPTH];
    Claim(memory->Open(slot, open) <= RLS_SHIM_MAX_DEPTH, "a stack is no deeper than it can be");
  }
  (void)memory->Lost();
  memory->FetchGpu();
  (void)memory->IsGpuFetched();
  memory->Detach();
}

}  // namespace
}  // namespace rls::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rls;
  static fuzz::Victim victim;
  FuzzedDataProvider input(data, size);
  const bool is_nested = input.ConsumeBool();
  victim.WriteHeader(&input);
  for (std::uint32_t slot = 0; slot < fuzz::kSlots; ++slot) victim.WriteSlot(slot, &input);
  try {
    ShimMemory memory(victim.fd());
    fuzz::Read(&memory, is_nested);
  } catch (const std::runtime_error&) {
    // Refused: not the memory of a shim of this version.
  }
  return 0;
}
