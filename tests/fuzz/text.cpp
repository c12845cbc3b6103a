// Small readers of text and machine code, each by the first byte of the input: /proc, decimal
// numbers, names of functions, the instructions around a sample and at the start of a function.
#include <cmath>
#include <sstream>

#include "decimal_time.h"
#include "finder/site.h"
#include "inject/maps.h"
#include "late_maps.h"
#include "procfs_ids.h"
#include "samples/code.h"
#include "shim/cuda_work.h"
#include "shim/demangle.h"
#include "support.h"
#include "utf8.h"

namespace rls::fuzz {
namespace {

void ReadMapsText(const std::string& text) {
  std::istringstream input(text);
  for (const Mapping& mapping : ParseMaps(input)) {
    Claim(mapping.permissions.size() == 4, "a mapping has its four permissions");
    Claim(mapping.Name().find('/') == std::string::npos, "the last part of a path is no path");
  }
  std::vector<char> line(text.begin(), text.end());
  line.push_back('\0');
  (void)rls_fuzz_late_line(line.data());
}

void ReadStatus(const std::string& text) {
  std::istringstream input(text);
  (void)InnerTidOf(input);
}

void ReadDecimal(const std::string& text) {
  for (const int shift : {0, 3}) {
    const auto number = parse_decimal(text, shift);
    if (!number) continue;
    const double told = std::strtod(text.c_str(), nullptr) * (shift == 0 ? 1 : 1000);
    const auto value = static_cast<double>(number->value);
    // Text with a NUL in it is read to its end by one of the two alone.
    if (text.find('\0') != std::string::npos || text.find('x') != std::string::npos) continue;
    Claim(std::abs(told - value) <= 1 + std::abs(told) * 1e-9, "a decimal is what strtod says");
  }
}

void ReadCode(const std::vector<std::uint8_t>& code) {
  for (std::size_t at = 0; at < code.size(); at += 1 + code.size() / 16) {
    (void)HasPause(code.data(), code.size(), at);
    (void)IsInPauseLoop(code.data(), code.size(), at, kLoopBytes);
    (void)IsInBusyLoop(code.data(), code.size(), at, kBusyLoopBytes);
    (void)EndsInCall(code.data(), at);
    (void)EndsInYield(code.data(), at);
  }
}

void ReadFunction(const std::vector<std::uint8_t>& code) {
  const auto site = FindCheapSite(code);
  if (const auto* distance = std::get_if<std::uint64_t>(&site))
    Claim(*distance < code.size(), "a probe lies in its function");
  (void)IsEnteredOnce(code);
}

void ReadNames(FuzzedDataProvider* input) {
  const std::string name = input->ConsumeRemainingBytesAsString();
  (void)CudaWorkOf(name);
  // Each takes a child: seldom.
  if (name.size() % 16 != 7) return;
  const std::vector<std::string> read = Demangled({"_Z" + name, "plain", "_Z1fv"});
  Claim(read.size() == 3 && read[1] == "plain" && read[2] == "f()", "one name spoils no other");
  Claim(read[0].size() <= 16384 + name.size() + 2, "a readable name is not too long");
}

void ReadUtf8(const std::string& text) {
  bool changed = false;
  const std::string valid = to_valid_utf8(text, changed);
  Claim(changed == (valid != text), "valid text stays as it is, and only that");
  bool again = false;
  Claim(to_valid_utf8(valid, again) == valid && !again, "what was made valid is");
}

void ReadInstance(FuzzedDataProvider* input) {
  std::vector<std::uint64_t> words(rls_fuzz_late_words());
  input->ConsumeData(words.data(), words.size() * sizeof(words[0]));
  (void)rls_fuzz_late_instance(words.data(), input->ConsumeIntegral<std::uint64_t>());
}

}  // namespace
}  // namespace rls::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rls::fuzz;
  if (size == 0) return 0;
  FuzzedDataProvider input(data + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
      ReadMapsText(input.ConsumeRemainingBytesAsString());
      break;
    case 1:
      ReadStatus(input.ConsumeRemainingBytesAsString());
      break;
    case 2:
      ReadDecimal(input.ConsumeRemainingBytesAsString());
      break;
    case 3:
      ReadCode(input.ConsumeRemainingBytes<std::uint8_t>());
      break;
    case 4:
      ReadFunction(input.ConsumeRemainingBytes<std::uint8_t>());
      break;
    case 5:
      ReadNames(&input);
      break;
    case 6:
      ReadUtf8(input.ConsumeRemainingBytesAsString());
      break;
    default:
      ReadInstance(&input);
  }
  return 0;
}
