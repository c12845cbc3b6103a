// Which libcupti belongs to this process.
//
// It has to be of the major version of the CUDA runtime in use. Environments often hold a second
// one (Triton brings its own), so the first that is found is not good enough:
//   1. RLSCOPE_CUPTI_LIBRARY
//   2. the one that is loaded, unless it is of another major version than the loaded libcudart
//   3. beside the loaded libcudart, where NVIDIA's wheels and toolkits put it
//   4. by its soname
//   5. no libcudart is loaded (it is linked statically): as the driver's version, downwards
//   6. where toolkits are installed
//   7. the one that is loaded, whatever its version
#include "cupti_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cupti_status.h"

#define OLDEST_MAJOR 11
#define NEWEST_MAJOR 99
#define MAX_LOADED 8

struct loaded {
  char path[RLS_CUPTI_PATH_BYTES];
  int major;  // 0: its name does not tell
};

struct search {
  struct loaded cupti[MAX_LOADED];
  struct loaded runtime[MAX_LOADED];
  int cupti_count;
  int runtime_count;
  int major;  // wanted; 0: any
};

// Too large for the stack of a thread that we do not know; starting happens once at a time.
static struct search search;

// "libcupti.so.13", "libcupti-1f2e3d.so.12.0": 13, 12. Files may bear a year instead: unknown.
static int major_of(const char* name) {
  const char* end = strstr(name, ".so.");
  const int number = end != NULL ? atoi(end + 4) : 0;
  return number >= OLDEST_MAJOR && number <= NEWEST_MAJOR ? number : 0;
}

static const char* soname_of(const struct dl_phdr_info* info) {
  const ElfW(Dyn)* entry = NULL;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  }
  uintptr_t strings = 0;
  uintptr_t offset = 0;
  for (; entry != NULL && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) offset = entry->d_un.d_val;
  }
  if (strings == 0 || offset == 0) return NULL;
  // glibc has relocated this entry, other loaders have not.
  if (strings < info->dlpi_addr) strings += info->dlpi_addr;
  return (const char*)strings + offset;
}

static bool begins(const char* text, const char* beginning) {
  return strncmp(text, beginning, strlen(beginning)) == 0;
}

static void note(struct loaded* list, int* count, const struct dl_phdr_info* info,
                 const char* name) {
  if (*count == MAX_LOADED || strlen(info->dlpi_name) >= RLS_CUPTI_PATH_BYTES) return;
  struct loaded* entry = &list[(*count)++];
  strcpy(entry->path, info->dlpi_name);
  entry->major = major_of(name);
  if (entry->major != 0) return;
  const char* soname = soname_of(info);
  if (soname != NULL) entry->major = major_of(soname);
}

// Under the loader's lock: nothing but looking.
static int look_at(struct dl_phdr_info* info, size_t bytes, void* unused) {
  (void)bytes;
  (void)unused;
  const char* slash = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;
  if (slash == NULL) return 0;
  const char* name = slash + 1;
  if (begins(name, "libcupti.so") || begins(name, "libcupti-")) {
    note(search.cupti, &search.cupti_count, info, name);
  } else if (begins(name, "libcudart.so") || begins(name, "libcudart-")) {
    note(search.runtime, &search.runtime_count, info, name);
  }
  return 0;
}

// An older CUPTI works with a newer driver, not the other way round.
static int wanted_major(void) {
  const int newest = rls_cupti.driver != 0 ? (int)(rls_cupti.driver / 1000) : NEWEST_MAJOR;
  int found = 0;
  for (int i = 0; i < search.runtime_count; ++i) {
    const int major = search.runtime[i].major;
    if (major > found && major <= newest) found = major;
  }
  return found;
}

static void* opened(void* library) {
  struct link_map* map = NULL;
  if (library == NULL || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return library;
  const char* path = map->l_name;
  const size_t bytes = strlen(path);
  if (bytes < sizeof(rls_cupti.library)) memcpy(rls_cupti.library, path, bytes + 1);
  return library;
}

static void* open_path(const char* path) { return opened(dlopen(path, RTLD_LAZY | RTLD_LOCAL)); }

static void* open_loaded(bool any) {
  for (int i = 0; i < search.cupti_count; ++i) {
    const struct loaded* entry = &search.cupti[i];
    if (!any && search.major != 0 && entry->major != 0 && entry->major != search.major) continue;
    void* library = dlopen(entry->path, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
    if (library != NULL) return opened(library);
  }
  return NULL;
}

static void soname_for(int major, char* name, size_t bytes) {
  // The only one that bears a minor version too.
  snprintf(name, bytes, major == 11 ? "libcupti.so.%d.8" : "libcupti.so.%d", major);
}

static void* open_beside_runtime(void) {
  static const char* const kFolders[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/",
                                         "../../../extras/CUPTI/lib64/"};
  char soname[32];
  soname_for(search.major, soname, sizeof(soname));
  for (int i = 0; i < search.runtime_count; ++i) {
    if (search.runtime[i].major != search.major) continue;
    const char* path = search.runtime[i].path;
    const int folder = (int)(strrchr(path, '/') + 1 - path);
    for (size_t j = 0; j < sizeof(kFolders) / sizeof(*kFolders); ++j) {
      char candidate[2 * RLS_CUPTI_PATH_BYTES];
      snprintf(candidate, sizeof(candidate), "%.*s%s%s", folder, path, kFolders[j], soname);
      void* library = open_path(candidate);
      if (library != NULL) return library;
    }
  }
  return NULL;
}

static void* open_installed(int major) {
  static const char* const kPatterns[] = {"/usr/local/cuda/extras/CUPTI/lib64/%s",
                                          "/usr/local/cuda-*/extras/CUPTI/lib64/%s"};
  char soname[32];
  soname_for(major, soname, sizeof(soname));
  void* library = open_path(soname);
  for (size_t i = 0; library == NULL && i < sizeof(kPatterns) / sizeof(*kPatterns); ++i) {
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof(pattern), kPatterns[i], soname);
    if (glob(pattern, 0, NULL, &found) != 0) continue;
    for (size_t j = found.gl_pathc; library == NULL && j-- > 0;)
      library = open_path(found.gl_pathv[j]);
    globfree(&found);
  }
  return library;
}

static void note_none(void) {
  char soname[32];
  soname_for(search.major != 0 ? search.major : (int)(rls_cupti.driver / 1000), soname,
             sizeof(soname));
  rls_cupti_note(RLS_SHIM_GPU_NO_LIBRARY,
                 search.major != 0 || rls_cupti.driver != 0 ? soname : "libcupti");
}

void* rls_cupti_open(const char* wanted) {
  if (wanted != NULL) {
    void* library = open_path(wanted);
    if (library != NULL) return library;
    const char* why = dlerror();
    rls_cupti_note(RLS_SHIM_GPU_LIBRARY_FAILED, why != NULL ? why : wanted);
    return NULL;
  }
  memset(&search, 0, sizeof(search));
  dl_iterate_phdr(look_at, NULL);
  search.major = wanted_major();
  void* library = open_loaded(false);
  if (library == NULL && search.major != 0) {
    library = open_beside_runtime();
    if (library == NULL) library = open_installed(search.major);
  } else if (library == NULL) {
    for (int major = (int)(rls_cupti.driver / 1000); library == NULL && major >= OLDEST_MAJOR;
         --major)
      library = open_installed(major);
  }
  if (library == NULL) library = open_loaded(true);
  if (library == NULL) note_none();
  dlerror();  // the program must not find an error of ours
  return library;
}

void* rls_cuda_function(const char* name) {
  static void* driver;
  if (driver == NULL) driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
  void* function = driver != NULL ? dlsym(driver, name) : NULL;
  if (function == NULL) dlerror();  // the program must not find an error of ours
  return function;
}

// A needed function that is missing; NULL: there is none.
static const char* resolve(void* library) {
  struct cupti_functions* f = &rls_cupti.functions;
  const struct {
    const char* name;
    void** function;
    bool is_needed;
  } wanted[] = {
      {"cuptiGetVersion", (void**)&f->get_version, false},
      {"cuptiGetTimestamp", (void**)&f->get_timestamp, false},
      {"cuptiSubscribe", (void**)&f->subscribe, true},
      {"cuptiSubscribe_v2", (void**)&f->subscribe_v2, false},
      {"cuptiUnsubscribe", (void**)&f->unsubscribe, false},
      {"cuptiActivityRegisterTimestampCallback", (void**)&f->register_timestamp, false},
      {"cuptiSetThreadIdType", (void**)&f->set_thread_id_type, false},
      {"cuptiActivityRegisterCallbacks", (void**)&f->register_buffers, true},
      {"cuptiActivityEnable", (void**)&f->enable, true},
      {"cuptiActivityEnableAndDump", (void**)&f->enable_and_dump, false},
      {"cuptiActivityDisable", (void**)&f->disable, false},
      {"cuptiActivityEnableRuntimeApi", (void**)&f->enable_runtime_call, false},
      {"cuptiActivityEnableDriverApi", (void**)&f->enable_driver_call, false},
      {"cuptiGetCallbackName", (void**)&f->get_callback_name, false},
      {"cuptiActivityFlushAll", (void**)&f->flush_all, true},
      {"cuptiActivityGetNextRecord", (void**)&f->next_record, true},
      {"cuptiActivityGetNumDroppedRecords", (void**)&f->get_dropped, false},
      {"cuptiGetContextId", (void**)&f->get_context_id, false},
      {"cuptiGetStreamIdEx", (void**)&f->get_stream_id, false},
      {"cuptiGetDeviceId", (void**)&f->get_device_id, false},
  };
  for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); ++i) {
    *wanted[i].function = dlsym(library, wanted[i].name);
    if (*wanted[i].function == NULL && wanted[i].is_needed) return wanted[i].name;
  }
  return NULL;
}

bool rls_cupti_resolve(void* library) {
  const char* missing = resolve(library);
  dlerror();  // the program must not find an error of ours: older releases lack some
  if (missing != NULL) rls_cupti_note(RLS_SHIM_GPU_LIBRARY_LACKS, missing);
  return missing == NULL;
}
