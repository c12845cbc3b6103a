// Names of functions as a C++ program writes them.
#pragma once

#include <string>
#include <vector>

namespace rls {

// Each name as it is read; one that is no mangled name, or whose readable form would be too long or
// take too long, as it was. A name of 300 bytes may stand for one of gigabytes, and the names come
// from the program that is traced: they are read in a child process, which a timer ends.
std::vector<std::string> Demangled(const std::vector<std::string>& names);

}  // namespace rls
