// Where in a process a function may be run: in which thread, and at which point of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "inject/maps.h"
#include "inject/state.h"

namespace rls {

// The threads that sleep in a system call which holds nothing, those we like best first: one in a
// plain wait rather than one that waits for a lock, one that was not called from the loader.
std::vector<pid_t> WaitingThreads(pid_t pid);

// The threads of the process, its main thread first.
std::vector<pid_t> AllThreads(pid_t pid);

// Empty where a stopped thread is at a place that a function may be called from; else the reason.
// That is: on a stack of its own with room, in no signal handler, and either in a wait or outside
// of everything that takes the locks of the C library, the loader and memory allocation.
// `restorer`: what the handlers of signals return to.
std::string WhyNotHere(pid_t pid, const StoppedState& state, const ProcessMemory& memory,
                       std::uint64_t restorer);

}  // namespace rls
