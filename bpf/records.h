/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The wire format: every record that the kernel half writes, byte by byte.
 *
 * Included by the BPF programs, by the C++ collector and by the decoder. All
 * times are CLOCK_MONOTONIC nanoseconds (bpf_ktime_get_ns). Fields are explicit,
 * there is no implicit padding, and every size is asserted below. A change of
 * any of them bumps RLS_WIRE_VERSION, which the spool header carries.
 *
 * In the ring and in the spool a record stands behind the frame header of a BPF
 * ring buffer: u32 length (bit 31 busy, bit 30 discarded), u32 page offset, then
 * the record, padded to 8 bytes.
 */
#ifndef RLS_RECORDS_H
#define RLS_RECORDS_H

#ifdef RLS_BPF_SIDE
typedef unsigned char rls_u8;
typedef unsigned short rls_u16;
typedef unsigned int rls_u32;
typedef unsigned long long rls_u64;
typedef int rls_s32;
#else
#include <stdint.h>
typedef uint8_t rls_u8;
typedef uint16_t rls_u16;
typedef uint32_t rls_u32;
typedef uint64_t rls_u64;
typedef int32_t rls_s32;
#endif

#define RLS_WIRE_VERSION 6
#define RLS_COMM_LEN 16
#define RLS_FILENAME_LEN 128
#define RLS_ARGS_LEN 512
#define RLS_TITLE_LEN 128
#define RLS_TITLE_HEAD 5 /* so many bytes a name and a title have in common, if they are one */

enum rls_record_kind {
	RLS_REC_NONE = 0,
	RLS_REC_THREAD = 1,	 /* a thread entered the trace: created, or found at attach */
	RLS_REC_CYCLE = 2,	 /* one closed off-CPU interval and the on-CPU interval after it */
	RLS_REC_CLOSE = 3,	 /* the state a thread was in when the recording stopped */
	RLS_REC_EXEC = 4,	 /* a process replaced its program */
	RLS_REC_NAME = 5,	 /* a thread was renamed */
	RLS_REC_EXIT = 6,	 /* a thread called exit */
	RLS_REC_CLOCK = 7,	 /* one instant on three clocks (written by the collector) */
	RLS_REC_CALL = 8,	 /* one call of a probed function, from entry to return */
	RLS_REC_GIL_RELEASE = 9, /* one interval in which a thread had given the GIL away */
	RLS_REC_SAMPLE = 10, /* where a running thread was at a tick (written by the collector) */
	RLS_REC_STACK = 11,  /* the Python functions of a sample (written by the collector) */
	RLS_REC_OTHER_RUN =
		12, /* a program outside the trace had a CPU that a traced thread waited for */
	RLS_REC_QUOTA = 13,   /* the CPU quota of its cgroup keeps a thread from running */
	RLS_REC_MESSAGE = 14, /* a message that its reader did not sleep for */
	RLS_REC_TITLE = 15,   /* a process was renamed, and what ps shows of it as well */
	RLS_REC_KINDS = 16,
};

/* What a thread computes: the layers of the vocabulary, in its order. */
enum rls_layer {
	RLS_LAYER_NONE = 0,
	RLS_LAYER_PYTHON = 1,
	RLS_LAYER_SIMULATOR = 2,
	RLS_LAYER_BACKEND = 3,
	RLS_LAYER_CUDA_API = 4,
	RLS_LAYER_SPIN = 5,
	RLS_LAYER_OTHER = 6, /* native code of no layer that the rules name */
	RLS_LAYERS = 7,
};

/*
 * Why a thread left the CPU of its own accord: the system call it is in, and what it waits for
 * there. 0: not known, or it did not wait in a system call.
 *
 *   bits 48..63  number of the system call, plus 1
 *   bits 0..47   of a futex call its address, and bit 47 where it waits as those of a mutex do
 *                (RLS_REASON_MUTEX); of a call that waits for one file: bits 44..47 the
 *                RLS_FILE_* it is, bits 0..31 its inode; of poll and select: bits 0..31 how many
 *                files, bits 44..47 the RLS_FILE_* of the only one; of any other call 0
 */
#define RLS_REASON(call, detail) \
	(((rls_u64)(call) + 1) << 48 | ((rls_u64)(detail)&0xffffffffffffULL))
/* User space ends below it. A mutex of the C library waits while its word is 2. */
#define RLS_REASON_MUTEX (1ULL << 47)
#define RLS_MUTEX_WAITED_FOR 2
#define RLS_REASON_FILE(type, low) ((rls_u64)(type) << 44 | (rls_u32)(low))

enum rls_file_type {
	RLS_FILE_UNKNOWN = 0,
	RLS_FILE_PIPE = 1,
	RLS_FILE_SOCKET = 2,
	RLS_FILE_DISK = 3,   /* a regular file, a directory or a block device */
	RLS_FILE_DEVICE = 4, /* a character device: a terminal, a GPU */
	RLS_FILE_EVENT = 5,  /* eventfd, timerfd, epoll and other files without a name */
};

/* What a thread does off the CPU; the letter is that of ps(1). */
enum rls_off_state {
	RLS_OFF_RUNNABLE = 0, /* R: preempted, yielded, or new and waiting for its first turn */
	RLS_OFF_SLEEPING = 1, /* S, and the rare T, t, P, I: waits until woken */
	RLS_OFF_BLOCKED = 2,  /* D: waits and cannot be interrupted, as a rule for a disk */
	RLS_OFF_DEAD = 3,     /* X, Z: never runs again */
};

/* Wakers that are no traced thread; a traced one is its thread_id (> 0). */
#define RLS_WAKER_NONE 0	 /* no wakeup: preempted, or none was seen */
#define RLS_WAKER_INTERRUPT (-1) /* a timer or a device: cannot be told apart */
#define RLS_WAKER_OUTSIDE (-2)	 /* a thread outside the traced process tree */
#define RLS_WAKER_UNKNOWN (-3)	 /* the current thread, if it was no interrupt: not known */
#define RLS_WAKER_TIMER (-4)	 /* a timer */
#define RLS_WAKER_DEVICE (-5)	 /* an interrupt that was no timer: a device, the network */

/* How a thread entered the trace. */
#define RLS_ENTERED_CREATED 0 /* its creation was seen */
#define RLS_ENTERED_FOUND 1   /* it existed when the recorder attached */

#define RLS_UNKNOWN_EXIT_STATUS ((rls_s32)0x80000000)

/*
 * thread_id is ours: counted up from 1 in the order threads enter the trace,
 * never reused, so that a reused tid cannot join two lives. tid and tgid are
 * those of the initial pid namespace, ns_tid and ns_tgid those that the recorder
 * sees in its own /proc (0: not known, the same as the initial ones).
 */
struct rls_rec_thread {
	rls_u16 kind;
	rls_u8 entered;	  /* RLS_ENTERED_* */
	rls_u8 off_state; /* state at ts_ns unless it was running: enum rls_off_state */
	rls_u32 thread_id;
	rls_u64 ts_ns;	 /* from here on its states are recorded */
	rls_u64 born_ns; /* when the kernel created it; 0: not known */
	rls_u32 tid;
	rls_u32 tgid; /* 0: not known */
	rls_u32 ns_tid;
	rls_u32 ns_tgid;
	rls_u32 creator_thread_id; /* traced thread that created it; 0: none, or not known */
	rls_u32 parent_tgid;	   /* initial namespace; 0: not known */
	rls_u64 off_reason;	   /* of off_state, if it is one of waiting: see RLS_REASON */
	char comm[RLS_COMM_LEN];
};

/*
 * One scheduling cycle, written when a thread leaves the CPU:
 *
 *   off_ns            wake_ns           in_ns              out_ns
 *     | off_state ...   | runnable ...    | running on cpu ... |
 *
 * off_ns is the out_ns of the cycle before, so a gap between the two is a lost
 * record. wake_ns is 0 where no wakeup was seen; it can lie slightly before
 * off_ns when the waker was faster than the switch: read it as off_ns then.
 */
struct rls_rec_cycle {
	rls_u16 kind;
	rls_u8 off_state; /* between off_ns and the wakeup: enum rls_off_state */
	rls_u8 out_state; /* from out_ns on: enum rls_off_state */
	rls_u32 thread_id;
	rls_u64 off_ns;
	rls_u64 wake_ns;
	rls_u64 in_ns;
	rls_u64 out_ns;
	rls_s32 waker; /* thread_id or RLS_WAKER_*: whoever made it runnable */
	rls_u16 cpu;
	rls_u16 flags;	    /* RLS_CYCLE_* */
	rls_u64 out_reason; /* of out_state, if it is one of waiting: see RLS_REASON */
};

/*
 * The switch-in was not traced: the OS kernel skips programs now and then, or keeps
 * them from seeing what some threads do. in_ns then follows from its CPU accounting,
 * or is 0 where that is out of reach: then nothing is known of [off_ns, out_ns).
 */
#define RLS_CYCLE_UNSEEN_SWITCH_IN 1

/*
 * The open end of a thread: the cycle that was under way when the recording
 * stopped. in_ns is 0 unless the thread was running. Times after the end of the
 * trace (which the collector notes before it detaches) are cut there.
 */
struct rls_rec_close {
	rls_u16 kind;
	rls_u8 off_state;
	rls_u8 reserved;
	rls_u32 thread_id;
	rls_u64 off_ns;
	rls_u64 wake_ns;
	rls_u64 in_ns;
	rls_s32 waker;
	rls_u32 cpu;
};

struct rls_rec_exec {
	rls_u16 kind;
	rls_u16 args_len;  /* bytes of args in use; 0: not known */
	rls_u32 thread_id; /* 0: command of the process ns_tgid, read from /proc at attach */
	rls_u64 ts_ns;
	rls_u32 tid;	 /* after the exec: the tgid */
	rls_u32 old_tid; /* before it; differs where a thread other than the leader called exec */
	rls_u32 ns_tgid; /* only where thread_id is 0 */
	rls_u32 args_total; /* bytes of the argument list, of which args holds the first */
	char filename[RLS_FILENAME_LEN];
	char args[RLS_ARGS_LEN]; /* NUL between arguments */
};

struct rls_rec_name {
	rls_u16 kind;
	rls_u16 reserved;
	rls_u32 thread_id;
	rls_u64 ts_ns;
	char comm[RLS_COMM_LEN];
};

struct rls_rec_exit {
	rls_u16 kind;
	rls_u16 reserved;
	rls_u32 thread_id;
	rls_u64 ts_ns;
	rls_s32 status; /* as wait(2) reports it, or RLS_UNKNOWN_EXIT_STATUS */
	rls_u32 tgid;
};

struct rls_rec_clock {
	rls_u16 kind;
	rls_u16 reserved;
	rls_u32 reserved2;
	rls_u64 ts_ns; /* CLOCK_MONOTONIC */
	rls_u64 realtime_ns;
	rls_u64 boottime_ns;
};

/*
 * One call of a probed function, written when it returned. Calls of one thread are nested:
 * parent_layer and depth are those of the probed calls around it (depth 0: none).
 */
struct rls_rec_call {
	rls_u16 kind;
	rls_u8 layer;	     /* enum rls_layer: of what was called */
	rls_u8 parent_layer; /* of the innermost probed call around it; RLS_LAYER_NONE: none */
	rls_u32 thread_id;
	rls_u64 start_ns;
	rls_u64 end_ns;
	rls_u32 site_id;
	rls_u16 depth;
	rls_u16 flags; /* RLS_CALL_* */
};

/* It did not return: an exception or a longjmp left it. end_ns is when that was noticed. */
#define RLS_CALL_UNWOUND 1
/* It was still under way when the recording stopped. */
#define RLS_CALL_OPEN 2

/* From PyEval_SaveThread or its like to the end of PyEval_RestoreThread on the same thread. */
struct rls_rec_gil_release {
	rls_u16 kind;
	rls_u16 reserved;
	rls_u32 thread_id;
	rls_u64 start_ns;
	rls_u64 end_ns;
};

struct rls_rec_sample {
	rls_u16 kind;
	rls_u8 layer; /* enum rls_layer; RLS_LAYER_NONE: not known */
	rls_u8 flags; /* RLS_SAMPLE_* */
	rls_u32 thread_id;
	rls_u64 ts_ns;
	rls_u32 stack_id; /* 0: no Python function was found */
	rls_u32 reserved;
};

#define RLS_SAMPLE_IN_OS_KERNEL 1 /* the tick hit the OS kernel, working for the thread */
#define RLS_SAMPLE_BY_STACK 2	  /* the layer is that of a caller, found on the stack */

/* Followed by `bytes` bytes of UTF-8: the frames, outermost first, each ended by a newline. */
struct rls_rec_stack {
	rls_u16 kind;
	rls_u16 bytes; /* at most RLS_STACK_BYTES */
	rls_u32 stack_id;
};
#define RLS_STACK_BYTES 4000

/*
 * One stay of a program outside the trace on a CPU, written when a traced thread got that CPU which
 * had been runnable before the end of the stay. Each stay is written once.
 */
struct rls_rec_other_run {
	rls_u16 kind;
	rls_u16 cpu;
	rls_u32 tgid; /* in the initial pid namespace */
	rls_u64 start_ns;
	rls_u64 end_ns;
	char comm[RLS_COMM_LEN]; /* of its main thread */
};

/* From ts_ns on, when it becomes runnable, the thread waits for the quota to be refilled. */
struct rls_rec_quota {
	rls_u16 kind;
	rls_u16 reserved;
	rls_u32 thread_id;
	rls_u64 ts_ns;
};

/*
 * A message that its reader did not sleep for: it was waiting for a CPU when the message came, or
 * ran and had just asked for it in vain. Written by the reader when it read it, in the stay on a
 * CPU after that wait, or in which it asked.
 */
struct rls_rec_message {
	rls_u16 kind;
	rls_u16 file;	   /* enum rls_file_type: RLS_FILE_PIPE or RLS_FILE_SOCKET */
	rls_u32 thread_id; /* the reader */
	rls_u64 sent_ns;
	rls_u64 read_ns;
	rls_u32 sender_thread_id;
	rls_u32 reserved;
};

/*
 * A thread renamed itself after it had written the same, and more, over the arguments of its
 * process (setproctitle): what ps shows from ts_ns on, cut at RLS_TITLE_LEN - 1 bytes. A NUL ends
 * it earlier.
 */
struct rls_rec_title {
	rls_u16 kind;
	rls_u16 bytes; /* of title in use */
	rls_u32 thread_id;
	rls_u64 ts_ns;
	char title[RLS_TITLE_LEN];
};

/* Per CPU and record kind: records that found the ring full. */
struct rls_loss {
	rls_u64 count;
	rls_u64 first_ns; /* time of the first of them */
};

#define RLS_ASSERT_SIZE(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), "wire size of " #type)
#if defined(__cplusplus)
#undef RLS_ASSERT_SIZE
#define RLS_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "wire size of " #type)
#endif
RLS_ASSERT_SIZE(rls_rec_thread, 72);
RLS_ASSERT_SIZE(rls_rec_cycle, 56);
RLS_ASSERT_SIZE(rls_rec_close, 40);
RLS_ASSERT_SIZE(rls_rec_exec, 672);
RLS_ASSERT_SIZE(rls_rec_name, 32);
RLS_ASSERT_SIZE(rls_rec_exit, 24);
RLS_ASSERT_SIZE(rls_rec_clock, 32);
RLS_ASSERT_SIZE(rls_rec_call, 32);
RLS_ASSERT_SIZE(rls_rec_gil_release, 24);
RLS_ASSERT_SIZE(rls_rec_sample, 24);
RLS_ASSERT_SIZE(rls_rec_stack, 8);
RLS_ASSERT_SIZE(rls_rec_other_run, 40);
RLS_ASSERT_SIZE(rls_rec_quota, 16);
RLS_ASSERT_SIZE(rls_rec_message, 32);
RLS_ASSERT_SIZE(rls_rec_title, 144);
RLS_ASSERT_SIZE(rls_loss, 16);

#endif /* RLS_RECORDS_H */
