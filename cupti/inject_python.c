// The Python half of a late attach: what the packages of a running interpreter remember of a time
// without a tool is mended by inject_repair.py, which runs inside the interpreter.
//
// Everything is resolved by name, as this library must load into programs without Python.
#include "inject_python.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// How long the main thread may take to come by before we take the interpreter's lock ourselves.
#define MAIN_THREAD_WAIT_NS 250000000L
#define LONGEST_WAIT_NS 10000000000L
#define POLL_NS 2000000L
#define FILE_INPUT 257  // Py_file_input

// inject_repair.py, NUL at the end.
extern const char rls_inject_repair[] __attribute__((visibility("hidden")));
__asm__(
    ".pushsection .rodata\n"
    ".hidden rls_inject_repair\n"
    ".globl rls_inject_repair\n"
    "rls_inject_repair:\n"
    ".incbin \"inject_repair.py\"\n"
    ".byte 0\n"
    ".popsection\n");

typedef struct object object;

// The stable part of CPython's interface, present from 3.2 on.
struct python {
  int (*is_initialized)(void);
  int (*add_pending)(int (*call)(void*), void* argument);
  int (*gil_ensure)(void);
  void (*gil_release)(int state);
  void (*fetch)(object** type, object** value, object** trace);
  void (*restore)(object* type, object* value, object* trace);
  void (*clear)(void);
  object* (*compile)(const char* text, const char* name, int start);
  object* (*evaluate)(object* code, object* globals, object* locals);
  object* (*builtins)(void);
  object* (*new_dict)(void);
  object* (*get_item)(object* dict, const char* key);
  int (*set_item)(object* dict, const char* key, object* value);
  object* (*new_bytes)(const char* text, long bytes);
  char* (*bytes_text)(object* bytes);
  void (*release)(object* object);
};

static struct python python;
static struct rls_inject_status* result;
static const struct rls_inject_request* asked;
static uint32_t is_taken;  // 1: somebody runs the text, or ran it

// The interpreter lies in the program, or in a libpython that may have been loaded privately.
static int note_libpython(struct dl_phdr_info* info, size_t size, void* found) {
  (void)size;
  const char* name = strrchr(info->dlpi_name, '/');
  if (name == NULL || strncmp(name + 1, "libpython", 9) != 0) return 0;
  snprintf(found, 4096, "%s", info->dlpi_name);
  return strncmp(name + 1, "libpython3.so", 13) != 0;
}

static void* find_interpreter(void) {
  if (dlsym(RTLD_DEFAULT, "Py_AddPendingCall") != NULL) return RTLD_DEFAULT;
  static char path[4096];
  dl_iterate_phdr(note_libpython, path);
  return path[0] == '\0' ? NULL : dlopen(path, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
}

// RTLD_DEFAULT is the null handle.
static bool has_interpreter(void* library) { return dlsym(library, "Py_AddPendingCall") != NULL; }

static bool resolve(void* library) {
  const struct {
    const char* name;
    void** function;
  } wanted[] = {
      {"Py_IsInitialized", (void**)&python.is_initialized},
      {"Py_AddPendingCall", (void**)&python.add_pending},
      {"PyGILState_Ensure", (void**)&python.gil_ensure},
      {"PyGILState_Release", (void**)&python.gil_release},
      {"PyErr_Fetch", (void**)&python.fetch},
      {"PyErr_Restore", (void**)&python.restore},
      {"PyErr_Clear", (void**)&python.clear},
      {"Py_CompileString", (void**)&python.compile},
      {"PyEval_EvalCode", (void**)&python.evaluate},
      {"PyEval_GetBuiltins", (void**)&python.builtins},
      {"PyDict_New", (void**)&python.new_dict},
      {"PyDict_GetItemString", (void**)&python.get_item},
      {"PyDict_SetItemString", (void**)&python.set_item},
      {"PyBytes_FromStringAndSize", (void**)&python.new_bytes},
      {"PyBytes_AsString", (void**)&python.bytes_text},
      {"Py_DecRef", (void**)&python.release},
  };
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); ++i) {
    *wanted[i].function = dlsym(library, wanted[i].name);
    if (*wanted[i].function == NULL) return false;
  }
  return true;
}

static void set_bytes(object* dict, const char* key, const char* text, size_t bytes) {
  object* value = python.new_bytes(text, (long)bytes);
  if (value == NULL) return;
  python.set_item(dict, key, value);
  python.release(value);
}

// The folder of this library, where the packages for the target lie.
static void set_folder(object* globals) {
  Dl_info own;
  if (dladdr(&python, &own) == 0 || own.dli_fname == NULL) return;
  const char* end = strrchr(own.dli_fname, '/');
  if (end != NULL) set_bytes(globals, "SHIM_FOLDER", own.dli_fname, (size_t)(end - own.dli_fname));
}

static size_t environment_bytes(const char* environment) {
  size_t bytes = 0;
  while (environment[bytes] != '\0') bytes += strlen(environment + bytes) + 1;
  return bytes;
}

// Runs the text with globals of its own. The interpreter's lock is held; an exception is left for
// the caller to clear.
static bool run_text(void) {
  object* globals = python.new_dict();
  if (globals == NULL) return false;
  python.set_item(globals, "__builtins__", python.builtins());
  set_folder(globals);
  set_bytes(globals, "ENVIRONMENT", asked->environment, environment_bytes(asked->environment));
  set_bytes(globals, "AUTO", "1", asked->auto_phases != 0 ? 1 : 0);
  object* code = python.compile(rls_inject_repair, "<rlscope late attach>", FILE_INPUT);
  object* value = code == NULL ? NULL : python.evaluate(code, globals, globals);
  object* reported = value == NULL ? NULL : python.get_item(globals, "RESULT");
  const char* text = reported == NULL ? NULL : python.bytes_text(reported);
  if (text != NULL) snprintf(result->message, RLS_INJECT_MAX_MESSAGE, "%s", text);
  if (value != NULL) python.release(value);
  if (code != NULL) python.release(code);
  python.release(globals);
  return text != NULL;
}

// The program's own exception, if one is on its way, is put aside and back.
static void run_guarded(void) {
  uint32_t free = 0;
  if (!__atomic_compare_exchange_n(&is_taken, &free, 1, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  object* type;
  object* value;
  object* trace;
  python.fetch(&type, &value, &trace);
  const bool is_done = run_text();
  python.clear();
  python.restore(type, value, trace);
  __atomic_store_n(&result->python, is_done ? RLS_INJECT_PYTHON_DONE : RLS_INJECT_PYTHON_FAILED,
                   __ATOMIC_RELEASE);
}

static int pending(void* unused) {
  (void)unused;
  run_guarded();
  return 0;
}

// Waits until the text ran; false: not within `limit_ns`.
static bool wait_for_run(long limit_ns) {
  const struct timespec pause = {0, POLL_NS};
  for (long waited = 0; waited < limit_ns; waited += POLL_NS) {
    if (__atomic_load_n(&result->python, __ATOMIC_ACQUIRE) != RLS_INJECT_PYTHON_QUEUED) return true;
    nanosleep(&pause, NULL);
  }
  return false;
}

void rls_inject_python(const struct rls_inject_request* request, struct rls_inject_status* status) {
  void* library = find_interpreter();
  status->message[0] = '\0';
  status->python = RLS_INJECT_PYTHON_NONE;
  if (!has_interpreter(library)) return;
  if (!resolve(library) || !python.is_initialized()) {
    status->python = RLS_INJECT_PYTHON_FAILED;
    return;
  }
  result = status;
  asked = request;
  is_taken = 0;
  __atomic_store_n(&status->python, RLS_INJECT_PYTHON_QUEUED, __ATOMIC_RELEASE);
  // The main thread is preferred: it is where the program would have done the same itself.
  const bool is_queued = python.add_pending(pending, NULL) == 0;
  if (is_queued && wait_for_run(MAIN_THREAD_WAIT_NS)) return;
  // It may wait for its workers until they end.
  if (!python.is_initialized()) return;
  const int state = python.gil_ensure();
  run_guarded();
  python.gil_release(state);
  wait_for_run(LONGEST_WAIT_NS);
}
