#include "regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace rls {

int OpenRegularFile(const std::string& path) {
  // Waits neither for the writer of a pipe nor for who holds a lease on the file.
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  struct stat status = {};
  const bool is_known = fd >= 0 && fstat(fd, &status) == 0;
  if (is_known && S_ISREG(status.st_mode)) return fd;
  const int error = is_known ? EINVAL : errno;
  if (fd >= 0) close(fd);
  throw std::system_error(error, std::generic_category(), "opening " + path);
}

}  // namespace rls
