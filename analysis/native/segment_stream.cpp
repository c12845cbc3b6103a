// The segments of a sweep as an Arrow C stream: segment_stream in _sweep.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "arrow_abi.h"
#include "segment_writer.h"

namespace py = pybind11;

namespace rls {
namespace {

struct Field {
  const char* name;
  const char* format;
};

constexpr std::size_t kFields = 8;
constexpr std::array<Field, kFields> kColumns = {{{"thread_id", "i"},
                                                  {"start_ns", "l"},
                                                  {"end_ns", "l"},
                                                  {"path_id", "i"},
                                                  {"state", "C"},
                                                  {"layer", "C"},
                                                  {"wait", "C"},
                                                  {"gpu", "C"}}};

// What a stream owns. `start` begins the sweep when the first batch is asked for: many a stream is
// opened for its schema alone.
struct Stream {
  std::shared_ptr<SegmentChannel> channel = std::make_shared<SegmentChannel>();
  std::shared_ptr<const SegmentSelection> selection;
  py::object start;
  std::string error;
};

// What an exported schema, or array, owns: the children, which may be moved out of it and outlive
// it.
template <typename Exported>
struct Parent {
  std::array<Exported, kFields> children{};
  std::array<Exported*, kFields> pointers{};
  std::array<const void*, 1> no_nulls{};
};

// A column: it keeps the batch that it is in.
struct Column {
  std::shared_ptr<const SegmentBatch> batch;
  std::array<const void*, 2> buffers;
};

void release_field(ArrowSchema* field) { field->release = nullptr; }

void release_column(ArrowArray* column) {
  delete static_cast<Column*>(column->private_data);
  column->release = nullptr;
}

template <typename Exported>
void release_parent(Exported* parent) {
  auto* const owned = static_cast<Parent<Exported>*>(parent->private_data);
  for (Exported& child : owned->children) {
    if (child.release != nullptr) child.release(&child);
  }
  delete owned;
  parent->release = nullptr;
}

template <typename Exported>
void own_children(Parent<Exported>* owned, Exported* out) {
  for (std::size_t i = 0; i < kFields; ++i) owned->pointers[i] = &owned->children[i];
  out->n_children = kFields;
  out->children = owned->pointers.data();
  out->release = &release_parent<Exported>;
  out->private_data = owned;
}

int get_schema(ArrowArrayStream*, ArrowSchema* out) {
  auto* const owned = new Parent<ArrowSchema>;
  for (std::size_t i = 0; i < kFields; ++i) {
    owned->children[i].format = kColumns[i].format;
    owned->children[i].name = kColumns[i].name;
    owned->children[i].release = &release_field;
  }
  *out = ArrowSchema{};
  out->format = "+s";
  out->name = "";
  own_children(owned, out);
  return 0;
}

void export_batch(std::shared_ptr<const SegmentBatch> batch, ArrowArray* out) {
  const std::array<const void*, kFields> values = {
      batch->thread_id.data(), batch->start_ns.data(), batch->end_ns.data(), batch->path_id.data(),
      batch->state.data(),     batch->layer.data(),    batch->wait.data(),   batch->gpu.data()};
  auto* const owned = new Parent<ArrowArray>;
  for (std::size_t i = 0; i < kFields; ++i) {
    auto* const column = new Column{batch, {nullptr, values[i]}};
    ArrowArray& child = owned->children[i];
    child.length = static_cast<int64_t>(batch->rows);
    child.n_buffers = 2;
    child.buffers = column->buffers.data();
    child.release = &release_column;
    child.private_data = column;
  }
  *out = ArrowArray{};
  out->length = static_cast<int64_t>(batch->rows);
  out->n_buffers = 1;
  out->buffers = owned->no_nulls.data();
  own_children(owned, out);
}

// Begins the sweep, once.
void begin(Stream* stream) {
  if (!stream->start) return;
  const py::gil_scoped_acquire acquire;
  const py::object start = std::move(stream->start);
  stream->start = py::object();
  start(std::make_shared<SegmentWriter>(stream->channel, stream->selection));
}

// The sweep needs the GIL now and then: nobody may hold it who waits here.
std::unique_ptr<SegmentBatch> wait_for_batch(Stream* stream) {
  if (PyGILState_Check() == 0) return stream->channel->next();
  const py::gil_scoped_release release;
  return stream->channel->next();
}

int get_next(ArrowArrayStream* self, ArrowArray* out) {
  auto* const stream = static_cast<Stream*>(self->private_data);
  try {
    begin(stream);
    std::unique_ptr<SegmentBatch> batch = wait_for_batch(stream);
    *out = ArrowArray{};
    if (batch != nullptr) export_batch(std::move(batch), out);
    return 0;
  } catch (const std::exception& error) {
    stream->error = error.what();
    return EIO;
  }
}

const char* get_last_error(ArrowArrayStream* self) {
  return static_cast<Stream*>(self->private_data)->error.c_str();
}

void release_stream(ArrowArrayStream* self) {
  auto* const stream = static_cast<Stream*>(self->private_data);
  self->release = nullptr;
  stream->channel->close();
  const py::gil_scoped_acquire acquire;
  delete stream;
}

void destroy_capsule(PyObject* capsule) {
  auto* const stream =
      static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule, "arrow_array_stream"));
  if (stream == nullptr) return;
  if (stream->release != nullptr) stream->release(stream);
  delete stream;
}

using Ids = py::array_t<int32_t, py::array::c_style>;
using Times = py::array_t<int64_t, py::array::c_style>;

// Of (thread_id, start_ns, end_ns).
std::shared_ptr<const SegmentSelection> selection_of(
    const std::optional<std::tuple<Ids, Times, Times>>& only) {
  if (!only) return nullptr;
  const auto& [thread_id, start_ns, end_ns] = *only;
  if (thread_id.size() != start_ns.size() || thread_id.size() != end_ns.size()) {
    throw py::value_error("a selection needs a thread, a start and an end each");
  }
  auto selection = std::make_shared<SegmentSelection>();
  for (py::ssize_t i = 0; i < thread_id.size(); ++i) {
    selection->add(thread_id.at(i), {start_ns.at(i), end_ns.at(i)});
  }
  return selection;
}

py::object make_stream(py::object start, const std::optional<std::tuple<Ids, Times, Times>>& only) {
  auto owned = std::make_unique<Stream>();
  owned->selection = selection_of(only);
  owned->start = std::move(start);
  auto out = std::make_unique<ArrowArrayStream>();
  *out = {&get_schema, &get_next, &get_last_error, &release_stream, owned.get()};
  PyObject* const capsule = PyCapsule_New(out.get(), "arrow_array_stream", &destroy_capsule);
  if (capsule == nullptr) throw py::error_already_set();
  owned.release();
  out.release();
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

void bind_segment_stream(py::module_& module) {
  py::class_<SegmentWriter, std::shared_ptr<SegmentWriter>>(module, "SegmentWriter")
      .def("finish", &SegmentWriter::finish, py::arg("error") = "",
           py::call_guard<py::gil_scoped_release>())
      .def("close", &SegmentWriter::close);
  module.def("segment_stream", &make_stream, py::arg("start"), py::arg("only") = py::none());
}

}  // namespace rls
