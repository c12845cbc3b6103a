#include "shim/demangle.h"

#include <cxxabi.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace rls {
namespace {

constexpr std::size_t kMaxReadable = 16384;
constexpr suseconds_t kMaxUs = 50'000;  // for one name, of CPU time: most take some microseconds
// How many names may end a child before the rest stays as it is.
constexpr int kMaxDeaths = 3;

bool IsMangled(const std::string& name) { return name.compare(0, 2, "_Z") == 0; }

bool WriteAll(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(fd, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

bool ReadAll(int fd, char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(fd, data, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

// Its length and the text; length 0: as it was.
bool Tell(int fd, const std::string& name) {
  char reported[sizeof(std::uint32_t) + kMaxReadable];
  std::uint32_t length = 0;
  if (char* readable = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr)) {
    const std::size_t bytes = std::strlen(readable);
    if (bytes <= kMaxReadable) {
      length = static_cast<std::uint32_t>(bytes);
      std::memcpy(reported + sizeof(length), readable, bytes);
    }
    std::free(readable);
  }
  std::memcpy(reported, &length, sizeof(length));
  return WriteAll(fd, reported, sizeof(length) + length);
}

// The default action of the timer's signal ends the process.
[[noreturn]] void RunChild(int fd, const std::vector<std::string>& names, std::size_t first) {
  sigset_t timer;
  sigemptyset(&timer);
  sigaddset(&timer, SIGPROF);
  signal(SIGPROF, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &timer, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const itimerval limit = {{0, 0}, {0, kMaxUs}};
  for (std::size_t index = first; index < names.size(); ++index) {
    if (!IsMangled(names[index])) continue;
    if (setitimer(ITIMER_PROF, &limit, nullptr) != 0 || !Tell(fd, names[index])) break;
  }
  _exit(0);
}

// Returns the first name that nobody has read.
std::size_t ReadNames(int fd, std::size_t first, std::vector<std::string>* names) {
  for (std::size_t index = first; index < names->size(); ++index) {
    std::string& name = (*names)[index];
    if (!IsMangled(name)) continue;
    std::uint32_t length = 0;
    if (!ReadAll(fd, reinterpret_cast<char*>(&length), sizeof(length))) return index;
    std::string readable(length, '\0');
    if (!ReadAll(fd, readable.data(), length)) return index;
    if (length > 0) name = readable;
  }
  return names->size();
}

std::size_t ReadByChild(std::size_t first, std::vector<std::string>* names) {
  int ends[2];
  if (pipe(ends) != 0) return names->size();
  const pid_t child = fork();
  if (child == 0) RunChild(ends[1], *names, first);
  close(ends[1]);
  const std::size_t next = child < 0 ? names->size() : ReadNames(ends[0], first, names);
  close(ends[0]);
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return next;
}

}  // namespace

std::vector<std::string> Demangled(const std::vector<std::string>& names) {
  std::vector<std::string> readable = names;
  std::size_t next = 0;
  for (int deaths = 0; next < readable.size() && deaths < kMaxDeaths; ++deaths) {
    while (next < readable.size() && !IsMangled(readable[next])) ++next;
    // The one at which a child ended stays as it is.
    if (next < readable.size()) next = ReadByChild(next, &readable) + 1;
  }
  return readable;
}

}  // namespace rls
