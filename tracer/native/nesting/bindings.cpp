#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "nesting/nesting.h"
#include "numpy_columns.h"

namespace py = pybind11;

namespace rls {
namespace {

template <typename T>
using Column = py::array_t<T, py::array::c_style>;

void require_equal_length(py::ssize_t left, py::ssize_t right) {
  if (left != right) throw std::invalid_argument("columns are not equally long");
}

py::tuple nest_columns(const Column<std::int32_t>& thread_id, const Column<std::int64_t>& start_ns,
                       const Column<std::int64_t>& end_ns) {
  require_equal_length(thread_id.size(), start_ns.size());
  require_equal_length(thread_id.size(), end_ns.size());
  Nesting nesting;
  const Ranges ranges{thread_id.data(), start_ns.data(), end_ns.data(),
                      static_cast<std::size_t>(thread_id.size())};
  {
    const py::gil_scoped_release released;
    nesting = nest(ranges);
  }
  return py::make_tuple(to_numpy(std::move(nesting.depth)), to_numpy(std::move(nesting.parent)),
                        nesting.crossing_count, nesting.first_crossing_ns);
}

py::tuple intern_path_columns(const Column<std::int64_t>& parent, const Column<std::int64_t>& key,
                              std::size_t max_paths, std::int32_t max_depth) {
  require_equal_length(parent.size(), key.size());
  PathTree tree;
  const std::int64_t* const parents = parent.data();
  const std::int64_t* const keys = key.data();
  const auto count = static_cast<std::size_t>(parent.size());
  {
    const py::gil_scoped_release released;
    tree = intern_paths(parents, keys, count, {max_paths, max_depth});
  }
  return py::make_tuple(to_numpy(std::move(tree.path_id)), to_numpy(std::move(tree.parent_path_id)),
                        to_numpy(std::move(tree.key)), to_numpy(std::move(tree.depth)));
}

}  // namespace

void bind_nesting(py::module_& module) {
  module.def("nest", &nest_columns, py::arg("thread_id").noconvert(),
             py::arg("start_ns").noconvert(), py::arg("end_ns").noconvert());
  module.def("intern_paths", &intern_path_columns, py::arg("parent").noconvert(),
             py::arg("key").noconvert(),
             py::arg("max_paths") = std::numeric_limits<std::int32_t>::max(),
             py::arg("max_depth") = std::numeric_limits<std::int32_t>::max());
}

}  // namespace rls
