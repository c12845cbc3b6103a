#include "finder/runtime.h"

#include <algorithm>
#include <cstring>
#include <regex>
#include <set>

namespace rls {
namespace {

// Of one interpreter, and of places that may be its version: real ones have one, among few others.
constexpr std::uint64_t kMaxDataBytes = 64 << 20;
constexpr std::uint64_t kMaxGuesses = 100000;
constexpr std::uint64_t kMaxInterpreters = 10000;

constexpr const char* kFunctions[] = {
    "PyEval_SaveThread",  "PyEval_RestoreThread", "PyEval_AcquireThread",     "PyGILState_Ensure",
    "PyGILState_Release", "PyEval_ReleaseThread", "PyThread_get_thread_ident"};
constexpr const char* kTypes[] = {
    "PyCFunction_Type",    "PyCMethod_Type",     "PyMethodDescr_Type", "PyClassMethodDescr_Type",
    "PyWrapperDescr_Type", "PyGetSetDescr_Type", "PyType_Type"};

// How _PyRuntime begins from 3.13 on (_Py_DebugOffsets): it tells its own layout.
struct DebugOffsets {
  char cookie[8];  // xdebugpy
  std::uint64_t version;
  std::uint64_t free_threaded;
  std::uint64_t runtime_size;
  std::uint64_t runtime_finalizing;
  std::uint64_t interpreters_head;
  std::uint64_t interpreter_size;
  std::uint64_t interpreter_id;
  std::uint64_t interpreter_next;
};

// A file of the process in which an interpreter may lie.
struct Module {
  ElfFile file;
  std::string path;
  std::uint64_t bias;
};

std::optional<AddressRange> AddressOf(Module& module, const std::string& name) {
  const auto symbol = module.file.FindExported(name);
  if (!symbol) return std::nullopt;
  return AddressRange{module.bias + symbol->address, module.bias + symbol->address + symbol->size};
}

// 0x030b02f0 is 3.11.2.
std::vector<int> FromHexVersion(std::uint64_t version) {
  const auto byte = [&](unsigned shift) { return static_cast<int>(version >> shift & 0xff); };
  return {byte(24), byte(16), byte(8)};
}

std::vector<int> FromMatch(const std::smatch& match) {
  std::vector<int> version;
  for (std::size_t i = 1; i < match.size() && match[i].matched; ++i)
    version.push_back(std::stoi(match[i].str()));
  return version;
}

std::vector<int> VersionFromPath(const std::string& path) {
  static const std::regex kPattern("(?:python|pypy)(3)\\.(\\d{1,2})");
  std::smatch match;
  const std::string name = path.substr(path.rfind('/') + 1);
  return std::regex_search(name, match, kPattern) ? FromMatch(match) : std::vector<int>();
}

// Until 3.10 the only place of the full version is sys.version, "3.9.18 (main, ...", which the
// interpreter keeps in its data.
std::vector<int> VersionFromData(const TargetProcess& process, const Module& module) {
  std::uint64_t left = kMaxDataBytes;
  std::uint64_t guesses = kMaxGuesses;
  for (const ElfSegment& segment : module.file.segments()) {
    if (!segment.is_writable) continue;
    std::string data(std::min(segment.memory_size, left), '\0');
    left -= data.size();
    data.resize(process.ReadMost(module.bias + segment.address, data.data(), data.size()));
    for (std::size_t at = data.find("3."); at != std::string::npos; at = data.find("3.", at + 1)) {
      if (guesses-- == 0) return {};
      static const std::regex kPattern("^(3)\\.(\\d{1,2})\\.(\\d{1,3})[abrc0-9+]* \\(");
      const std::string text = data.substr(at, 20);
      std::smatch match;
      if (std::regex_search(text, match, kPattern)) return FromMatch(match);
    }
  }
  return {};
}

std::vector<int> VersionOf(const TargetProcess& process, Module& module,
                           const std::optional<DebugOffsets>& offsets) {
  if (offsets) return FromHexVersion(offsets->version);
  std::uint32_t number = 0;
  const auto exported = AddressOf(module, "Py_Version");
  if (exported && process.Read(exported->start, &number, sizeof(number)))
    return FromHexVersion(number);
  std::vector<int> version = VersionFromData(process, module);
  return version.empty() ? VersionFromPath(module.path) : version;
}

std::optional<DebugOffsets> ReadDebugOffsets(const TargetProcess& process,
                                             const AddressRange& runtime) {
  DebugOffsets offsets;
  if (runtime.end - runtime.start < sizeof(offsets) ||
      !process.Read(runtime.start, &offsets, sizeof(offsets)) ||
      std::memcmp(offsets.cookie, "xdebugpy", sizeof(offsets.cookie)) != 0)
    return std::nullopt;
  return offsets;
}

// Counts the list of PyInterpreterStates; nullopt where it does not end or cannot be read.
std::optional<std::uint64_t> CountInterpreters(const TargetProcess& process,
                                               const PythonRuntime& python,
                                               const std::optional<DebugOffsets>& offsets) {
  std::uint64_t head = 0;
  std::uint64_t next = 0;
  if (offsets) {
    head = offsets->interpreters_head;
    next = offsets->interpreter_next;
  } else if (python.version.size() >= 2 && python.version[0] == 3) {
    // pyinterpreters.head in pycore_runtime.h; the link is the first field of the state.
    if (python.version[1] == 9 || python.version[1] == 10) head = 32;
    if (python.version[1] == 11 || python.version[1] == 12) head = 40;
  }
  if (head == 0 || head + 8 > python.runtime.end - python.runtime.start) return std::nullopt;
  std::uint64_t count = 0;
  std::uint64_t state = 0;
  std::uint64_t link = python.runtime.start + head;
  while (count <= kMaxInterpreters) {
    if (!process.Read(link, &state, sizeof(state))) return std::nullopt;
    if (state == 0) return count;
    ++count;
    link = state + next;
  }
  return std::nullopt;
}

AddressRange MemoryOf(const Module& module) {
  AddressRange all = {~std::uint64_t{0}, 0};
  for (const ElfSegment& segment : module.file.segments()) {
    all.start = std::min(all.start, module.bias + segment.address);
    all.end = std::max(all.end, module.bias + segment.address + segment.memory_size);
  }
  return all;
}

std::optional<PythonRuntime> AsCPython(const TargetProcess& process, Module& module) {
  PythonRuntime python;
  const auto runtime = AddressOf(module, "_PyRuntime");
  if (!runtime) return std::nullopt;
  python.implementation = "cpython";
  python.runtime = *runtime;
  python.module_path = module.path;
  python.module_memory = MemoryOf(module);
  for (const char* name : kTypes)
    if (const auto type = AddressOf(module, name)) python.types[name] = type->start;
  if (python.types.count("PyType_Type") == 0) return std::nullopt;
  const auto offsets = ReadDebugOffsets(process, *runtime);
  python.version = VersionOf(process, module, offsets);
  python.is_free_threaded = offsets && offsets->free_threaded != 0;
  python.interpreters = CountInterpreters(process, python, offsets);
  for (const char* name : kFunctions) {
    const auto symbol = module.file.FindExported(name);
    const auto offset = symbol ? module.file.OffsetOfCode(symbol->address) : std::nullopt;
    if (offset && symbol->is_function)
      python.symbols[name] = {module.bias + symbol->address, *offset};
  }
  return python;
}

std::optional<PythonRuntime> AsPyPy(Module& module) {
  if (!module.file.FindExported("pypy_execute_source") &&
      !module.file.FindExported("rpython_startup_code"))
    return std::nullopt;
  PythonRuntime python;
  python.implementation = "pypy";
  python.version = VersionFromPath(module.path);
  python.module_path = module.path;
  python.module_memory = MemoryOf(module);
  return python;
}

// The likely places first: most processes map hundreds of files.
int RankOf(const Mapping& mapping) {
  const std::string name = mapping.Name();
  if (name.rfind("libpython", 0) == 0 || name.rfind("libpypy", 0) == 0) return 0;
  return name.find("python") != std::string::npos && name.find(".so") == std::string::npos ? 1 : 2;
}

}  // namespace

std::optional<PythonRuntime> FindRuntime(const TargetProcess& process,
                                         const std::vector<Mapping>& maps) {
  std::vector<const Mapping*> candidates;
  std::set<std::string> seen;
  for (const Mapping& mapping : maps)
    if (mapping.IsExecutable() && mapping.inode != 0 && seen.insert(mapping.path).second)
      candidates.push_back(&mapping);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Mapping* a, const Mapping* b) { return RankOf(*a) < RankOf(*b); });
  for (const Mapping* mapping : candidates) {
    Module module = {ElfFile(process.OpenMapped(*mapping)), mapping->path, 0};
    const auto bias = module.file.BiasOf(*mapping);
    if (!bias) continue;
    module.bias = *bias;
    if (auto python = AsCPython(process, module)) return python;
    if (auto python = AsPyPy(module)) return python;
  }
  return std::nullopt;
}

}  // namespace rls
