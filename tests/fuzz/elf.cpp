// A file of code that the target has mapped: its symbols and functions, where they may be probed,
// and what the injector reads of the C library.
#include "finder/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "finder/function_file.h"
#include "finder/gate.h"
#include "inject/error.h"
#include "inject/loaded_object.h"
#include "inject/maps.h"
#include "support.h"

namespace rls::fuzz {
namespace {

constexpr std::size_t kMostAsked = 16;

// An offset or address of the file, from the header: mutations of it reach the code that way.
std::vector<std::uint64_t> Places(const ElfFile& file) {
  std::vector<std::uint64_t> places = {0, 64, 4096};
  for (const ElfSegment& segment : file.segments()) {
    if (places.size() > kMostAsked) break;
    places.push_back(segment.file_offset);
    places.push_back(segment.address + 16);
  }
  return places;
}

void ReadByFinder(const MemoryFile& memory) {
  ElfFile file(OwnedFd(dup(memory.fd())));
  for (const char* name : {"rls_a", "PyType_Type", ""}) {
    const auto symbol = file.FindExported(name);
    if (symbol) (void)PassGate(file, *symbol);
  }
  const std::vector<std::uint64_t> places = Places(file);
  for (const std::uint64_t place : places) {
    const Gated gated = PassGate(file, place);
    Claim(gated.site.has_value() == (gated.reason == nullptr), "there is a site or a reason");
    (void)file.FunctionBytes(place);
  }
  std::vector<std::uint64_t> starts = places;
  std::sort(starts.begin(), starts.end());
  (void)file.NamesOf(starts);
  (void)file.Imports("rls_");
  (void)file.HasSection(".text");
}

void ReadByName(const MemoryFile& memory) {
  FunctionFile file(memory.path());
  const std::vector<std::string> names = file.Names("");
  for (const std::string& name : names)
    for (const char letter : name) Claim(letter > 0x20 && letter < 0x7f, "a name is printable");
  (void)file.Sites({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(
                                                       std::min(names.size(), kMostAsked))});
}

void ReadByInjector(const MemoryFile& memory) {
  const Mapping mapping = {0x10000, 0x20000, 0, 1, "r-xp", "00:01", memory.path()};
  try {
    const LoadedObject object(getpid(), {mapping}, mapping);
    (void)object.FindSymbol("rls_a");
    (void)object.FindCode({0x0f, 0x05, 0xc3});
  } catch (const InjectError&) {
    // No object that is understood.
  }
}

}  // namespace
}  // namespace rls::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static rls::fuzz::MemoryFile memory;
  memory.Set(data, size);
  rls::fuzz::ReadByFinder(memory);
  rls::fuzz::ReadByName(memory);
  rls::fuzz::ReadByInjector(memory);
  return 0;
}
