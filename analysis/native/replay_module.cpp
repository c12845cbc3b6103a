// rlscope_analysis._replay: what threads did, replayed with one thing changed.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <vector>

#include "replay.h"

namespace py = pybind11;

namespace rls {
namespace {

template <typename T>
using Column = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <typename T>
std::vector<T> vector_of(const Column<T>& column) {
  return {column.data(), column.data() + column.size()};
}

// Nothing is read or written outside the columns, whatever they hold.
void check(const ReplayInput& in, std::size_t queues) {
  if (in.first_item.empty() || in.first_item.front() != 0 ||
      in.first_item.back() != static_cast<int64_t>(in.items) ||
      in.lead + 1 >= in.first_item.size()) {
    throw py::value_error("first_item");
  }
  for (std::size_t t = 1; t < in.first_item.size(); ++t) {
    if (in.first_item[t] < in.first_item[t - 1]) throw py::value_error("first_item");
  }
  for (std::size_t i = 0; i < in.items; ++i) {
    const auto kind = static_cast<Item>(in.kind[i]);
    if (in.kind[i] > static_cast<uint8_t>(Item::kSleep)) throw py::value_error("kind");
    if (!(in.length_ns[i] >= 0) || !(in.latency_ns[i] >= 0)) throw py::value_error("length_ns");
    const bool has_event = kind == Item::kFire || kind == Item::kWait;
    if (has_event && (in.event[i] < 0 || static_cast<std::size_t>(in.event[i]) >= in.events)) {
      throw py::value_error("event");
    }
    if (kind == Item::kRun &&
        (in.queue[i] < 0 || static_cast<std::size_t>(in.queue[i]) >= queues)) {
      throw py::value_error("queue");
    }
  }
}

double replay_columns(const Column<uint8_t>& kind, const Column<double>& length_ns,
                      const Column<double>& latency_ns, const Column<int32_t>& event,
                      const Column<int32_t>& queue, const Column<int64_t>& first_item,
                      const Column<int32_t>& cpus, std::size_t events, std::size_t lead,
                      bool is_rendezvous) {
  const auto rows = kind.size();
  if (length_ns.size() != rows || latency_ns.size() != rows || event.size() != rows ||
      queue.size() != rows) {
    throw py::value_error("columns differ in length");
  }
  const ReplayInput input{static_cast<std::size_t>(rows),
                          kind.data(),
                          length_ns.data(),
                          latency_ns.data(),
                          event.data(),
                          queue.data(),
                          vector_of(first_item),
                          vector_of(cpus),
                          events,
                          lead,
                          is_rendezvous};
  check(input, input.cpus.size());
  const py::gil_scoped_release release;
  return replay(input);
}

}  // namespace
}  // namespace rls

PYBIND11_MODULE(_replay, module) {
  module.doc() = "Replay of rlscope-trace: how long threads take with one thing changed";
  module.def("replay", &rls::replay_columns, py::kw_only(), py::arg("kind"), py::arg("length_ns"),
             py::arg("latency_ns"), py::arg("event"), py::arg("queue"), py::arg("first_item"),
             py::arg("cpus"), py::arg("events"), py::arg("lead"), py::arg("is_rendezvous"));
}
