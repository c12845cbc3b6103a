// Nested operations as intervals that each have one owner, as Python sees it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "set_overlap_operations.h"

namespace py = pybind11;

namespace rls {
namespace {

using Times = py::array_t<Time, py::array::c_style>;
using Codes = py::array_t<std::int32_t, py::array::c_style>;

template <class Value>
py::array_t<Value> ArrayOf(const std::vector<Value>& values) {
  return py::array_t<Value>(static_cast<py::ssize_t>(values.size()), values.data());
}

// (code, start, end) of the operations of one thread in, of the intervals they own out: in order
// and without overlap, the operation opened last that is still open owning each.
py::tuple Flatten(const Codes& code, const Times& start, const Times& end) {
  if (code.ndim() != 1 || code.size() != start.size() || code.size() != end.size()) {
    throw py::value_error("operations need a code, a start and an end each");
  }
  const auto size = static_cast<std::size_t>(code.size());
  std::vector<std::int32_t> owners;
  std::vector<Time> starts;
  std::vector<Time> ends;
  {
    const py::gil_scoped_release release;
    const std::vector<OwnerChange> changes =
        FlattenOperations({code.data(), start.data(), end.data(), size});
    for (std::size_t at = 0; at + 1 < changes.size(); ++at) {
      const std::int32_t owner = CodeOf(changes[at].owner);
      if (owner < 0) continue;
      owners.push_back(owner);
      starts.push_back(changes[at].time);
      ends.push_back(changes[at + 1].time);
    }
  }
  return py::make_tuple(ArrayOf(owners), ArrayOf(starts), ArrayOf(ends));
}

}  // namespace

void bind_flatten(py::module_& module) {
  module.def("flatten_operations", &Flatten, py::arg("code"), py::arg("start"), py::arg("end"));
}

}  // namespace rls
