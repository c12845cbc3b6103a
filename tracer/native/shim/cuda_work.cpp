#include "shim/cuda_work.h"

#include <array>

namespace rls {
namespace {

// CUPTI's activity kinds.
constexpr std::uint64_t kMemcpy = 1ULL << 1;
constexpr std::uint64_t kMemset = 1ULL << 2;
constexpr std::uint64_t kKernel = (1ULL << 3) | (1ULL << 10);
constexpr std::uint64_t kGraph = kKernel | (1ULL << 51);

constexpr std::array<std::string_view, 3> kApis = {"cuda", "cu", "hip"};
constexpr std::array<std::string_view, 5> kLaunches = {"Kernel", "Cooperative", "Grid", "ByPtr",
                                                       "MultiKernel"};

bool IsUpper(char letter) { return letter >= 'A' && letter <= 'Z'; }

bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

bool BeginsWith(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Without _v2, _v10000.
std::string_view WithoutVersion(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && IsDigit(name[end - 1])) --end;
  const bool is_version = end < name.size() && EndsWith(name.substr(0, end), "_v");
  return is_version ? name.substr(0, end - 2) : name;
}

// Without the version and the stream mode.
std::string_view Plain(std::string_view name) {
  name = WithoutVersion(name);
  if (EndsWith(name, "_ptsz") || EndsWith(name, "_ptds"))
    name = WithoutVersion(name.substr(0, name.size() - 5));
  return name;
}

bool IsLaunch(std::string_view function) {
  if (function == "Launch" || function == "LaunchAsync") return true;
  for (std::size_t at = function.find("Launch"); at != std::string_view::npos;
       at = function.find("Launch", at + 1))
    for (const std::string_view what : kLaunches)
      if (BeginsWith(function.substr(at + 6), what)) return true;
  return false;
}

}  // namespace

std::uint64_t CudaWorkOf(std::string_view function) {
  const std::string_view name = Plain(function);
  for (const std::string_view api : kApis) {
    if (!BeginsWith(name, api) || name.size() == api.size() || !IsUpper(name[api.size()])) continue;
    const std::string_view plain = name.substr(api.size());
    if (plain == "GraphLaunch") return kGraph;
    if (IsLaunch(plain)) return kKernel;
    if (BeginsWith(plain, "Memcpy")) return kMemcpy;
    if (BeginsWith(plain, "Memset")) return kMemset;
    return 0;
  }
  return 0;
}

}  // namespace rls
