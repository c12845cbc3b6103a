#include "finder/objects.h"

#include <algorithm>

namespace rls {
namespace {

// Distances from the end of the object head (PyObject), in bytes.
constexpr std::uint64_t kFunctionDefinition = 0;  // PyCFunctionObject.m_ml
constexpr std::uint64_t kFunctionModule = 16;     // PyCFunctionObject.m_module
constexpr std::uint64_t kDescriptorType = 0;      // PyDescrObject.d_type
constexpr std::uint64_t kDescriptorContent = 24;  // d_method, d_base, d_getset
constexpr std::uint64_t kWrapped = 32;            // PyWrapperDescrObject.d_wrapped
constexpr std::uint64_t kTypeName = 8;            // PyTypeObject.tp_name
constexpr std::uint64_t kTypeBasicSize = 16;
constexpr std::uint64_t kTypeVectorcallOffset = 40;
constexpr std::uint64_t kTypeFlags = 152;
constexpr std::uint64_t kTypeNew = 296;
constexpr std::uint64_t kTypeVectorcall = 384;
constexpr std::uint64_t kTextLength = 0;  // PyASCIIObject.length
constexpr std::uint64_t kTextBytes = 24;  // its characters, from 3.12 on; 8 more before

constexpr std::uint64_t kFlagVectorcall = 1u << 11;
constexpr std::uint64_t kFlagReady = 1u << 12;
constexpr std::uint64_t kFlagTypeSubclass = 1u << 31;
constexpr std::int32_t kMethodFlags = 0x2ff;  // METH_VARARGS ... METH_METHOD
constexpr std::uint64_t kMaxBasicSize = 1 << 20;

constexpr std::uint64_t kPlainHead = 16;
constexpr std::uint64_t kLowestAddress = 1 << 20;
constexpr std::uint64_t kImmortal = std::uint64_t{1} << 31;  // counts of objects that never die

std::string Joined(const std::string& scope, const std::string& name) {
  return scope.empty() || name.empty() ? name : scope + "." + name;
}

bool IsDottedName(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '.';
  });
}

// Slots that do no more than look an attribute up are as hot and short as getters.
bool IsAttributeSlot(const std::string& name) {
  static constexpr const char* kNames[] = {"__getattribute__", "__getattr__", "__setattr__",
                                           "__delattr__",      "__get__",     "__set__",
                                           "__delete__"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* other) { return name == other; });
}

}  // namespace

const char* NameOf(EntryKind kind) {
  static constexpr const char* kNames[] = {"function", "method", "vectorcall", "slot", "getter"};
  return kNames[static_cast<std::size_t>(kind)];
}

void WantedCode::Add(const Mapping& mapping, std::size_t file) {
  parts_.push_back({{mapping.start, mapping.end}, mapping.offset, file, mapping.IsExecutable()});
}

void WantedCode::Sort() {
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return a.range.start < b.range.start; });
}

const WantedCode::Part* WantedCode::Find(std::uint64_t address) const {
  auto after = std::upper_bound(
      parts_.begin(), parts_.end(), address,
      [](std::uint64_t value, const Part& part) { return value < part.range.start; });
  if (after == parts_.begin()) return nullptr;
  const Part& part = *--after;
  return part.range.Contains(address) ? &part : nullptr;
}

ObjectReader::ObjectReader(const TargetProcess& process, std::uint64_t head_bytes,
                           AddressRange interpreter, const WantedCode& wanted)
    : cache_(process), head_(head_bytes), interpreter_(interpreter), wanted_(wanted) {}

// Most words that hold the address of a type are no head of an object: tables of linkers, variables
// of modules. The word before is the reference count then: small, and no address. (From 3.14 on its
// upper 16 bits are flags.)
bool ObjectReader::HasReferences(std::uint64_t object) {
  if (object % 8 != 0) return false;
  // Free-threaded builds count elsewhere; the first word of an object tells its thread.
  if (head_ != kPlainHead) return true;
  const auto count = cache_.Get<std::uint64_t>(object);
  if (!count || (*count & 0xffff'ffff) == 0 || (*count & 0xffff'0000'0000) != 0) return false;
  const std::uint64_t low = *count & 0xffff'ffff;
  return low < kLowestAddress || low >= kImmortal || !cache_.Get<unsigned char>(low);
}

void ObjectReader::Read(std::uint64_t object, std::uint64_t type, ObjectRole role) {
  if (!HasReferences(object)) return;
  switch (role) {
    case ObjectRole::kFunction:
      return ReadFunction(object);
    case ObjectRole::kMethod:
      return ReadMethod(object);
    case ObjectRole::kSlot:
      return ReadSlot(object);
    case ObjectRole::kGetter:
      return ReadGetter(object);
    case ObjectRole::kType:
      return ReadType(object);
    case ObjectRole::kVectorcallInstance:
      return ReadInstance(object, type);
  }
}

std::map<std::uint64_t, ObjectRole> ObjectReader::TakeNewTypes() {
  std::map<std::uint64_t, ObjectRole> taken;
  taken.swap(new_types_);
  return taken;
}

bool ObjectReader::ReadDefinition(std::uint64_t object, std::uint64_t field,
                                  MethodDefinition* out) {
  const auto pointer = cache_.Get<std::uint64_t>(object + head_ + field);
  if (!pointer || !cache_.Read(*pointer, out, sizeof(*out))) {
    ++unreadable_;
    return false;
  }
  if (!IsWanted(out->function)) return false;
  if ((out->flags & ~kMethodFlags) != 0) {
    ++implausible_;
    return false;
  }
  return true;
}

void ObjectReader::ReadFunction(std::uint64_t object) {
  MethodDefinition definition;
  if (!ReadDefinition(object, kFunctionDefinition, &definition)) return;
  const std::string module = ModuleName(object);
  Note(definition.function, EntryKind::kFunction, module,
       Joined(module, TextAtPointer(definition.name)));
}

void ObjectReader::ReadMethod(std::uint64_t object) {
  MethodDefinition definition;
  if (!ReadDefinition(object, kDescriptorContent, &definition)) return;
  const auto type = cache_.Get<std::uint64_t>(object + head_ + kDescriptorType);
  const std::string scope = type ? TypeName(*type) : std::string();
  Note(definition.function, EntryKind::kMethod, scope,
       Joined(scope, TextAtPointer(definition.name)));
}

void ObjectReader::ReadSlot(std::uint64_t object) {
  const auto function = cache_.Get<std::uint64_t>(object + head_ + kWrapped);
  if (!function || !IsWanted(*function)) return;
  const auto type = cache_.Get<std::uint64_t>(object + head_ + kDescriptorType);
  const auto base = cache_.Get<std::uint64_t>(object + head_ + kDescriptorContent);
  const auto text = base ? cache_.Get<std::uint64_t>(*base) : std::nullopt;  // wrapperbase.name
  const std::string name = text ? TextAtPointer(*text) : std::string();
  const std::string scope = type ? TypeName(*type) : std::string();
  Note(*function, IsAttributeSlot(name) ? EntryKind::kGetter : EntryKind::kSlot, scope,
       Joined(scope, name));
}

void ObjectReader::ReadGetter(std::uint64_t object) {
  struct {
    std::uint64_t name, get, set;
  } definition;  // PyGetSetDef
  const auto pointer = cache_.Get<std::uint64_t>(object + head_ + kDescriptorContent);
  if (!pointer || !cache_.Read(*pointer, &definition, sizeof(definition))) {
    ++unreadable_;
    return;
  }
  const auto type = cache_.Get<std::uint64_t>(object + head_ + kDescriptorType);
  for (const std::uint64_t function : {definition.get, definition.set}) {
    if (!IsWanted(function)) continue;
    const std::string scope = type ? TypeName(*type) : std::string();
    Note(function, EntryKind::kGetter, scope, Joined(scope, TextAtPointer(definition.name)));
  }
}

void ObjectReader::ReadType(std::uint64_t object) {
  const auto field = [&](std::uint64_t distance) {
    return cache_.Get<std::uint64_t>(object + head_ + distance).value_or(0);
  };
  const std::uint64_t flags = field(kTypeFlags);
  const std::uint64_t basic_size = field(kTypeBasicSize);
  if ((flags & kFlagReady) == 0 || basic_size < head_ || basic_size > kMaxBasicSize) return;
  for (const std::uint64_t distance : {kTypeNew, kTypeVectorcall}) {
    const std::uint64_t function = field(distance);
    if (!IsWanted(function)) continue;
    const std::string scope = TypeName(object);
    Note(function, distance == kTypeNew ? EntryKind::kSlot : EntryKind::kVectorcall, scope,
         Joined(scope, "__new__"));
  }
  if (interpreter_.Contains(object)) return;
  const std::uint64_t offset = field(kTypeVectorcallOffset);
  const bool holds_function =
      (flags & kFlagVectorcall) != 0 && offset >= head_ && offset + 8 <= basic_size;
  const bool is_metaclass = (flags & kFlagTypeSubclass) != 0;
  if (!holds_function && !is_metaclass) return;
  const ObjectRole role = is_metaclass ? ObjectRole::kType : ObjectRole::kVectorcallInstance;
  if (!known_types_.emplace(object, role).second) return;
  new_types_.emplace(object, role);
  vectorcall_offsets_[object] = offset;
}

void ObjectReader::ReadInstance(std::uint64_t object, std::uint64_t type) {
  const auto function = cache_.Get<std::uint64_t>(object + vectorcall_offsets_[type]);
  if (!function || !IsWanted(*function)) return;
  const std::string scope = TypeName(type);
  Note(*function, EntryKind::kVectorcall, scope, Joined(scope, "__call__"));
}

std::string ObjectReader::TypeName(std::uint64_t type) {
  const auto pointer = cache_.Get<std::uint64_t>(type + head_ + kTypeName);
  return pointer ? TextAtPointer(*pointer) : std::string();
}

std::string ObjectReader::TextAtPointer(std::uint64_t pointer) {
  return cache_.Text(pointer).value_or("");
}

// m_module is a str as a rule, but may be any object.
std::string ObjectReader::ModuleName(std::uint64_t object) {
  const auto text = cache_.Get<std::uint64_t>(object + head_ + kFunctionModule);
  if (!text || *text == 0) return {};
  const auto length = cache_.Get<std::uint64_t>(*text + head_ + kTextLength);
  if (!length) return {};
  for (const std::uint64_t distance : {kTextBytes, kTextBytes + 8}) {
    const std::string name = TextAtPointer(*text + head_ + distance);
    if (name.size() == *length && IsDottedName(name)) return name;
  }
  return {};
}

void ObjectReader::Note(std::uint64_t function, EntryKind kind, const std::string& module,
                        const std::string& name) {
  const auto [at, is_new] = uses_.emplace(function, EntryUse{kind, module, name, false});
  EntryUse& use = at->second;
  if (is_new) return;
  use.kind = std::min(use.kind, kind);
  if (name.empty() || use.name == name) return;
  if (use.name.empty()) {
    use.name = name;
    use.module = module;
    return;
  }
  // Several names: what they have in common is the module, if anything.
  use.is_shared = true;
  if (use.module != module) use.module.clear();
  use.name = use.module;
}

}  // namespace rls
