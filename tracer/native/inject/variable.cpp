#include "inject/error.h"
#include "inject/inject.h"
#include "inject/loaded_object.h"

namespace rls {

std::string ReadVariable(pid_t pid, const std::string& library, const std::string& name,
                         std::size_t bytes) {
  const auto object = FindObject(pid, library.substr(library.rfind('/') + 1));
  const auto address = object ? object->FindSymbol(name) : std::nullopt;
  if (!address) throw InjectError(library + " is not loaded");
  std::string content(bytes, '\0');
  if (!ProcessMemory(pid).Read(*address, content.data(), bytes))
    throw InjectError(name + " cannot be read");
  return content;
}

}  // namespace rls
