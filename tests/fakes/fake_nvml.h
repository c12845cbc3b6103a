/* What the files of the fake NVML share. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

enum {
  SUCCESS = 0,
  INVALID = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  MAX_DEVICES = 8,
  MAX_FUNCTIONS = 64,
};

struct device {
  unsigned index;
  int instance; /* -1: a whole GPU */
  unsigned powers, energies, memories;
};

struct sample {
  unsigned long long time_us;
  unsigned long long value;
};

struct memory {
  unsigned long long total, free, used;
};

struct memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

struct gpm_metric {
  unsigned id;
  int result;
  double value;
  const char* texts[3];
};

struct gpm_request {
  unsigned version, count;
  void *before, *after;
  struct gpm_metric metrics[1];
};

/* Whether this call of a function is refused; it may never return. */
int fake_nvml_enter(const char* name);

#define ENTER()                              \
  do {                                       \
    int refused = fake_nvml_enter(__func__); \
    if (refused) return refused;             \
  } while (0)

#endif /* FAKE_NVML_H */
