#include "finder/finder.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <unordered_map>

#include "finder/gate.h"
#include "finder/scan.h"
#include "held_up.h"

namespace rls {
namespace {

constexpr int kNice = 10;
constexpr int kIdlestBestEffort = 2 << 13 | 7;  // ioprio: class best-effort, last level
constexpr int kMaxPasses = 4;                   // types of types of types are enough

// "_functions" of ".../mujoco/_functions.cpython-311-x86_64-linux-gnu.so"
std::string StemOf(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.', 1));
}

std::string Hex(std::uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

// The qualified name of a mangled C++ function, without its parameters: only plain nested names,
// as full demanglers are not made for names of strangers.
std::string ReadableSymbol(const std::string& symbol) {
  std::size_t at = symbol.rfind("_ZN", 0) == 0 ? 3 : std::string::npos;
  std::string name;
  while (at < symbol.size() && symbol[at] != 'E') {
    if (symbol[at] == 'L') ++at;
    std::size_t length = 0;
    const std::size_t digits = at;
    while (at < symbol.size() && symbol[at] >= '0' && symbol[at] <= '9' && at - digits < 4)
      length = length * 10 + static_cast<std::size_t>(symbol[at++] - '0');
    if (length == 0 || length > symbol.size() - at) return symbol;
    name += (name.empty() ? "" : "::") + symbol.substr(at, length);
    at += length;
  }
  return name.empty() || at >= symbol.size() ? symbol : name;
}

std::map<std::uint64_t, ObjectRole> RolesOf(const PythonRuntime& python) {
  static const std::map<std::string, ObjectRole> kRoles = {
      {"PyCFunction_Type", ObjectRole::kFunction}, {"PyCMethod_Type", ObjectRole::kFunction},
      {"PyMethodDescr_Type", ObjectRole::kMethod}, {"PyClassMethodDescr_Type", ObjectRole::kMethod},
      {"PyWrapperDescr_Type", ObjectRole::kSlot},  {"PyGetSetDescr_Type", ObjectRole::kGetter},
      {"PyType_Type", ObjectRole::kType}};
  std::map<std::uint64_t, ObjectRole> roles;
  for (const auto& [name, address] : python.types) roles.emplace(address, kRoles.at(name));
  return roles;
}

// One file that is asked for, with the functions that objects lead to.
struct AskedFile {
  std::string path;
  const Mapping* code = nullptr;
  std::map<std::uint64_t, const EntryUse*> functions;  // by file offset
};

class PointMaker {
 public:
  explicit PointMaker(const TargetProcess& process, EntryPoints& out)
      : process_(process), out_(out) {}

  void Add(const AskedFile& asked) {
    ElfFile file(process_.OpenMapped(*asked.code));
    std::map<std::uint64_t, Gated> passed;
    for (const auto& [offset, use] : asked.functions) {
      const Gated gated = PassGate(file, offset);
      if (gated.site)
        passed.emplace(offset, gated);
      else
        ++out_.rejected[gated.reason];
    }
    std::vector<std::uint64_t> starts;
    for (const auto& [offset, gated] : passed) starts.push_back(gated.start);
    std::sort(starts.begin(), starts.end());
    const auto names = file.NamesOf(starts);
    for (const auto& [offset, gated] : passed) {
      const EntryUse& use = *asked.functions.at(offset);
      const auto name = names.find(gated.start);
      const std::string symbol = name == names.end() ? "" : name->second;
      out_.points.push_back({asked.path, *gated.site, NameFor(asked.path, offset, use, symbol),
                             use.kind, offset, gated.is_expensive});
    }
  }

 private:
  static std::string NameFor(const std::string& path, std::uint64_t offset, const EntryUse& use,
                             const std::string& symbol) {
    // The symbol of a dispatcher says how a binding library is written, not what it binds.
    if (use.is_shared && !use.module.empty()) return use.module;
    if (!symbol.empty()) return ReadableSymbol(symbol);
    return use.name.empty() ? StemOf(path) + "+" + Hex(offset) : use.name;
  }

  const TargetProcess& process_;
  EntryPoints& out_;
};

void ScanObjects(MemoryScan& scan, const PythonRuntime& python, ObjectReader& reader) {
  std::map<std::uint64_t, ObjectRole> types = RolesOf(python);
  const std::uint64_t type_field = python.HeadBytes() - 8;
  for (int pass = 0; pass < kMaxPasses && !types.empty(); ++pass) {
    scan.ForEach(types, type_field, [&](std::uint64_t object, std::uint64_t type, ObjectRole role) {
      reader.Read(object, type, role);
    });
    types = reader.TakeNewTypes();
  }
}

void SetPriority(int nice) {
  const auto tid = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, tid, nice);
  syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, tid, kIdlestBestEffort);
}

}  // namespace

std::vector<Mapping> PythonFinder::Mappings() const {
  std::vector<Mapping> found = process_.Maps();
  found.erase(std::remove_if(found.begin(), found.end(),
                             [](const Mapping& m) { return m.inode == 0 || !m.IsExecutable(); }),
              found.end());
  return found;
}

std::optional<PythonRuntime> PythonFinder::Runtime() const {
  const auto python = FindRuntime(process_, process_.Maps());
  process_.CheckAlive();
  return python;
}

EntryPoints PythonFinder::Find(const std::vector<std::string>& paths,
                               std::uint64_t budget_bytes) const {
  EntryPoints out;
  const std::vector<Mapping> maps = process_.Maps();
  const auto python = FindRuntime(process_, maps);
  if (!python || python->implementation != "cpython") return out;
  std::vector<AskedFile> files;
  WantedCode wanted;
  for (const std::string& path : paths) {
    if (path == python->module_path) continue;
    files.push_back({path, nullptr, {}});
    for (const Mapping& mapping : maps) {
      if (mapping.path != path || mapping.inode == 0) continue;
      wanted.Add(mapping, files.size() - 1);
      if (mapping.IsExecutable() && files.back().code == nullptr) files.back().code = &mapping;
    }
  }
  wanted.Sort();
  MemoryScan scan(process_, maps, budget_bytes);
  ObjectReader reader(process_, python->HeadBytes(), python->module_memory, wanted);
  ScanObjects(scan, *python, reader);
  for (const auto& [function, use] : reader.uses()) {
    const WantedCode::Part* part = wanted.Find(function);
    if (part->is_executable)
      files[part->file].functions.emplace(function - part->range.start + part->file_offset, &use);
    else
      ++out.rejected["not in the file's text"];
  }
  PointMaker maker(process_, out);
  for (const AskedFile& file : files)
    if (file.code != nullptr && !file.functions.empty()) maker.Add(file);
  out.scanned_bytes = scan.bytes().scanned;
  out.unscanned_bytes = scan.bytes().left_out;
  if (reader.unreadable() > 0) out.rejected["unreadable"] = reader.unreadable();
  if (reader.implausible() > 0) out.rejected["implausible"] = reader.implausible();
  if (scan.bytes().is_cut) out.rejected["too many objects"] = 1;
  process_.CheckAlive();  // what was read is the program's that was asked for
  return out;
}

std::map<std::string, std::uint64_t> PythonFinder::Exported(
    const std::string& path, const std::vector<std::string>& names) const {
  std::map<std::string, std::uint64_t> sites;
  const std::vector<Mapping> maps = process_.Maps();
  const auto code = std::find_if(maps.begin(), maps.end(), [&](const Mapping& mapping) {
    return mapping.path == path && mapping.IsExecutable() && mapping.inode != 0;
  });
  if (code == maps.end()) return sites;
  ElfFile file(process_.OpenMapped(*code));
  for (const std::string& name : names) {
    const auto symbol = file.FindExported(name);
    const auto offset = symbol ? file.OffsetOfCode(symbol->address) : std::nullopt;
    if (!offset || !symbol->is_function) continue;
    const Gated gated = PassGate(file, *offset);
    if (gated.site) sites[name] = *gated.site;
  }
  process_.CheckAlive();
  return sites;
}

void RunAtLowPriority(const std::function<void()>& work) {
  std::exception_ptr error;
  const auto waiting = static_cast<pid_t>(syscall(SYS_gettid));
  std::thread thread([&] {
    const WorksFor works_for(waiting);
    SetPriority(kNice);  // of this thread alone, which ends: there is nothing to set back
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  });
  thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace rls
