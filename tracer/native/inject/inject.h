// Loads a library into a running process and calls a function of it there.
//
// ptrace holds one thread for as long as the two calls take. The thread is one that sleeps in a
// system call, or, where none does, one that is outside of all code which could hold a lock that
// loading needs. Only x86-64 and glibc.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "inject/error.h"

namespace rls {

struct Injection {
  std::string library;  // a path as the process sees it
  std::string entry;    // int entry(const void* data), exported by the library
  std::string data;
  std::chrono::nanoseconds timeout;  // of the whole
};

struct Injected {
  pid_t tid;
  std::int64_t stopped_ns;  // from the request to stop until the thread was let go
  int attempts;             // threads stopped in vain before, and this one
};

// Throws InjectError with the reason; the process then runs on as before, at most with the library
// loaded.
Injected Inject(pid_t pid, const Injection& injection);

// The bytes of a variable that `library` exports, as they are in the process now. Throws
// InjectError.
std::string ReadVariable(pid_t pid, const std::string& library, const std::string& name,
                         std::size_t bytes);

}  // namespace rls
