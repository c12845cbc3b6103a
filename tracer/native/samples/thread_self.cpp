#include "samples/thread_self.h"

#include <cstring>

#include "inject/inject.h"
#include "machine.h"

namespace rls {
namespace {

// What glibc exports for debuggers: in libc.so.6, before 2.34 in a library of its own.
constexpr const char* kVariable = "_thread_db_sizeof_pthread";
constexpr const char* kLibraries[] = {"libc.so.6", "libpthread"};

std::optional<std::uint16_t> ThreadBytes(pid_t pid, const char* library) {
  std::uint32_t bytes = 0;
  try {
    const std::string content = ReadVariable(pid, library, kVariable, sizeof(bytes));
    std::memcpy(&bytes, content.data(), sizeof(bytes));
  } catch (const InjectError&) {
    return std::nullopt;
  }
  if (bytes == 0 || bytes > UINT16_MAX) return std::nullopt;
  return static_cast<std::uint16_t>(bytes);
}

}  // namespace

std::optional<std::uint16_t> SelfBeforeThreadPointer(pid_t pid) {
  if (kThreadPointerIsSelf) return 0;
  for (const char* library : kLibraries)
    if (const auto bytes = ThreadBytes(pid, library)) return bytes;
  return std::nullopt;
}

}  // namespace rls
