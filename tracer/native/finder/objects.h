// The objects through which CPython calls native code, as they lie in memory. The layouts are those
// of 3.8 to 3.15, which differ only in the size of the object head of free-threaded builds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "finder/process.h"

namespace rls {

// In the order of preference for a function that is reached in several ways.
enum class EntryKind { kFunction, kMethod, kVectorcall, kSlot, kGetter };
const char* NameOf(EntryKind kind);

// What an object of some type holds for us.
enum class ObjectRole { kFunction, kMethod, kSlot, kGetter, kType, kVectorcallInstance };

// How CPython calls one function, from all objects that lead to it.
struct EntryUse {
  EntryKind kind;
  std::string module;  // "mujoco._functions"; empty: not known
  std::string name;    // "mujoco._functions.mj_step"; the module where several share the function
  bool is_shared;      // by several names: a dispatcher
};

// The ranges of executable and other memory of the files that are asked for.
class WantedCode {
 public:
  void Add(const Mapping& mapping, std::size_t file);
  // nullptr: in no file that is asked for.
  struct Part {
    AddressRange range;
    std::uint64_t file_offset;
    std::size_t file;
    bool is_executable;
  };
  const Part* Find(std::uint64_t address) const;
  // After the last Add.
  void Sort();

 private:
  std::vector<Part> parts_;
};

// Reads the objects that a scan comes upon and collects what they lead to.
class ObjectReader {
 public:
  // `interpreter`: the memory of the interpreter's own file, whose types and functions are generic.
  ObjectReader(const TargetProcess& process, std::uint64_t head_bytes, AddressRange interpreter,
               const WantedCode& wanted);

  void Read(std::uint64_t object, std::uint64_t type, ObjectRole role);

  // By address of the function.
  const std::unordered_map<std::uint64_t, EntryUse>& uses() const { return uses_; }
  std::uint64_t implausible() const { return implausible_; }
  std::uint64_t unreadable() const { return unreadable_; }

  // Types learnt since the last call whose instances are to be looked for: metaclasses, and types
  // whose instances hold a function of their own.
  std::map<std::uint64_t, ObjectRole> TakeNewTypes();

 private:
  struct MethodDefinition {
    std::uint64_t name;
    std::uint64_t function;
    std::int32_t flags;
  };
  void ReadFunction(std::uint64_t object);
  void ReadMethod(std::uint64_t object);
  void ReadSlot(std::uint64_t object);
  void ReadGetter(std::uint64_t object);
  void ReadType(std::uint64_t object);
  void ReadInstance(std::uint64_t object, std::uint64_t type);
  // The definition at an address that lies at `field` of the object, if it is for a wanted file.
  bool ReadDefinition(std::uint64_t object, std::uint64_t field, MethodDefinition* out);
  bool IsWanted(std::uint64_t function) const { return wanted_.Find(function) != nullptr; }
  bool HasReferences(std::uint64_t object);
  std::string TypeName(std::uint64_t type);
  std::string ModuleName(std::uint64_t object);
  std::string TextAtPointer(std::uint64_t pointer);
  void Note(std::uint64_t function, EntryKind kind, const std::string& module,
            const std::string& name);

  PageCache cache_;
  std::uint64_t head_;
  AddressRange interpreter_;
  const WantedCode& wanted_;
  std::unordered_map<std::uint64_t, EntryUse> uses_;
  std::unordered_map<std::uint64_t, std::uint64_t> vectorcall_offsets_;  // by type
  std::map<std::uint64_t, ObjectRole> known_types_;
  std::map<std::uint64_t, ObjectRole> new_types_;
  std::uint64_t implausible_ = 0;
  std::uint64_t unreadable_ = 0;
};

}  // namespace rls
