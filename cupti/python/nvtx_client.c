#include "nvtx_client.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "nvtx_abi.h"

#define DOMAIN_NAME "rlscope"
// Of the headers whose behaviour this is.
#define NVTX_VERSION 3

typedef int (*initialize_function)(nvtx_get_export_table get_export_table);
typedef int (*push_function)(void* domain, const struct nvtx_attributes* attributes);
typedef int (*pop_function)(void* domain);
typedef void (*mark_function)(void* domain, const struct nvtx_attributes* attributes);
typedef void* (*register_function)(void* domain, const char* name);
typedef void* (*create_function)(const char* name);
typedef void (*label_function)(void* domain, uint32_t category, const char* name);
typedef void (*pop_at_function)(const void* domain, uint64_t end_ns);
typedef void (*payload_function)(const void* domain, uint64_t payload, int is_known);

// The slots the tool writes its handlers into. A slot it leaves NULL is a call it does not want.
static nvtx_function core_slots[NVTX_CORE_SIZE];
static nvtx_function core2_slots[NVTX_CORE2_SIZE];
static nvtx_function* core_table[NVTX_CORE_SIZE + 1];
static nvtx_function* core2_table[NVTX_CORE2_SIZE + 1];

static enum { NOT_TRIED, AVAILABLE, UNAVAILABLE } state;
static void* domain;
static push_function push;
static pop_function pop;
// NULL: the tool is another one.
static payload_function set_payload;
static pop_at_function pop_at;

static int get_function_table(uint32_t module, nvtx_table* table, unsigned* size) {
  nvtx_table found = NULL;
  unsigned entries = 0;
  if (module == NVTX_MODULE_CORE) {
    found = core_table;
    entries = NVTX_CORE_SIZE;
  } else if (module == NVTX_MODULE_CORE2) {
    found = core2_table;
    entries = NVTX_CORE2_SIZE;
  } else {
    return 0;
  }
  if (table != NULL) *table = found;
  if (size != NULL) *size = entries;
  return 1;
}

static void set_injection_version(uint32_t version) { (void)version; }

struct export_version {
  size_t struct_size;
  uint32_t version;
  uint32_t reserved;
  void (*set_injection_version)(uint32_t version);
};
enum { NVTX_EXPORT_VERSION = 3 };

static const void* get_export_table(uint32_t id) {
  static const struct nvtx_export_callbacks kCallbacks = {sizeof(kCallbacks), get_function_table};
  static const struct export_version kVersion = {sizeof(kVersion), NVTX_VERSION, 0,
                                                 set_injection_version};
  if (id == NVTX_EXPORT_CALLBACKS) return &kCallbacks;
  if (id == NVTX_EXPORT_VERSION) return &kVersion;
  return NULL;
}

static void fill_tables(void) {
  for (unsigned index = 1; index < NVTX_CORE_SIZE; ++index) core_table[index] = &core_slots[index];
  for (unsigned index = 1; index < NVTX_CORE2_SIZE; ++index)
    core2_table[index] = &core2_slots[index];
}

static bool load_tool(void) {
  const char* path = getenv("NVTX_INJECTION64_PATH");
  if (path == NULL || *path == '\0') return false;
  // Never closed: the handlers it gave us lie in it.
  void* library = dlopen(path, RTLD_LAZY);
  if (library == NULL) return false;
  initialize_function initialize = NULL;
  *(void**)&initialize = dlsym(library, "InitializeInjectionNvtx2");
  *(void**)&set_payload = dlsym(library, "rlscope_shim_set_payload");
  *(void**)&pop_at = dlsym(library, "rlscope_shim_pop_at");
  fill_tables();
  return initialize != NULL && initialize(get_export_table) != 0;
}

static bool connect_tool(void) {
  if (!load_tool()) return false;
  create_function create = (create_function)core2_slots[NVTX_DOMAIN_CREATE_A];
  push = (push_function)core2_slots[NVTX_DOMAIN_RANGE_PUSH_EX];
  pop = (pop_function)core2_slots[NVTX_DOMAIN_RANGE_POP];
  if (create == NULL || push == NULL || pop == NULL) return false;
  domain = create(DOMAIN_NAME);
  return true;
}

bool rls_nvtx_available(void) {
  if (state == NOT_TRIED) state = connect_tool() ? AVAILABLE : UNAVAILABLE;
  return state == AVAILABLE;
}

void* rls_nvtx_register(const char* name) {
  if (!rls_nvtx_available()) return NULL;
  register_function registers = (register_function)core2_slots[NVTX_DOMAIN_REGISTER_STRING_A];
  return registers != NULL ? registers(domain, name) : NULL;
}

bool rls_nvtx_label(uint32_t label, const char* text) {
  label_function name = (label_function)core2_slots[NVTX_DOMAIN_NAME_CATEGORY_A];
  if (state != AVAILABLE || name == NULL) return false;
  name(domain, label, text);
  return true;
}

void rls_nvtx_push(void* registered_name, uint32_t label, bool is_counted) {
  if (state != AVAILABLE) return;
  const struct nvtx_attributes attributes = {
      .version = NVTX_VERSION,
      .size = sizeof(attributes),
      .category = label,
      .payload_type = is_counted && set_payload != NULL ? NVTX_PAYLOAD_U64 : NVTX_PAYLOAD_NONE,
      .message_type = NVTX_MESSAGE_REGISTERED,
      .message.registered = registered_name,
  };
  push(domain, &attributes);
}

void rls_nvtx_pop(void) {
  if (state == AVAILABLE) pop(domain);
}

void rls_nvtx_pop_at(uint64_t end_ns) {
  if (state == AVAILABLE && pop_at != NULL)
    pop_at(domain, end_ns);
  else
    rls_nvtx_pop();
}

void rls_nvtx_count(int64_t count) {
  if (state == AVAILABLE && set_payload != NULL)
    set_payload(domain, count >= 0 ? (uint64_t)count : 0, count >= 0);
}

void rls_nvtx_mark(const char* text) {
  mark_function mark = (mark_function)core2_slots[NVTX_DOMAIN_MARK_EX];
  if (state != AVAILABLE || mark == NULL) return;
  const struct nvtx_attributes attributes = {
      .version = NVTX_VERSION,
      .size = sizeof(attributes),
      .message_type = NVTX_MESSAGE_ASCII,
      .message.ascii = text,
  };
  mark(domain, &attributes);
}
