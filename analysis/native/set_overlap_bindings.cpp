// The overlap of sets as Python sees it: numpy arrays in, numpy arrays and lists of names out.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <deque>
#include <string>
#include <utility>

#include "set_overlap.h"
#include "set_overlap_input.h"

namespace py = pybind11;

namespace rls {
namespace {

using Times = py::array_t<Time, py::array::c_style>;
using Codes = py::array_t<std::int32_t, py::array::c_style>;

IntervalChunk ChunkOf(const Times& start, const Times& end) {
  if (start.ndim() != 1 || end.ndim() != 1 || start.size() != end.size()) {
    throw py::value_error("starts and ends must be arrays of one dimension and one length");
  }
  return {start.data(), end.data(), static_cast<std::size_t>(start.size())};
}

OperationChunk ChunkOf(const Codes& code, const Times& start, const Times& end) {
  const IntervalChunk chunk = ChunkOf(start, end);
  if (code.ndim() != 1 || code.size() != start.size()) {
    throw py::value_error("operations need one code each");
  }
  return {code.data(), chunk.start, chunk.end, chunk.size};
}

// The next item of a Python iterator, or a null handle.
py::object NextItem(const py::iterator& items) {
  py::object item = py::reinterpret_steal<py::object>(PyIter_Next(items.ptr()));
  if (!item && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return item;
}

// (starts, ends) from a Python iterator. Holds the GIL only while it asks.
class PythonIntervals final : public IntervalSource {
 public:
  explicit PythonIntervals(py::iterator chunks) : chunks_(std::move(chunks)) {}
  IntervalChunk Next() override {
    const py::gil_scoped_acquire gil;
    IntervalChunk chunk;
    // An empty chunk in between is not the end.
    while (chunk.size == 0) {
      const py::object item = NextItem(chunks_);
      if (!item) return {};
      std::tie(start_, end_) = item.cast<std::pair<Times, Times>>();
      chunk = ChunkOf(start_, end_);
    }
    return chunk;
  }

 private:
  py::iterator chunks_;
  Times start_;
  Times end_;
};

class PythonOperations final : public OperationSource {
 public:
  explicit PythonOperations(py::iterator chunks) : chunks_(std::move(chunks)) {}
  OperationChunk Next() override {
    const py::gil_scoped_acquire gil;
    OperationChunk chunk;
    while (chunk.size == 0) {
      const py::object item = NextItem(chunks_);
      if (!item) return {};
      std::tie(code_, start_, end_) = item.cast<std::tuple<Codes, Times, Times>>();
      chunk = ChunkOf(code_, start_, end_);
    }
    return chunk;
  }

 private:
  py::iterator chunks_;
  Codes code_;
  Times start_;
  Times end_;
};

using Operations = std::optional<std::tuple<Codes, Times, Times>>;

std::unique_ptr<OverlapResult> Overlap(const std::vector<IntervalChunk>& categories,
                                       const Operations& operations,
                                       const OverlapOptions& options) {
  OperationChunk chunk;
  if (operations) {
    chunk = ChunkOf(std::get<0>(*operations), std::get<1>(*operations), std::get<2>(*operations));
  }
  const py::gil_scoped_release release;
  return OverlapArrays(categories, chunk, options);
}

std::unique_ptr<OverlapResult> OverlapOfArrays(const std::vector<std::pair<Times, Times>>& columns,
                                               const Operations& operations, unsigned jobs,
                                               unsigned windows, bool transitions) {
  std::vector<IntervalChunk> categories;
  for (const auto& [start, end] : columns) categories.push_back(ChunkOf(start, end));
  return Overlap(categories, operations, {jobs, windows, transitions});
}

std::unique_ptr<OverlapResult> OverlapOfTable(const Codes& code, const Times& start,
                                              const Times& end, std::size_t category_count,
                                              const Operations& operations, unsigned jobs,
                                              unsigned windows, bool transitions) {
  const IntervalChunk all = ChunkOf(start, end);
  if (code.ndim() != 1 || code.size() != start.size()) {
    throw py::value_error("intervals need one code each");
  }
  std::deque<IntervalColumns> groups;
  std::vector<IntervalChunk> categories;
  {
    const py::gil_scoped_release release;
    groups = GroupByCode(code.data(), all, category_count);
    for (const IntervalColumns& group : groups) categories.push_back(group.chunk());
  }
  return Overlap(categories, operations, {jobs, windows, transitions});
}

std::unique_ptr<OverlapResult> OverlapOfStreams(const std::vector<py::iterator>& streams,
                                                const std::optional<py::iterator>& operations,
                                                bool transitions) {
  std::deque<PythonIntervals> sources;
  std::vector<IntervalSource*> categories;
  for (const py::iterator& stream : streams) categories.push_back(&sources.emplace_back(stream));
  std::optional<PythonOperations> operation_source;
  if (operations) operation_source.emplace(*operations);
  const py::gil_scoped_release release;
  return OverlapStreams(categories, operation_source ? &*operation_source : nullptr, transitions);
}

template <class Value, class Get>
py::array_t<Value> Column(std::size_t size, Get get) {
  py::array_t<Value> column(static_cast<py::ssize_t>(size));
  Value* const values = column.mutable_data();
  const py::gil_scoped_release release;
  for (std::size_t at = 0; at < size; ++at) values[at] = static_cast<Value>(get(at));
  return column;
}

// A property that is one field of every row.
template <class Value, class Get>
auto RowColumn(Get get) {
  return [get](const OverlapResult& result) {
    return Column<Value>(result.size(), [&](std::size_t at) { return get(result.row(at)); });
  };
}

// A property that is one field of every transition.
template <class Value, class Get>
auto TransitionColumn(Get get) {
  return [get](const OverlapResult& result) {
    return Column<Value>(result.transitions().size(),
                         [&](std::size_t at) { return get(result.transitions()[at]); });
  };
}

// The sets as (offsets, codes): those of row i are codes[offsets[i]:offsets[i + 1]].
std::pair<Times, Codes> Sets(const OverlapResult& result) {
  Times offsets(static_cast<py::ssize_t>(result.size() + 1));
  std::size_t members = 0;
  for (std::size_t at = 0; at < result.size(); ++at) {
    offsets.mutable_at(at) = static_cast<Time>(members);
    members += result.row(at).size;
  }
  offsets.mutable_at(result.size()) = static_cast<Time>(members);
  std::vector<std::int32_t> all;
  all.reserve(members);
  for (std::size_t at = 0; at < result.size(); ++at) result.AppendCodes(at, &all);
  return {offsets, Codes(static_cast<py::ssize_t>(members), all.data())};
}

// The garbage collector would look at millions of new lists again and again while they are made.
class NoCollection {
 public:
  NoCollection() : was_enabled_(PyGC_Disable() != 0) {}
  ~NoCollection() {
    if (was_enabled_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  bool was_enabled_;
};

// A new list of the names of some codes. By hand: there may be a hundred million members.
PyObject* NewList(const std::vector<PyObject*>& names, const std::vector<std::int32_t>& codes) {
  PyObject* const list = PyList_New(static_cast<Py_ssize_t>(codes.size()));
  if (list == nullptr) throw py::error_already_set();
  for (std::size_t at = 0; at < codes.size(); ++at) {
    PyObject* const name = names[static_cast<std::size_t>(codes[at])];
    Py_INCREF(name);
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(at), name);
  }
  return list;
}

// One new list of names per position; the names themselves are shared.
py::array NameLists(const OverlapResult& result, const py::list& names, const Times& positions) {
  const NoCollection no_collection;
  std::vector<PyObject*> objects;
  for (const py::handle name : names) objects.push_back(name.ptr());
  py::array lists(py::dtype("O"), positions.size());
  auto* const items = static_cast<PyObject**>(lists.mutable_data());
  const Time* const wanted = positions.data();
  std::vector<std::int32_t> codes;
  for (py::ssize_t at = 0; at < positions.size(); ++at) {
    if (wanted[at] < 0 || static_cast<std::size_t>(wanted[at]) >= result.size()) {
      throw py::index_error("there is no such row");
    }
    codes.clear();
    result.AppendCodes(static_cast<std::size_t>(wanted[at]), &codes);
    if (!codes.empty() && static_cast<std::size_t>(codes.back()) >= objects.size()) {
      throw py::index_error("there is no name for a code");
    }
    Py_XDECREF(std::exchange(items[at], NewList(objects, codes)));
  }
  return lists;
}

void BindResult(py::module_& module) {
  py::class_<OverlapResult>(module, "SetOverlap")
      .def("__len__", &OverlapResult::size)
      .def_property_readonly(
          "operation", RowColumn<std::int32_t>([](const Row& row) { return CodeOf(row.owner); }))
      .def_property_readonly("time_ns",
                             RowColumn<Time>([](const Row& row) { return row.tally.time_ns; }))
      .def_property_readonly("count",
                             RowColumn<Time>([](const Row& row) { return row.tally.count; }))
      .def_property_readonly("first_ns",
                             RowColumn<Time>([](const Row& row) { return row.tally.first_ns; }))
      .def_property_readonly("last_ns",
                             RowColumn<Time>([](const Row& row) { return row.tally.last_ns; }))
      .def("sets", &Sets)
      .def("name_lists", &NameLists, py::arg("names"), py::arg("positions"))
      .def_property_readonly("transition_from",
                             TransitionColumn<Time>([](const Transition& one) { return one.from; }))
      .def_property_readonly("transition_to",
                             TransitionColumn<Time>([](const Transition& one) { return one.to; }))
      .def_property_readonly("transition_count", TransitionColumn<Time>([](const Transition& one) {
                               return one.count;
                             }));
}

}  // namespace

void bind_set_overlap(py::module_& module) {
  py::register_exception<OverlapInputError>(module, "OverlapInputError", PyExc_ValueError);
  BindResult(module);
  const auto no_operations = py::arg("operations") = py::none();
  const auto one_job = py::arg("jobs") = 1U;
  const auto chosen_windows = py::arg("windows") = 0U;
  const auto no_transitions = py::arg("transitions") = false;
  module.def("overlap_arrays", &OverlapOfArrays, py::arg("categories"), no_operations,
             py::kw_only(), one_job, chosen_windows, no_transitions);
  module.def("overlap_table", &OverlapOfTable, py::arg("code"), py::arg("start"), py::arg("end"),
             py::arg("category_count"), no_operations, py::kw_only(), one_job, chosen_windows,
             no_transitions);
  module.def("overlap_streams", &OverlapOfStreams, py::arg("categories"), no_operations,
             py::kw_only(), no_transitions);
}

}  // namespace rls
