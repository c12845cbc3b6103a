#include "inject/inject.h"

#include <dlfcn.h>

#include <exception>
#include <optional>
#include <thread>

#include "inject/call.h"
#include "inject/loaded_object.h"
#include "inject/place.h"

namespace rls {
namespace {

constexpr std::chrono::milliseconds kStopTime(1000);
// How long we look for a thread that sleeps before one that runs will do.
constexpr std::chrono::milliseconds kWaitForSleeper(500);
constexpr std::chrono::milliseconds kPause(5);

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

struct Addresses {
  std::uint64_t dlopen;
  std::uint64_t restorer;
};

Addresses FindAddresses(pid_t pid) {
  const auto libc = FindObject(pid, "libc.so.6");
  if (!libc) throw InjectError("it does not use glibc's libc.so.6");
  auto dlopen = libc->FindSymbol("dlopen");
  // A library of its own before glibc 2.34.
  if (!dlopen) {
    const auto libdl = FindObject(pid, "libdl.so.2");
    if (libdl) dlopen = libdl->FindSymbol("dlopen");
  }
  if (!dlopen) throw InjectError("neither its libc.so.6 nor a libdl.so.2 offers dlopen");
  // mov $15, %rax; syscall: what every signal handler returns to.
  const auto restorer = libc->FindCode({0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05});
  if (!restorer) throw InjectError("the signal return of its libc.so.6 was not found");
  return {*dlopen, *restorer};
}

void Demand(CallEnd end, const std::string& what) {
  switch (end) {
    case CallEnd::kReturned:
      return;
    case CallEnd::kAbandoned:
      throw InjectError(what + " waited for a lock that nobody released, and was given up");
    case CallEnd::kRunning:
      throw InjectError(what + " takes longer than allowed; it goes on by itself");
    case CallEnd::kCrashed:
      throw InjectError(what + " failed with a fatal signal, which was taken back");
    case CallEnd::kGone:
      throw InjectError("the thread ended while it was held");
  }
}

// Holds threads one after the other until one stands where the calls can be made.
class Injector {
 public:
  Injector(pid_t pid, const Injection& injection)
      : pid_(pid),
        injection_(injection),
        deadline_(Clock::now() + injection.timeout),
        addresses_(FindAddresses(pid)),
        memory_(pid) {}

  Injected Run() {
    const Clock::time_point patience = std::min(Clock::now() + kWaitForSleeper, deadline_);
    while (Clock::now() < deadline_) {
      for (const pid_t tid : WaitingThreads(pid_))
        if (auto injected = TryThread(tid)) return *injected;
      if (Clock::now() > patience) {
        for (const pid_t tid : AllThreads(pid_))
          if (auto injected = TryThread(tid)) return *injected;
      }
      std::this_thread::sleep_for(kPause);
    }
    throw InjectError("no thread stood at a safe place within the time allowed (" +
                      std::to_string(attempts_) + " stopped; the last: " + last_reason_ + ")");
  }

 private:
  std::optional<Injected> TryThread(pid_t tid) {
    ++attempts_;
    const Clock::time_point begin = Clock::now();
    HeldThread thread(tid);
    const Stop stop = thread.Interrupt(begin + kStopTime);
    if (stop == Stop::kGroup) throw InjectError("it is stopped; let it continue (SIGCONT) first");
    if (stop == Stop::kSignal) return Refuse("a signal arrived");
    // Not to be let go before it stops, but by the end of this OS thread.
    if (stop == Stop::kTimeout) throw InjectError("a thread did not stop when asked to");
    if (stop != Stop::kInterrupt) return Refuse("it ended");
    const auto state = thread.Read();
    if (!state) return Refuse("it ended");
    const std::string reason = WhyNotHere(pid_, *state, memory_, addresses_.restorer);
    if (!reason.empty()) return Refuse(reason);
    CallBoth(thread, *state);
    return Injected{tid, (Clock::now() - begin).count(), attempts_};
  }

  std::optional<Injected> Refuse(const std::string& reason) {
    last_reason_ = reason;
    return std::nullopt;
  }

  void CallBoth(HeldThread& thread, const StoppedState& state) {
    std::string path = injection_.library;
    path.push_back('\0');
    const RemoteCall load = {addresses_.dlopen, addresses_.restorer, path, RTLD_NOW};
    Demand(CallFunction(thread, state, memory_, load, deadline_), "loading " + injection_.library);
    const auto library = FindObject(pid_, FileName(injection_.library));
    if (!library) throw InjectError("its loader refused " + injection_.library);
    const auto entry = library->FindSymbol(injection_.entry);
    if (!entry) throw InjectError(injection_.library + " has no " + injection_.entry);
    const RemoteCall start = {*entry, addresses_.restorer, injection_.data, 0};
    Demand(CallFunction(thread, state, memory_, start, deadline_), injection_.entry);
  }

  const pid_t pid_;
  const Injection& injection_;
  const Clock::time_point deadline_;
  const Addresses addresses_;
  const ProcessMemory memory_;
  int attempts_ = 0;
  std::string last_reason_ = "none could be";
};

}  // namespace

Injected Inject(pid_t pid, const Injection& injection) {
  std::optional<Injected> injected;
  std::exception_ptr failure;
  // ptrace belongs to the thread that calls it: when this one ends, nothing stays held.
  std::thread tracer([&] {
    try {
      injected = Injector(pid, injection).Run();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  tracer.join();
  if (failure) std::rethrow_exception(failure);
  return *injected;
}

}  // namespace rls
