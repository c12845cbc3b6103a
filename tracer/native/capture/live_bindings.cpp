// The sums of a target that is watched, as Python sees them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <string>
#include <vector>

#include "capture/live_totals.h"
#include "capture/spool_writer.h"

namespace py = pybind11;

namespace rls {
namespace {

std::vector<rls_rec_close> OpenOf(const std::string& records) {
  std::vector<rls_rec_close> open(records.size() / sizeof(rls_rec_close));
  std::memcpy(open.data(), records.data(), open.size() * sizeof(rls_rec_close));
  return open;
}

py::bytes NameOf(const rls_rec_thread& thread) {
  return {thread.comm, strnlen(thread.comm, sizeof(thread.comm))};
}

py::dict ThreadFacts(std::uint32_t ours, std::uint32_t initial, const LiveThread& thread) {
  py::dict facts;
  facts["thread_id"] = thread.facts.thread_id;
  facts["pid"] = ours;
  facts["tid"] = thread.facts.ns_tid != 0 ? thread.facts.ns_tid : initial;
  facts["name"] = NameOf(thread.facts);
  facts["until_ns"] = thread.until_ns;
  facts["has_ended"] = thread.has_ended;
  facts["running_ns"] = thread.running_ns;
  facts["runnable_ns"] = thread.runnable_ns;
  facts["sleeping_ns"] = thread.sleeping_ns;
  facts["blocked_ns"] = thread.blocked_ns;
  facts["lost_ns"] = thread.lost_ns;
  facts["switches"] = thread.switches;
  facts["queue"] = thread.queue;
  facts["samples"] = thread.samples;
  py::dict wakers;
  for (const auto& [waker, wakes] : thread.wakers)
    wakers[py::int_(waker)] = py::make_tuple(wakes.count, wakes.slept_ns);
  facts["wakers"] = wakers;
  return facts;
}

py::dict Snapshot(LiveTotals& totals, const std::string& open, std::uint64_t now_ns) {
  LiveSnapshot snapshot;
  {
    const py::gil_scoped_release released;
    snapshot = totals.Snapshot(OpenOf(open), now_ns);
  }
  py::list threads;
  for (const LiveThread& thread : snapshot.threads) {
    const rls_rec_thread& facts = thread.facts;
    threads.append(ThreadFacts(facts.ns_tgid != 0 ? facts.ns_tgid : facts.tgid, facts.tid, thread));
  }
  py::list functions;
  for (const LiveFunction& function : snapshot.functions)
    functions.append(py::make_tuple(py::bytes(function.name), function.samples));
  py::dict commands;
  for (const auto& [pid, arguments] : snapshot.commands)
    commands[py::int_(pid)] = py::bytes(arguments);
  py::dict facts;
  facts["threads"] = threads;
  facts["functions"] = functions;
  facts["commands"] = commands;
  facts["records"] = snapshot.records;
  return facts;
}

}  // namespace

void BindLive(py::module_& module) {
  py::class_<LiveTotals>(module, "LiveTotals")
      .def(py::init<bool>(), py::arg("has_sums") = true)
      .def("snapshot", &Snapshot, py::arg("open"), py::arg("now_ns"));
}

}  // namespace rls
