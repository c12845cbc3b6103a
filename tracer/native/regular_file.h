// Opening what somebody else may have put into a spool: a file itself, or nothing.
#pragma once

#include <string>

namespace rls {

// Owned by the caller. Throws std::system_error where there is none, or a link, a pipe, a device.
// What was opened is asked what it is: its name can stand for something else at any time.
int OpenRegularFile(const std::string& path);

}  // namespace rls
