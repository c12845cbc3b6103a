// Calls of known number and nesting, and every way to leave a function other than returning.
//
//   native_nesting WHAT [NUMBER [THREADS]]
//
// Says "ready PID", waits for a line, does WHAT, and ends with a JSON line of what it did. What has
// two parts says "half" and waits for another line between them. Entries of outer, middle and inner
// are exact: outer calls middle calls inner; a call of inner takes the nanoseconds that it is
// given.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone))
// Makes a frame, so that no probe point has to be single-stepped, and keeps calls from merging.
#define FRAME() __asm__ volatile("" ::: "memory", "rbx", "r12")

static long number = 1;
static long spin_ns;
static volatile long sink;
static volatile int is_reported;
static long calls_made;
static __thread jmp_buf away;
static char** arguments;
static char below[65536];

static long now_ns(void) {
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void wait_for_line(void) {
  char byte;

  while (read(0, &byte, 1) == 1 && byte != '\n')
    ;
}

PROBED void inner(long ns) {
  long end = ns ? now_ns() + ns : 0;

  FRAME();
  sink++;
  while (ns && now_ns() < end)
    ;
}

PROBED void middle(long ns) {
  FRAME();
  inner(ns);
  sink++;
}

PROBED void outer(long ns) {
  FRAME();
  middle(ns);
  sink++;
}

PROBED void recurse(long depth) {
  FRAME();
  if (depth > 1) recurse(depth - 1);
  sink++;
}

PROBED void jump_out(void) {
  FRAME();
  sink++;
  longjmp(away, 1);
}

PROBED void jump_out_below(void) {
  FRAME();
  jump_out();
  sink++;
}

// Keeps its frame until it has jumped: inner returns for both.
PROBED void jump_on(void) {
  __asm__ volatile("push %rbp\n\tpop %rbp\n\txor %edi, %edi\n\tjmp inner");
}

PROBED void fork_inside(int* child) {
  FRAME();
  *child = fork();
  sink++;
}

PROBED void exec_inside(void) {
  FRAME();
  execl("/proc/self/exe", arguments[0], "quick", "5", NULL);
  sink++;
}

PROBED void leave_thread(void) {
  FRAME();
  pthread_exit(NULL);
}

PROBED void leave_process(void) {
  FRAME();
  _exit(7);
}

PROBED void hold(void) {
  FRAME();
  printf("half\n");
  fflush(stdout);
  wait_for_line();
  sink++;
}

PROBED void raise_inside(void) {
  FRAME();
  raise(SIGUSR1);
  sink++;
}

static void on_signal(int signal_number) {
  (void)signal_number;
  inner(0);
}

static void* nest(void* nothing) {
  for (long i = 0; i < number; i++) outer(spin_ns);
  return nothing;
}

// Counts for itself: what all threads count in `sink` is not exact.
static void* call_until_told(void* nothing) {
  long made = 0;

  for (; !is_reported; made++) inner(0);
  __atomic_add_fetch(&calls_made, made, __ATOMIC_RELAXED);
  return nothing;
}

static void* tell(void* nothing) {
  wait_for_line();
  is_reported = 1;
  return nothing;
}

static void* leave(void* nothing) {
  leave_thread();
  return nothing;
}

static void in_threads(void* (*work)(void*), int threads) {
  pthread_t made[64];

  for (int i = 0; i < threads; i++) pthread_create(&made[i], NULL, work, NULL);
  for (int i = 0; i < threads; i++) pthread_join(made[i], NULL);
}

static void jump(void (*function)(void)) {
  for (volatile long i = 0; i < number; i++)
    if (setjmp(away) == 0) function();
  inner(0);
}

static void* handle_on(stack_t own) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

  sigaltstack(&own, NULL);
  sigaction(SIGUSR1, &action, NULL);
  for (long i = 0; i < number; i++) raise_inside();
  inner(0);
  return NULL;
}

static void* handle_below(void* nothing) {
  (void)nothing;
  return handle_on((stack_t){.ss_sp = below, .ss_size = sizeof(below)});
}

// In a frame of the thread itself, above all that it calls.
static void* handle_above(void* nothing) {
  char above[65536];

  (void)nothing;
  return handle_on((stack_t){.ss_sp = above, .ss_size = sizeof(above)});
}

static int do_what(const char* what, int threads) {
  int child = -1, status = 0;
  pthread_t teller;

  if (!strcmp(what, "nest"))
    in_threads(nest, threads);
  else if (!strcmp(what, "until_told")) {
    pthread_create(&teller, NULL, tell, NULL);
    in_threads(call_until_told, threads);
    pthread_join(teller, NULL);
    sink = calls_made;
  } else if (!strcmp(what, "quick"))
    for (long i = 0; i < number; i++) inner(0);
  else if (!strcmp(what, "halves")) {
    in_threads(nest, threads);
    hold();
    in_threads(nest, threads);
  } else if (!strcmp(what, "recurse"))
    recurse(number);
  else if (!strcmp(what, "jump"))
    jump(jump_out);
  else if (!strcmp(what, "jump_far"))
    jump(jump_out_below);
  else if (!strcmp(what, "tail"))
    for (long i = 0; i < number; i++) jump_on();
  else if (!strcmp(what, "signal"))
    in_threads(handle_below, 1);
  else if (!strcmp(what, "signal_above"))
    in_threads(handle_above, 1);
  else if (!strcmp(what, "leave_thread"))
    in_threads(leave, threads);
  else if (!strcmp(what, "leave_process"))
    leave_process();
  else if (!strcmp(what, "exec"))
    exec_inside();
  else if (!strcmp(what, "hold"))
    hold();
  else if (!strcmp(what, "fork")) {
    fork_inside(&child);
    for (long i = 0; i < number; i++) inner(0);
    if (child == 0) _exit(3);
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  } else
    return -1;
  return 0;
}

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "";
  int threads = count > 3 ? atoi(words[3]) : 1;
  long started;
  int answer;

  arguments = words;
  number = count > 2 ? atol(words[2]) : 1;
  spin_ns = count > 4 ? atol(words[4]) : 0;
  printf("ready %d\n", getpid());
  fflush(stdout);
  wait_for_line();
  started = now_ns();
  answer = do_what(what, threads);
  printf("{\"answer\": %d, \"took_ns\": %ld, \"sink\": %ld}\n", answer, now_ns() - started, sink);
  fflush(stdout);
  wait_for_line();
  return 0;
}
