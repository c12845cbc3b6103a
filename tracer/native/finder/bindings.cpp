// Python's view of the finder. All work runs without the GIL, on a thread of low priority.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <memory>

#include "finder/finder.h"
#include "finder/function_file.h"
#include "finder/site.h"

namespace py = pybind11;

namespace rls {
namespace {

template <typename Work>
auto AtLowPriority(Work work) {
  py::gil_scoped_release no_gil;
  decltype(work()) result;
  RunAtLowPriority([&] { result = work(); });
  return result;
}

// Paths are bytes of the target's choice; Python decodes them as it does those of its own files.
py::object AsPath(const std::string& path) {
  PyObject* text =
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

std::string FromPath(const py::handle& path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(bytes);
}

// "fe:01", as the kernel writes it.
std::uint64_t DeviceOf(const std::string& text) {
  char* end = nullptr;
  const auto major_number = static_cast<unsigned>(std::strtoul(text.c_str(), &end, 16));
  const auto minor_number =
      *end == ':' ? static_cast<unsigned>(std::strtoul(end + 1, nullptr, 16)) : 0;
  return makedev(major_number, minor_number);
}

py::list Mappings(const PythonFinder& finder) {
  const auto mappings = AtLowPriority([&] { return finder.Mappings(); });
  py::list rows;
  for (const Mapping& mapping : mappings)
    rows.append(py::make_tuple(AsPath(mapping.path), DeviceOf(mapping.device), mapping.inode,
                               mapping.start, mapping.end, mapping.offset));
  return rows;
}

py::object Runtime(const PythonFinder& finder) {
  const auto python = AtLowPriority([&] { return finder.Runtime(); });
  if (!python) return py::none();
  py::dict facts;
  facts["implementation"] = python->implementation;
  facts["version"] = py::tuple(py::cast(python->version));
  facts["free_threaded"] = python->is_free_threaded;
  facts["runtime_start"] = py::none();
  facts["runtime_end"] = py::none();
  if (python->runtime.end > python->runtime.start) {
    facts["runtime_start"] = python->runtime.start;
    facts["runtime_end"] = python->runtime.end;
  }
  facts["module_path"] = AsPath(python->module_path);
  facts["interpreters"] = python->interpreters;
  py::dict symbols;
  for (const auto& [name, symbol] : python->symbols)
    symbols[py::str(name)] = py::make_tuple(symbol.address, symbol.file_offset);
  facts["symbols"] = symbols;
  return facts;
}

py::dict FindEntryPoints(const PythonFinder& finder, const py::iterable& paths,
                         std::uint64_t budget_bytes) {
  std::vector<std::string> names;
  for (const py::handle path : paths) names.push_back(FromPath(path));
  const auto found = AtLowPriority([&] { return finder.Find(names, budget_bytes); });
  py::list points;
  for (const EntryPoint& point : found.points)
    points.append(py::make_tuple(AsPath(point.path), point.file_offset, point.symbol,
                                 NameOf(point.kind), point.function_start, point.is_expensive));
  py::dict answer;
  answer["points"] = points;
  answer["rejected"] = found.rejected;
  answer["scanned_bytes"] = found.scanned_bytes;
  answer["unscanned_bytes"] = found.unscanned_bytes;
  return answer;
}

std::map<std::string, std::uint64_t> Exported(const PythonFinder& finder, const py::object& path,
                                              const std::vector<std::string>& names) {
  const std::string file = FromPath(path);
  return AtLowPriority([&] { return finder.Exported(file, names); });
}

py::object CheapSite(const py::bytes& code) {
  const std::string text = code;
  const auto found = FindCheapSite(std::vector<unsigned char>(text.begin(), text.end()));
  if (const auto* site = std::get_if<std::uint64_t>(&found)) return py::int_(*site);
  return py::str(std::get<NoSite>(found) == NoSite::kInLoop ? "in a loop" : "no cheap instruction");
}

// By name: (offset to probe, offset of the function, whether a probe there is expensive), or why
// not.
py::dict Sites(FunctionFile& file, const std::vector<std::string>& names) {
  const auto found = AtLowPriority([&] { return file.Sites(names); });
  py::dict sites;
  for (const auto& [name, answer] : found) {
    if (const auto* site = std::get_if<FunctionSite>(&answer))
      sites[py::str(name)] =
          py::make_tuple(site->file_offset, site->function_start, site->is_expensive);
    else
      sites[py::str(name)] = std::get<std::string>(answer);
  }
  return sites;
}

void BindFunctions(py::module_& module) {
  py::class_<FunctionFile>(module, "FunctionFile", "A file of code, read from its symbols.")
      .def(py::init([](const py::object& path) {
             return std::make_unique<FunctionFile>(FromPath(path));
           }),
           py::arg("path"))
      .def(
          "names",
          [](FunctionFile& file, const std::string& prefix) {
            return AtLowPriority([&] { return file.Names(prefix); });
          },
          py::arg("prefix"))
      .def("sites", &Sites, py::arg("names"))
      .def(
          "imports",
          [](const FunctionFile& file, const std::string& prefix) {
            return AtLowPriority([&] { return file.Imports(prefix); });
          },
          py::arg("prefix"))
      .def("has_section", &FunctionFile::HasSection, py::arg("name"));
}

}  // namespace

void bind_finder(py::module_& module) {
  constexpr std::uint64_t kBudgetBytes = std::uint64_t{4} << 30;
  py::class_<PythonFinder>(module, "PythonScan", "A running Python process, read from outside.")
      .def(py::init<pid_t>(), py::arg("pid"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("is_served", &PythonFinder::is_served)
      .def("mappings", &Mappings)
      .def("runtime", &Runtime)
      .def("entry_points", &FindEntryPoints, py::arg("paths"), py::kw_only(),
           py::arg("budget_bytes") = kBudgetBytes)
      .def("exported", &Exported, py::arg("path"), py::arg("names"))
      .def("cancel", &PythonFinder::Cancel);
  module.def(
      "open_mapped",
      [](pid_t pid, std::uint64_t start, std::uint64_t end, std::uint64_t inode,
         const std::string& path) {
        return OpenMappedFile(pid, {start, end, 0, inode, "", "", path});
      },
      py::arg("pid"), py::arg("start"), py::arg("end"), py::arg("inode"), py::arg("path"),
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "shown_memory",
      [](pid_t pid, const std::string& name, std::size_t most) {
        std::string shown;
        {
          const py::gil_scoped_release release;
          shown = ReadShownMemory(pid, name.c_str(), most);
        }
        return py::bytes(shown);
      },
      py::arg("pid"), py::arg("name"), py::arg("most"));
  module.def("cheap_site", &CheapSite, py::arg("code"));
  BindFunctions(module);
}

}  // namespace rls
