// The memory of a target: this process plays it. The input is a file that is mapped at kBase, and
// so an ELF file and memory at once: the interpreter in it, its objects, its code, names, and
// stacks.
#include "finder/process.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "finder/objects.h"
#include "finder/runtime.h"
#include "finder/scan.h"
#include "samples/classifier.h"
#include "samples/files.h"
#include "samples/names.h"
#include "samples/process.h"
#include "support.h"

namespace rls::fuzz {
namespace {

constexpr std::uint64_t kBase = 0x10000000;  // below what the sanitizers use
constexpr std::uint64_t kBytes = 1 << 16;
constexpr std::uint64_t kPage = 4096;

// What the target has mapped, and, beside it, code without a file with the same bytes.
class Target {
 public:
  Target() {
    const auto map = [](std::uint64_t at, int protection, int flags, int fd) {
      void* const wanted = reinterpret_cast<void*>(at);
      Claim(mmap(wanted, kBytes, protection, flags | MAP_FIXED_NOREPLACE, fd, 0) == wanted,
            "the memory of the target is free");
    };
    map(kBase, PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd());
    map(kBase + kBytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct stat status = {};
    Claim(fstat(file_.fd(), &status) == 0, "a file in memory has an inode");
    const Mapping code = {kBase, kBase + kBytes, 0, status.st_ino, "r-xp", "00:01", file_.path()};
    maps_ = {code, code};
    maps_[1].permissions = "rw-p";
  }

  void Set(const std::vector<char>& bytes) {
    file_.Set(bytes.data(), bytes.size());
    auto* code = reinterpret_cast<char*>(kBase + kBytes);
    std::copy(bytes.begin(), bytes.end(), code);
    std::memset(code + bytes.size(), 0, std::min<std::size_t>(kPage, kBytes - bytes.size()));
  }

  // Of the file, as code and as variables.
  const std::vector<Mapping>& maps() const { return maps_; }

 private:
  MemoryFile file_;
  std::vector<Mapping> maps_;
};

void FindObjects(const TargetProcess& process, const std::vector<Mapping>& maps,
                 const PythonRuntime& python) {
  WantedCode wanted;
  for (const Mapping& mapping : maps) wanted.Add(mapping, 0);
  wanted.Sort();
  MemoryScan scan(process, maps, kBytes / 2);
  ObjectReader reader(process, python.HeadBytes(), {kBase, kBase + 64}, wanted);
  std::map<std::uint64_t, ObjectRole> types;
  const ObjectRole roles[] = {ObjectRole::kFunction, ObjectRole::kMethod, ObjectRole::kSlot,
                              ObjectRole::kGetter, ObjectRole::kType};
  std::size_t next = 0;
  for (const auto& [name, address] : python.types) types.emplace(address, roles[next++ % 5]);
  for (int pass = 0; pass < 3 && !types.empty(); ++pass) {
    scan.ForEach(types, python.HeadBytes() - 8,
                 [&](std::uint64_t object, std::uint64_t type, ObjectRole role) {
                   reader.Read(object, type, role);
                 });
    types = reader.TakeNewTypes();
  }
  for (const auto& [function, use] : reader.uses()) {
    Claim(wanted.Find(function) != nullptr, "a function lies in the code that was asked for");
    for (const char letter : use.name) Claim(letter >= 0x20 && letter < 0x7f, "it is printable");
  }
}

void ReadNames(FuzzedDataProvider* input) {
  const int minor = input->ConsumeIntegralInRange<int>(9, 13);
  const SampledProcess process(getpid());
  PythonNames names(process, *FindPythonLayout(3, minor));
  for (std::uint64_t now_ns = 1; now_ns < 4; ++now_ns) {
    const std::uint64_t at = kBase + input->ConsumeIntegral<std::uint16_t>() / 8 * 8;
    const std::string* name = names.Find(at, now_ns * 2'000'000'000);
    if (name == nullptr) continue;
    for (const char letter : *name)
      Claim(static_cast<unsigned char>(letter) >= 0x20 && letter != 0x7f, "no control character");
  }
}

void ClassifySamples(FuzzedDataProvider* input) {
  static SampleFiles files({{"*/python3*", RLS_LAYER_PYTHON}});
  static SampledProcess process(getpid());
  process.Refresh(&files, 1, false);  // the first time only
  auto sample = Take<rls_raw_sample>(input);
  sample.ip = kBase + kBytes + sample.ip % kBytes;
  for (std::uint64_t& word : sample.stack)
    if (word % 2 == 0) word = kBase + kBytes + word % kBytes;
  Claim(Classify(sample, process).layer < RLS_LAYERS, "a sample has a layer that there is");
}

}  // namespace
}  // namespace rls::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rls;
  static fuzz::Target target;
  static const TargetProcess process(getpid());
  // What asks, from the end; the rest is what is asked about.
  FuzzedDataProvider input(data, size);
  const bool samples = input.ConsumeBool();
  const std::size_t asked = samples ? sizeof(rls_raw_sample) : 16;
  const std::size_t bytes = size > asked ? std::min<std::size_t>(size - asked, fuzz::kBytes) : 0;
  target.Set(input.ConsumeBytes<char>(bytes));
  if (samples) {
    fuzz::ClassifySamples(&input);
    return 0;
  }
  const auto python = FindRuntime(process, target.maps());
  if (python) fuzz::FindObjects(process, target.maps(), *python);
  fuzz::ReadNames(&input);
  return 0;
}
