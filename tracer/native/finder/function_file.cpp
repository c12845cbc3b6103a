#include "finder/function_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "finder/gate.h"

namespace rls {
namespace {

OwnedFd OpenRegular(const std::string& path) {
  // A device of a hostile program must not act on being opened, nor a pipe hold us.
  OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status = {};
  if (!fd.IsOpen() || fstat(fd.get(), &status) != 0)
    throw std::system_error(errno, std::generic_category(), "opening a file of code");
  if (!S_ISREG(status.st_mode))
    throw std::system_error(EINVAL, std::generic_category(), "no regular file");
  return fd;
}

}  // namespace

FunctionFile::FunctionFile(const std::string& path) : file_(OpenRegular(path)) {}

std::vector<std::string> FunctionFile::Names(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& [name, symbol] : file_.FunctionsNamed(prefix)) {
    functions_.emplace(name, symbol);
    names.push_back(name);
  }
  return names;
}

std::map<std::string, std::variant<FunctionSite, std::string>> FunctionFile::Sites(
    const std::vector<std::string>& names) {
  std::map<std::string, std::variant<FunctionSite, std::string>> sites;
  for (const std::string& name : names) {
    const auto found = functions_.find(name);
    if (found == functions_.end()) continue;
    const Gated gated = PassGate(file_, found->second);
    if (gated.site)
      sites.emplace(name,
                    FunctionSite{*gated.site, file_.OffsetOfCode(gated.start).value_or(*gated.site),
                                 gated.is_expensive});
    else
      sites.emplace(name, std::string(gated.reason));
  }
  return sites;
}

}  // namespace rls
