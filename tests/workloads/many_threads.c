// Threads without end that wait, whose names a terminal would obey; their number is the argument.
// Prints how many there were.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { kStackBytes = 1 << 14, kNameBytes = 16 };
static int gate[2];

static void* wait_named(void* number) {
  char name[kNameBytes];
  char byte;
  snprintf(name, sizeof(name), "\x1b[31m%ld\a", (long)number);
  prctl(PR_SET_NAME, name);
  return read(gate[0], &byte, 1) < 0 ? number : NULL;
}

int main(int count, char** words) {
  const long wanted = count > 1 ? atol(words[1]) : 0;
  pthread_t* threads = calloc((size_t)wanted + 1, sizeof(*threads));
  pthread_attr_t attributes;
  long made = 0;
  if (threads == NULL || pipe(gate) != 0) return 1;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  while (made < wanted && pthread_create(&threads[made], &attributes, wait_named, (void*)made) == 0)
    ++made;
  close(gate[1]);
  for (long at = 0; at < made; ++at) pthread_join(threads[at], NULL);
  printf("%ld\n", made);
  return 0;
}
