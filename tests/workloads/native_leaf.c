// A library that is loaded and unloaded again and again while it is probed.

__attribute__((noinline)) long native_leaf(long value) {
  __asm__ volatile("" ::: "memory", "rbx");
  return value * 3 + 1;
}
