// The memory that a process shares with the collector: made once per incarnation of it, announced,
// found again.
//
// The system calls are made here and in thread.c, at the first event of a process or thread; after
// that a push or pop makes none.
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "seccomp_filters.h"
#include "shim.h"

// Out of the way of programs that count on small numbers.
#define FIRST_FD 200
// How long a collector that is behind may keep us: once per process, never per event.
#define ANNOUNCE_WAIT_US 100000
#define STARTING UINT32_MAX
#define MIN_ADDRESS_SPACE (16 * RLS_SHIM_FILE_BYTES)
#define MAX_YIELDS 10000

struct rls_process rls_process;

static const volatile uint32_t kNotAlive = 0;
const volatile uint32_t* rls_incarnation = &kNotAlive;

static uint32_t* incarnation_page;  // wiped in a forked child
static uint32_t incarnations;       // not wiped: counts on across forks
static bool is_refused;             // there is no memory to be had
static int memfd = -1;              // never used again, except to find out whether it is still ours
static ino_t memfd_inode;
static char session[RLS_SHIM_MAX_SESSION];
static uint32_t session_bytes;

static bool make_life_page(void) {
  const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  void* page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, bytes);
    return false;
  }
  incarnation_page = page;
  rls_incarnation = incarnation_page;
  return true;
}

// At load, when there is one thread in here and the environment is the one we were started with.
__attribute__((constructor)) static void prepare(void) {
  const char* name = getenv("RLSCOPE_SESSION");
  if (name != NULL && strlen(name) < sizeof(session)) {
    session_bytes = (uint32_t)strlen(name);
    memcpy(session, name, session_bytes);
  }
  is_refused = rls_has_own_seccomp_filter() || !make_life_page();
}

// A parent that was traced by an attached collector tells its children where to announce.
static void inherit_session(const struct rls_shim_header* parent) {
  const uint32_t bytes = parent->session_bytes;
  if (bytes == 0 || bytes >= sizeof(session)) return;
  memcpy(session, parent->session, bytes);
  session_bytes = bytes;
}

// The only way to tell of it that needs no system call: in the memory of the parent.
static void tell_parent_of_refusal(void) {
  if (rls_process.header != NULL)
    __atomic_fetch_add(&rls_process.header->refused_children, 1, __ATOMIC_RELAXED);
}

// The program may have closed it, and got the number for a file of its own.
static bool is_own_memory(int fd) {
  struct stat status;
  return fd >= 0 && fstat(fd, &status) == 0 && status.st_ino == memfd_inode &&
         (status.st_mode & S_IFMT) == S_IFREG && status.st_size == (off_t)RLS_SHIM_FILE_BYTES;
}

// What a forked child has of its parent: the mapping, and perhaps the descriptor.
static void forget_parent(void) {
  if (rls_process.header == NULL) return;
  inherit_session(rls_process.header);
  munmap(rls_process.header, RLS_SHIM_FILE_BYTES);
  rls_process.header = NULL;
  if (is_own_memory(memfd)) close(memfd);
  memfd = -1;
}

// Growing a file beyond the limit is a signal that kills.
static bool may_make_file(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= RLS_SHIM_FILE_BYTES);
}

// Of a small address space the program may need all.
static bool may_map(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= MIN_ADDRESS_SPACE);
}

// Out of the way of the program. Takes `low`.
static int move_up(int low) {
  const int high = fcntl(low, F_DUPFD_CLOEXEC, FIRST_FD);
  if (high < 0) return low;
  close(low);
  return high;
}

static int make_memfd(void) {
  const int low = memfd_create(RLS_SHIM_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (low < 0) return -1;
  // A reader with more rights than we have maps this: it must not shrink under it.
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (ftruncate(low, (off_t)RLS_SHIM_FILE_BYTES) != 0 || fcntl(low, F_ADD_SEALS, seals) != 0) {
    close(low);
    return -1;
  }
  return move_up(low);
}

static void fill_header(struct rls_shim_header* header) {
  header->version = RLS_SHIM_VERSION;
  header->header_bytes = RLS_SHIM_HEADER_BYTES;
  header->file_bytes = RLS_SHIM_FILE_BYTES;
  header->slot_count = RLS_SHIM_SLOTS;
  header->slot_bytes = RLS_SHIM_SLOT_BYTES;
  header->control_bytes = RLS_SHIM_CONTROL_BYTES;
  header->ring_bytes = RLS_SHIM_RING_BYTES;
  header->pid = (uint32_t)getpid();
  header->created_ns = rls_now_ns();
  // Where a recorder started us it is there, or will be; else nobody reads until one says so.
  header->reader = session_bytes > 0 ? 1 : 0;
  header->session_bytes = session_bytes;
  memcpy(header->session, session, session_bytes);
  __atomic_store_n(&header->magic, RLS_SHIM_MAGIC, __ATOMIC_RELEASE);
}

static struct rls_shim_header* map_memory(void) {
  const int fd = make_memfd();
  if (fd < 0) return NULL;
  void* memory =
      mmap(NULL, RLS_SHIM_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  struct stat status;
  if (memory == MAP_FAILED || fstat(fd, &status) != 0) {
    close(fd);
    return NULL;
  }
  madvise(memory, RLS_SHIM_FILE_BYTES, MADV_DONTDUMP);
  memfd = fd;
  memfd_inode = status.st_ino;
  fill_header(memory);
  return memory;
}

// Hands the memfd to the collector. From here on the kernel keeps it for the collector, whatever
// becomes of us. Without an answer it is found through /proc. False: nobody listens there, or in
// another network namespace.
static bool announce(void) {
  if (session_bytes == 0) return false;
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  const struct timeval wait = {0, ANNOUNCE_WAIT_US};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path + 1, session, session_bytes);
  uint64_t body = RLS_SHIM_MAGIC;
  struct iovec part = {&body, sizeof(body)};
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr message = {
      .msg_iov = &part,
      .msg_iovlen = 1,
      .msg_control = control.bytes,
      .msg_controllen = sizeof(control.bytes),
  };
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &memfd, sizeof(memfd));
  const socklen_t address_bytes =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + session_bytes);
  const bool is_connected = connect(fd, (const struct sockaddr*)&address, address_bytes) == 0;
  const bool is_heard = is_connected || errno != ECONNREFUSED;
  if (is_connected) (void)sendmsg(fd, &message, MSG_NOSIGNAL);
  close(fd);
  return is_heard;
}

static bool start(void) {
  // A filter that the program set for itself may kill it for the calls below.
  if (rls_has_own_seccomp_filter() || !may_make_file() || !may_map()) {
    tell_parent_of_refusal();
    return false;
  }
  forget_parent();
  struct rls_shim_header* header = map_memory();
  if (header == NULL) return false;
  rls_process.is_heard = announce();
  rls_process.seed = header->created_ns ^ ((uint64_t)header->pid << 32);
  rls_process.header = header;
  return true;
}

// A reader holds a lock on an opening of its own; the OS kernel takes it back when it ends.
void rls_process_drop_dead_reader(void) {
  char path[32];
  if (rls_has_own_seccomp_filter() || !is_own_memory(memfd)) return;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
  const int low = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (low < 0) return;
  const int fd = move_up(low);
  if (is_own_memory(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    // Under the lock: one that comes now waits for none of this, and says so afterwards.
    __atomic_store_n(&rls_process.header->reader, 0, __ATOMIC_RELEASE);
    // A child that was forked meanwhile has this opening too.
    flock(fd, LOCK_UN);
  }
  close(fd);
}

// Another thread is at it: this takes microseconds, or the wait of a full announcement queue.
static bool wait_for_start(void) {
  for (int yields = 0; yields < MAX_YIELDS; ++yields) {
    const uint32_t now = __atomic_load_n(incarnation_page, __ATOMIC_ACQUIRE);
    if (now != STARTING) return now != 0;
    sched_yield();
  }
  return false;
}

bool rls_process_start(void) {
  if (is_refused) return false;
  uint32_t none = 0;
  if (!__atomic_compare_exchange_n(incarnation_page, &none, STARTING, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_ACQUIRE)) {
    return none != STARTING || wait_for_start();
  }
  is_refused = !start();
  __atomic_store_n(incarnation_page, is_refused ? 0 : ++incarnations, __ATOMIC_RELEASE);
  return !is_refused;
}
